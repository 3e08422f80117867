"""Every patch of RecBole: what it replaces, by what, why, and the source that it was written for."""

from typing import Literal, NamedTuple

RECBOLE = "1.2.1"
# Without what RecBole's metadata asks for: its Ray has no build for Python 3.12 and later. setup.py has the rest.
INSTALL = f"pip install --no-deps recbole=={RECBOLE}"
Kind = Literal["library drift", "bug", "security", "message", "speed", "feature"]


class Patch(NamedTuple):
    """One function of RecBole's, and what is called instead.

    Args:
        target: `module:name` in RecBole; or what a function of RecBole's uses, as `pd.read_csv` in its module.
        replacement: `module:name` here; it takes what it replaces as its first argument.
        kind: library drift (a library has changed since), bug, security (a file or setting runs code), message (a
            refusal that says what is wrong), speed (the same result sooner), feature (what this package adds).
        issues: Numbers of RecBole's issues.
        source: The first 12 hex digits of the SHA-256 of the function's source.
        reason: What is wrong in RecBole, or what is added.
        within: The function of RecBole's that uses what is replaced, if that is not RecBole's own.
    """

    target: str
    replacement: str
    kind: Kind
    issues: tuple[int, ...]
    source: str
    reason: str
    within: str = ""

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    @property
    def name(self) -> str:
        return self.target.partition(":")[2]


# fmt: off
PATCHES = (
    Patch("recbole.config.configurator:Config.__init__", ".settings:init", "feature", (), "36e945c4cd62",
          "Our models' settings are checked before any data is loaded, and refusals name the key."),
    Patch("recbole.config.configurator:Config._get_model_and_dataset", ".settings:get_model_and_dataset",
          "feature", (), "8dac22b5bb63",
          "A model keeps one name, whether it was given as AdapTauNGCF, AdapTau[NGCF] or a class."),
    Patch("recbole.config.configurator:Config._load_internal_config_dict", ".settings:load_internal_config_dict",
          "feature", (), "0c02574bc56f",
          "Our defaults, presets and the file beside the data come between RecBole's defaults and what the user "
          "gave."),
    Patch("recbole.config.configurator:Config._load_config_files", ".settings:load_config_files",
          "message", (), "e4ac488e5991",
          "A settings file that is missing, empty, not UTF-8 or not a mapping ends in a traceback that does not name "
          "it."),
    Patch("recbole.config.configurator:Config._build_yaml_loader", ".settings:build_yaml_loader",
          "security", (), "3bf22352dad4",
          "FullLoader builds Python objects from YAML tags, and the class is changed for the whole process."),
    Patch("recbole.config.configurator:Config._init_device", ".ranks:init_device", "bug", (1811, 2154), "d6b946b3b2e0",
          "nccl is hard-coded, also on CPUs, on a second machine one process logs and writes as the first does, and "
          "float32 products on a CPU are left to MKL, which takes twice as long on AMD's."),
    Patch("recbole.config.configurator:Config.compatibility_settings", ".libraries:compatibility_settings",
          "library drift", (2215,), "5030d75b2f92",
          "NumPy 2 has neither float_ nor complex_ nor unicode_, which every Config asks for."),
    Patch("recbole.config.configurator:eval", ".settings:literal", "security", (), "48152baf9a7a",
          "Every text among the settings is run as Python code.", within="Config._convert_config_dict"),
    Patch("recbole.trainer.hyper_tuning:eval", ".settings:literal", "security", (), "f1daf95df93e",
          "Every line of a search space is run as Python code.", within="HyperTuning._build_space_from_file"),
    Patch("recbole.trainer.hyper_tuning:np.random.RandomState", ".libraries:random_state",
          "library drift", (2215,), "d3b704057d16",
          "Since 0.2.6 hyperopt draws from NumPy's new generators, and an exhaustive search hands it an old one.",
          within="exhaustive_search"),
    Patch("recbole.model.context_aware_recommender.kd_dagfm:eval", ".settings:teacher", "security", (), "14d56667f334",
          "The name of the teacher is run as Python code.", within="KD_DAGFM.__init__"),
    Patch("recbole.model.general_recommender.ldiffrec:np.load", ".settings:load_array", "security", (), "64431ac367c2",
          "Python objects in item_emb.npy, a file that comes with the data, are unpickled.",
          within="LDiffRec.__init__"),
    Patch("recbole.data.dataset.dataset:pd.read_csv", ".loading:read_csv", "speed", (), "9948d02fed03",
          "The Python parser needs seconds for a million lines; the C parser reads the same.",
          within="Dataset._load_feat"),
    Patch("recbole.data.dataset.dataset:Dataset._load_feat", ".bad_data:load_feat", "bug", (), "9948d02fed03",
          "Rows without an id train as the padding where the split is given, lines after a quotation mark are lost, "
          "and a wrong column is a bare KeyError."),
    Patch("recbole.data.dataset.dataset:Dataset._from_scratch", ".bad_data:from_scratch", "bug", (), "cdbb8281d488",
          "A given test part keeps what is in its training part, which rewards a model for what it has memorised."),
    Patch("recbole.data.dataset.dataset:Dataset._fill_nan", ".libraries:fill_nan",
          "library drift", (2215,), "b156de9924b8",
          "Missing values are filled in place: pandas 2 warns of it, and pandas 3 fills nothing and says nothing."),
    Patch("recbole.data.dataset.dataset:Dataset._dataframe_to_interaction", ".libraries:dataframe_to_interaction",
          "library drift", (2215,), "b27637d6edd1",
          "The columns of pandas 3 are read-only, and PyTorch warns of every tensor that is made of one."),
    Patch("recbole.data.dataset.dataset:len", ".libraries:length", "library drift", (2215,), "51fd4947aa82",
          "pandas 3 hands the whole column to agg(len), so that sequences cannot be split.", within="Dataset._remap"),
    Patch("recbole.data.dataset.kg_dataset:len", ".libraries:length", "library drift", (2215,), "923e1b0d855b",
          "pandas 3 hands the whole column to agg(len), so that sequences cannot be split.",
          within="KnowledgeBasedDataset._reset_ent_remapID"),
    Patch("recbole.data.dataset.sequential_dataset:len", ".libraries:length", "library drift", (2215,), "68e01f93ec16",
          "pandas 3 hands the whole column to agg(len), so that every given sequence has the length of the column.",
          within="SequentialDataset._benchmark_presets"),
    Patch("recbole.data.dataset.dataset:Dataset._load_data", ".download:load_data", "bug", (1989,), "9da47b33da9c",
          "Processes wait for a download only if they find the folder absent, and one that comes late leaves the "
          "others waiting."),
    Patch("recbole.data.dataset.dataset:Dataset._download", ".download:download", "bug", (1989,), "d1cbb4b5ddff",
          "A single process waits for a process group that there is not, and a download that fails leaves half a "
          "folder behind."),
    Patch("recbole.data.dataset.dataset:Dataset._load_inter_feat", ".download:load_inter_feat",
          "message", (), "2f4931d7435d",
          "A missing file is a bare ValueError that does not say what the folder holds or how to convert it."),
    Patch("recbole.data.dataset.dataset:Dataset.build", ".splits:build", "message", (), "23efe0363311",
          "An empty part fails epochs later in a division by zero or an endless loop; false positives (noise_ratio) "
          "have no other way in."),
    Patch("recbole.data.utils:create_dataset", ".splits:create_dataset", "security", (), "1a2f76b26b3d",
          "A pickled dataset is read whenever it lies in checkpoint_dir: an old or a stranger's file takes the place "
          "of the data, and its code runs."),
    Patch("recbole.data.utils:load_split_dataloaders", ".splits:load_split_dataloaders", "security", (), "ad97dd4b6a7c",
          "A pickle of loaders is read whenever it lies in checkpoint_dir."),
    Patch("recbole.data.utils:_create_sampler", ".sampling:create_sampler", "bug", (), "9148d98aa2ee",
          "The RepeatableSampler counts popularity over validation and test interactions, too."),
    Patch("recbole.data.dataloader.general_dataloader:FullSortEvalDataLoader._set_user_property",
          ".loading:set_user_property", "speed", (), "30c1720325a7",
          "torch.tensor looks at each user's list of items element by element."),
    Patch("recbole.data.dataloader.abstract_dataloader:AbstractDataLoader.__init__", ".ranks:loader_init",
          "bug", (1811, 2154), "03bc7d40b609",
          "DistributedSampler repeats rows and shuffles by a seed of its own."),
    Patch("recbole.sampler.sampler:Sampler.get_used_ids", ".sampling:get_used_ids", "speed", (), "8658f8bd9b74",
          "A Python loop goes over every interaction of three parts for each sampler; users with every item are a "
          "bare ValueError."),
    Patch("recbole.sampler.sampler:Sampler._get_candidates_list", ".sampling:get_candidates_list",
          "bug", (), "61628d3ad241",
          "Popularity counts validation and test interactions, which tells the model what it is tested on."),
    Patch("recbole.sampler.sampler:Sampler.set_phase", ".sampling:set_phase", "bug", (), "5ea9c0b49c80",
          "Popularity sampling never ends for a user who has every item of the training part."),
    Patch("recbole.evaluator.collector:Collector.data_collect", ".evaluation:data_collect",
          "bug", (2131, 2191), "d8a344993f87",
          "The padding id counts as an item and as a user, so that coverage never reaches one."),
    Patch("recbole.evaluator.collector:Collector.get_data_struct", ".evaluation:get_data_struct",
          "bug", (2131, 2191), "b8062da76dd8",
          "ItemCoverage, GiniIndex, AveragePopularity and TailPercentage crash in .cpu() of a number; several "
          "processes do not share their users' lists."),
    Patch("recbole.evaluator.evaluator:Evaluator.evaluate", ".libraries:evaluate", "library drift", (), "fe87524bec74",
          "NumPy 2 shows every figure as np.float64(0.1), in logs and wherever a result is printed."),
    Patch("recbole.evaluator.metrics:AveragePopularity.get_pop", ".evaluation:get_pop", "speed", (), "69170289845c",
          "A Python loop goes over users times items."),
    Patch("recbole.evaluator.metrics:TailPercentage.get_tail", ".evaluation:get_tail", "speed", (), "6231f19295ce",
          "A Python loop goes over users times items."),
    Patch("recbole.model.general_recommender.ncl:NCL.run_kmeans", ".training:run_kmeans", "bug", (), "2fb95a8f249a",
          "faiss is asked for more clusters than there are points (1000 on ml-100k), and for a GPU whatever the "
          "device."),
    Patch("recbole.model.general_recommender.ncl:NCL.__init__", "..peers.fast_graphs:init", "speed", (), "590088adb0a9",
          "With fast_propagation the graph is CSR instead of COO."),
    Patch("recbole.model.general_recommender.ncl:NCL.ssl_layer_loss", "..peers.fast_graphs:ncl_layer_contrast",
          "speed", (), "d171d8e616db",
          "With fast_propagation a user's term is computed once a batch."),
    Patch("recbole.model.general_recommender.ncl:NCL.ProtoNCE_loss", "..peers.fast_graphs:ncl_cluster_contrast",
          "speed", (), "943a55288ac6",
          "With fast_propagation a user's term is computed once a batch."),
    Patch("recbole.model.general_recommender.lightgcn:LightGCN.__init__", "..peers.fast_graphs:init",
          "speed", (), "15b2e63e0e18",
          "With fast_propagation the graph is CSR instead of COO."),
    Patch("recbole.model.general_recommender.lightgcn:LightGCN.forward", "..peers.fast_graphs:lightgcn_forward",
          "speed", (), "fb716b5388a6",
          "With fast_propagation the mean of the layers is summed up instead of stacked."),
    Patch("recbole.model.general_recommender.ngcf:NGCF.__init__", "..peers.fast_graphs:init",
          "speed", (), "e82ed018c2c4",
          "With fast_propagation the graph is CSR instead of COO."),
    Patch("recbole.model.general_recommender.sgl:SGL.__init__", "..peers.fast_graphs:init", "speed", (), "c7ee5663fd0f",
          "With fast_propagation the graph is CSR instead of COO."),
    Patch("recbole.model.general_recommender.sgl:SGL.forward", "..peers.fast_graphs:sgl_forward",
          "speed", (), "d66a8b648823",
          "With fast_propagation the mean of the layers is summed up instead of stacked."),
    Patch("recbole.model.general_recommender.sgl:SGL.csr2tensor", "..peers.fast_graphs:sgl_csr2tensor",
          "speed", (), "b63ab92447ef",
          "With fast_propagation the graph is CSR instead of COO."),
    Patch("recbole.model.general_recommender.sgl:SGL.calc_ssl_loss", "..peers.fast_graphs:sgl_contrast",
          "speed", (), "f316b9eaba4a",
          "With fast_propagation a user's term is computed once a batch."),
    Patch("recbole.model.general_recommender.lightgcn:sp.dok_matrix", ".libraries:dok_matrix",
          "library drift", (2215,), "eb413da8e0de",
          "The graph is filled by dok_matrix._update, which SciPy 1.13 has removed.",
          within="LightGCN.get_norm_adj_mat"),
    Patch("recbole.model.general_recommender.ngcf:sp.dok_matrix", ".libraries:dok_matrix",
          "library drift", (2215,), "fb50944ec14d",
          "The graph is filled by dok_matrix._update, which SciPy 1.13 has removed.", within="NGCF.get_norm_adj_mat"),
    Patch("recbole.model.general_recommender.ncl:sp.dok_matrix", ".libraries:dok_matrix",
          "library drift", (2215,), "fd63108db3b7",
          "The graph is filled by dok_matrix._update, which SciPy 1.13 has removed.", within="NCL.get_norm_adj_mat"),
    Patch("recbole.model.general_recommender.gcmc:sp.dok_matrix", ".libraries:dok_matrix",
          "library drift", (2215,), "304caf1437d2",
          "The graph is filled by dok_matrix._update, which SciPy 1.13 has removed.", within="GCMC.get_norm_adj_mat"),
    Patch("recbole.model.general_recommender.spectralcf:sp.dok_matrix", ".libraries:dok_matrix",
          "library drift", (2215,), "d1e4fb8ebe4e",
          "The graph is filled by dok_matrix._update, which SciPy 1.13 has removed.",
          within="SpectralCF.get_laplacian_matrix"),
    Patch("recbole.model.knowledge_aware_recommender.kgin:sp.dok_matrix", ".libraries:dok_matrix",
          "library drift", (2215,), "52733c11dee4",
          "The graph is filled by dok_matrix._update, which SciPy 1.13 has removed.",
          within="KGIN.get_norm_inter_matrix"),
    Patch("recbole.model.knowledge_aware_recommender.mcclk:sp.dok_matrix", ".libraries:dok_matrix",
          "library drift", (2215,), "52733c11dee4",
          "The graph is filled by dok_matrix._update, which SciPy 1.13 has removed.",
          within="MCCLK.get_norm_inter_matrix"),
    Patch("recbole.trainer.trainer:AbstractTrainer.__init__", ".ranks:trainer_init",
          "bug", (1811, 2154), "2c3e216bdc62",
          "DistributedDataParallel is built for GPUs alone and broadcasts buffers in every batch; seeds repeat on "
          "every machine."),
    Patch("recbole.trainer.trainer:Trainer._save_checkpoint", ".checkpoints:save_checkpoint",
          "library drift", (2215,), "59378042d807",
          "The checkpoint holds a pickled Config, which PyTorch >= 2.6 refuses to read."),
    Patch("recbole.trainer.trainer:PretrainTrainer.save_pretrained_model", ".checkpoints:save_pretrained_model",
          "library drift", (2215,), "5c51b05694ea",
          "The checkpoint holds a pickled Config, which PyTorch >= 2.6 refuses to read."),
    Patch("recbole.trainer.trainer:DecisionTreeTrainer._save_checkpoint", ".checkpoints:save_tree_checkpoint",
          "library drift", (2215,), "1dd4b455defe",
          "The checkpoint holds a pickled Config, which PyTorch >= 2.6 refuses to read."),
    Patch("recbole.trainer.trainer:Trainer._train_epoch", ".ranks:train_epoch", "bug", (1811, 2154), "2ee67cb58ea7",
          "Rows count unequally where processes have unequal numbers of them, and the logged loss is rank 0's."),
    Patch("recbole.trainer.trainer:TraditionalTrainer.__init__", ".training:start_traditional",
          "bug", (), "cd0b73ca4553",
          "Models of one epoch (Pop, ItemKNN, EASE) are never validated, and so never saved, unless eval_step is 1."),
    Patch("recbole.trainer.trainer:NCLTrainer._train_epoch", ".ranks:train_epoch", "bug", (1811, 2154), "584f6e03bd75",
          "Rows count unequally where processes have unequal numbers of them, and the logged loss is rank 0's."),
    Patch("recbole.trainer.trainer:Trainer._map_reduce", ".ranks:map_reduce", "bug", (1811, 2154), "c1831d5e24de",
          "Processes' metrics are averaged by batches instead of users, Gini index and coverage as if they were "
          "means."),
    Patch("recbole.trainer.trainer:Trainer.evaluate", ".ranks:evaluate", "bug", (1811, 2154), "a24a9dde4db8",
          "Each process looks for a checkpoint with its own timestamp, and none waits until rank 0 has written it."),
    Patch("recbole.trainer.trainer:tqdm", ".logs:progress", "message", (), "2ee67cb58ea7",
          "Every epoch leaves two progress bars on the screen, also in a log file.", within="Trainer._train_epoch"),
    Patch("recbole.trainer.trainer:amp.GradScaler", ".training:grad_scaler", "library drift", (2215,), "2ee67cb58ea7",
          "PyTorch has deprecated torch.cuda.amp.GradScaler and warns of it.", within="Trainer._train_epoch"),
    Patch("recbole.trainer.trainer:amp.autocast", ".training:autocast", "library drift", (2215,), "584f6e03bd75",
          "PyTorch has deprecated torch.cuda.amp.autocast and warns of it.", within="NCLTrainer._train_epoch"),
    Patch("recbole.quick_start.quick_start:load_data_and_model", ".checkpoints:load_data_and_model",
          "library drift", (2215, 1561), "a7709915fca7",
          "The pickled Config is refused by PyTorch >= 2.6, and weights saved on a GPU are not read without one."),
    Patch("recbole.utils.utils:get_model", ".models:get_model", "feature", (489, 1975), "b86d292b794a",
          "Our models are found by name; a misspelt name ends in `No module named 'lightgbm'`, and a sequential "
          "model turns on anomaly detection for good."),
    Patch("recbole.utils.utils:get_trainer", ".models:get_trainer", "feature", (), "3659feba6c4b",
          "Our models get our trainer, and RecBole's trainers fill run folders."),
    Patch("recbole.utils.utils:ensure_dir", ".ranks:ensure_dir", "bug", (), "06df9096141e",
          "Of two processes that make the same folder, one fails."),
    Patch("recbole.utils.utils:get_tensorboard", ".logs:get_tensorboard", "feature", (), "2d129a593b53",
          "Events go to the run folder, where ./log_tensorboard is hard-coded, and from the first of several "
          "processes alone."),
    Patch("recbole.utils.utils:SummaryWriter", ".logs:summary_writer", "speed", (), "2d129a593b53",
          "TensorBoard is imported with RecBole, which takes a second, and has to be installed.",
          within="get_tensorboard"),
    Patch("recbole.utils.logger:init_logger", ".logs:init_logger", "bug", (), "548f4cebce48",
          "Only the first run of a process gets a log, as logging.basicConfig does nothing after the first call."),
    Patch("recbole.utils.case_study:full_sort_scores", ".evaluation:full_sort_scores",
          "bug", (2006, 1178), "cf485429a928",
          "A user without test rows is a TypeError."),
    Patch("recbole.quick_start.quick_start:run_recbole", ".training:run_recbole", "feature", (), "99b7cc6e9b7d",
          "The result names the run folder, where the run has one."),
    Patch("recbole.quick_start.quick_start:tune.report", ".training:report", "library drift", (2215,), "517c95a67f6b",
          "Today's Ray takes the figures as a dict. For this one call Ray is imported, which takes a second or two, "
          "and Ray has to be installed with its extra `tune`.", within="objective_function"),
)
