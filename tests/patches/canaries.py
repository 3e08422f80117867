"""Faults of RecBole's without this package: run as a script, it prints as JSON which of them are still there.

A canary is named after the target of a patch and returns whether unpatched RecBole has the fault.
"""

import inspect
import json
import logging
import os
import pickle
import sys
import traceback
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
import torch.distributed as dist
import yaml
from ray import tune
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data import utils as data_utils
from recbole.data.dataset import dataset as datasets
from recbole.model.general_recommender import BPR
from recbole.model.general_recommender.ncl import NCL
from recbole.quick_start import load_data_and_model
from recbole.sampler import RepeatableSampler, Sampler
from recbole.trainer import Trainer
from recbole.trainer import trainer as trainers
from recbole.trainer.hyper_tuning import HyperTuning
from recbole.utils import ensure_dir, get_model, init_logger
from recbole.utils.case_study import full_sort_scores
from torch.utils.data.distributed import DistributedSampler

# What RecBole asks NumPy for: without it no other canary could make a Config.
NUMPY_NAMES = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}
HAD_ALL_NAMES = all(name in vars(np) for name in NUMPY_NAMES)
vars(np).update({name: kind for name, kind in NUMPY_NAMES.items() if name not in vars(np)})

CANARIES: dict[str, Callable[[], bool]] = {}
# The version of a library that brought the fault: an older one must not have it.
SINCE: dict[str, tuple[str, str]] = {}
GRAPHS, KNOWLEDGE_GRAPHS = ("lightgcn", "ngcf", "ncl", "gcmc", "spectralcf"), ("kgin", "mcclk")
TRAIN = [("a", "x"), ("a", "y"), ("b", "y"), ("b", "z"), ("c", "z"), ("c", "x"), ("d", "y")]
VALID = [("a", "w"), ("b", "w")]
TEST = [("c", "w")]


def canary(*targets: str, since: tuple[str, str] | None = None):
    def name(function: Callable[[], bool]) -> Callable[[], bool]:
        CANARIES.update(dict.fromkeys(targets, function))
        if since is not None:
            SINCE.update(dict.fromkeys(targets, since))
        return function

    return name


def fails(kind: type[BaseException], function: Callable[[], object], text: str = "") -> bool:
    """Whether a call ends in an error of a kind whose message has the text."""
    try:
        function()
    except kind as error:
        return text in str(error)
    return False


def settings(train=TRAIN, valid=VALID, test=TEST, **given) -> dict:
    """Of a small dataset that is written here."""
    Path("data/board").mkdir(parents=True, exist_ok=True)
    for part, pairs in {"train": train, "valid": valid, "test": test}.items():
        lines = ["user_id:token\titem_id:token", *(f"{user}\t{item}" for user, item in pairs)]
        Path(f"data/board/board.{part}.inter").write_text("\n".join(lines) + "\n")
    return {
        "data_path": "data",
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "topk": [1],
        "valid_metric": "MRR@1",
        "state": "ERROR",
        **given,
    }


def built(**given):
    """Config, loaders and trainer of a BPR."""
    config = Config("BPR", "board", config_dict=settings(**given))
    train, _, test = data_preparation(config, create_dataset(config))
    return config, train, test, Trainer(config, BPR(config, train._dataset))


class TwoRanks:
    """The config of one of two processes, as far as RecBole asks for it."""

    def __init__(self, config):
        self.config, self.other = config, {"single_spec": False, "world_size": 2, "local_rank": 0}

    def __getitem__(self, key):
        return self.other.get(key, self.config[key])


@canary("recbole.config.configurator:Config._init_device")
def gpus_are_asked_for_on_a_cpu() -> bool:
    ranks = {"local_rank": 0, "nproc": 1, "world_size": 1, "offset": 0, "ip": "localhost", "port": 1}
    with mock.patch.object(dist, "init_process_group") as join, mock.patch.object(torch.cuda, "set_device"):
        config = Config("BPR", "board", config_dict=settings(**ranks))
    return join.call_args.kwargs["backend"] == "nccl" and config["device"].type == "cuda"


@canary("recbole.trainer.trainer:AbstractTrainer.__init__")
def gpus_are_assumed_for_parallel_training() -> bool:
    config, *_, trainer = built()
    with mock.patch.object(trainers, "DistributedDataParallel") as parallel:
        trainers.AbstractTrainer(TwoRanks(config), trainer.model)
    return parallel.call_args.kwargs["device_ids"] == [0]


@canary("recbole.data.dataloader.abstract_dataloader:AbstractDataLoader.__init__")
def rows_are_repeated_among_ranks() -> bool:
    config, train, *_ = built()
    with (
        mock.patch.object(dist, "is_available", lambda: True),
        mock.patch.object(dist, "get_world_size", lambda: 2),
        mock.patch.object(dist, "get_rank", lambda: 0),
    ):
        loader = type(train)(TwoRanks(config), train._dataset, train._sampler, shuffle=False)
    return isinstance(loader.sampler, DistributedSampler) and 2 * len(loader.sampler) > len(TRAIN)


def unequal_ranks_count_alike(trainer_class) -> bool:
    """The loss of a rank is its own mean, whatever part of the batch's rows it has: nothing is exchanged."""
    config, train, _, trainer = built()
    trainer.config, trainer.set_reduce_hook, trainer.sync_grad_loss = TwoRanks(config), lambda: None, lambda: 0
    train.sampler.set_epoch = lambda epoch: None
    trainer.num_m_step = None
    with mock.patch.object(dist, "all_reduce") as one, mock.patch.object(dist, "all_gather") as other:
        loss = trainer_class._train_epoch(trainer, train, 0, lambda rows: trainer.model.calculate_loss(rows) * 0 + 1)
    return loss == len(train) and not one.called and not other.called


@canary("recbole.trainer.trainer:Trainer._train_epoch")
def ranks_are_not_weighed() -> bool:
    return unequal_ranks_count_alike(trainers.Trainer)


@canary("recbole.trainer.trainer:NCLTrainer._train_epoch")
def ranks_are_not_weighed_for_ncl() -> bool:
    return unequal_ranks_count_alike(trainers.NCLTrainer)


@canary("recbole.trainer.trainer:TraditionalTrainer.__init__")
def one_epoch_is_never_validated() -> bool:
    config, _, _, trainer = built(eval_step=5)
    traditional = trainers.TraditionalTrainer(config, trainer.model)
    return traditional.eval_step > traditional.epochs


@canary("recbole.trainer.trainer:Trainer._map_reduce")
def coverage_is_averaged_over_ranks() -> bool:
    config, *_, trainer = built()
    trainer.config = TwoRanks(config)
    values = iter([[3, 3], [3 * 0.5, 3 * 0.25]])  # numbers of users, then what each rank covers times its users

    def gather(into, own):
        for place, value in zip(into, next(values), strict=True):
            place.fill_(value)

    with mock.patch.object(dist, "all_gather", gather):
        return trainer._map_reduce({"itemcoverage@1": 0.5}, 3)["itemcoverage@1"] == 0.375


@canary("recbole.trainer.trainer:Trainer.evaluate")
def a_rank_does_not_wait_for_the_checkpoint() -> bool:
    config, _, test, trainer = built()
    trainer.config, trainer.saved_model_file = TwoRanks(config), "not-yet-written.pth"
    with (
        mock.patch.object(dist, "is_initialized", lambda: True),
        mock.patch.object(dist, "get_rank", lambda: 1),
        mock.patch.object(dist, "broadcast") as receive,
    ):
        return fails(FileNotFoundError, lambda: trainer.evaluate(test)) and not receive.called


@canary("recbole.utils.utils:ensure_dir")
def the_second_to_make_a_folder_fails() -> bool:
    os.makedirs("folder", exist_ok=True)
    with mock.patch.object(os.path, "exists", lambda path: False):  # as it was before the other had made it
        return fails(FileExistsError, lambda: ensure_dir("folder"))


@canary("recbole.data.dataset.dataset:Dataset._load_data")
def only_ranks_without_the_folder_wait() -> bool:
    config = Config("BPR", "board", config_dict=settings())
    with mock.patch.object(dist, "is_initialized", lambda: True), mock.patch.object(dist, "barrier") as wait:
        create_dataset(config)
    return not wait.called


@canary("recbole.data.dataset.dataset:Dataset._download")
def a_single_process_waits_for_a_group() -> bool:
    config = Config("BPR", "absent", config_dict=settings())
    with (
        mock.patch.object(datasets.Dataset, "_get_download_url", lambda self, key: "http://x/absent.zip"),
        mock.patch.object(datasets, "decide_download", lambda url: True),
        mock.patch.object(datasets, "download_url", lambda url, folder: f"{folder}/absent.zip"),
        mock.patch.object(datasets, "extract_zip", lambda path, folder: Path(path).touch()),
        mock.patch.object(datasets, "rename_atomic_files"),
    ):
        return fails((ValueError, RuntimeError), lambda: create_dataset(config), "process group")


@canary("recbole.data.dataset.dataset:Dataset._load_feat")
def rows_without_an_id_train_as_padding() -> bool:
    config = Config("BPR", "board", config_dict=settings(train=[*TRAIN, ("d", "")]))
    train, *_ = create_dataset(config).build()
    return 0 in train.inter_feat["item_id"].tolist()


@canary("recbole.data.dataset.dataset:Dataset._from_scratch")
def the_test_part_keeps_what_was_trained_on() -> bool:
    config = Config("BPR", "board", config_dict=settings(test=[*TEST, TRAIN[0]]))
    *_, test = create_dataset(config).build()
    return len(test) == len(TEST) + 1


def samplers(**given):
    popularity = {"distribution": "popularity", "sample_num": 1, "alpha": 1.0, "dynamic": False, "candidate_num": 0}
    config = Config("BPR", "board", config_dict=settings(train_neg_sample_args=popularity, **given))
    dataset = create_dataset(config)
    parts = dataset.build()
    return dataset, parts, data_utils.create_samplers(config, dataset, parts)[0]


@canary("recbole.sampler.sampler:Sampler._get_candidates_list")
def test_items_count_as_popular() -> bool:
    dataset, _, sampler = samplers()
    return isinstance(sampler, Sampler) and dataset.token2id("item_id", "w") in sampler.prob


@canary("recbole.data.utils:_create_sampler")
def test_items_count_as_popular_where_items_repeat() -> bool:
    dataset, _, sampler = samplers(repeatable=True)
    return isinstance(sampler, RepeatableSampler) and dataset.token2id("item_id", "w") in sampler.prob


@canary("recbole.sampler.sampler:Sampler.set_phase")
def sampling_that_never_ends_is_begun() -> bool:
    """With candidates from training alone, user a has all of them."""
    _, parts, _ = samplers()
    with mock.patch.object(Sampler, "_get_candidates_list", lambda self: parts[0].inter_feat["item_id"].tolist()[:2]):
        sampler = Sampler(["train", "valid", "test"], parts, "popularity").set_phase("train")
    return any(set(sampler.prob) <= used for used in sampler.used_ids[1:])


METRICS = {"metrics": ["ItemCoverage", "GiniIndex"], "valid_metric": "ItemCoverage@1"}


@canary("recbole.evaluator.collector:Collector.data_collect")
def the_padding_counts_as_an_item() -> bool:
    _, train, _, trainer = built(**METRICS)
    trainer.eval_collector.data_collect(train)
    return trainer.eval_collector.data_struct.get("data.num_items") == len({item for _, item in TRAIN + VALID}) + 1


@canary("recbole.evaluator.collector:Collector.get_data_struct")
def a_number_is_moved_to_the_cpu() -> bool:
    _, train, test, trainer = built(**METRICS)
    trainer.eval_collector.data_collect(train)
    return fails(AttributeError, lambda: trainer.evaluate(test, load_best_model=False), "cpu")


@canary("recbole.model.general_recommender.ncl:NCL.run_kmeans")
def more_clusters_are_asked_for_than_there_are_points() -> bool:
    faiss = types.ModuleType("faiss")
    faiss.Kmeans = mock.Mock(side_effect=StopIteration)
    model = types.SimpleNamespace(latent_dim=2, k=1000, device=torch.device("cpu"))
    with mock.patch.dict(sys.modules, faiss=faiss):
        asked = fails(StopIteration, lambda: NCL.run_kmeans(model, torch.ones(30, 2).numpy()))
    return asked and faiss.Kmeans.call_args.kwargs == {"d": 2, "k": 1000, "gpu": True}


@canary("recbole.utils.logger:init_logger")
def the_second_run_has_no_log() -> bool:
    config, root = Config("BPR", "board", config_dict=settings(state="INFO")), logging.getLogger()
    init_logger(config)
    first = list(root.handlers)
    init_logger(config)
    return bool(first) and root.handlers == first


@canary("recbole.utils.case_study:full_sort_scores")
def a_user_without_test_rows_is_an_error() -> bool:
    _, _, test, trainer = built()
    user = test.dataset.token2id("user_id", "d")
    return fails(TypeError, lambda: full_sort_scores([user], trainer.model, test))


@canary(
    "recbole.trainer.trainer:Trainer._save_checkpoint",
    "recbole.quick_start.quick_start:load_data_and_model",
)
def a_saved_checkpoint_cannot_be_read() -> bool:
    *_, trainer = built()
    trainer._save_checkpoint(0, verbose=False)
    return fails(
        pickle.UnpicklingError, lambda: load_data_and_model(trainer.saved_model_file), "Weights only load failed"
    )


@canary("recbole.trainer.trainer:PretrainTrainer.save_pretrained_model")
def a_pretrained_model_cannot_be_read() -> bool:
    *_, trainer = built()
    trainers.PretrainTrainer.save_pretrained_model(trainer, 0, "pretrained.pth")
    return fails(pickle.UnpicklingError, lambda: torch.load("pretrained.pth"), "Weights only")


@canary("recbole.trainer.trainer:DecisionTreeTrainer._save_checkpoint")
def a_tree_model_cannot_be_read() -> bool:
    *_, trainer = built()
    trainer.temp_best_file, trainer.saved_model_file = "trees", "trees.pth"
    trainers.DecisionTreeTrainer._save_checkpoint(trainer, 0)
    return fails(pickle.UnpicklingError, lambda: torch.load("trees.pth"), "Weights only")


def warns(text: str, function: Callable[[], object]) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return any(text in str(warning.message) for warning in caught)


@canary("recbole.trainer.trainer:amp.GradScaler")
def grad_scaler_is_deprecated() -> bool:
    _, train, _, trainer = built()
    return warns("torch.cuda.amp.GradScaler", lambda: trainer._train_epoch(train, 0))


@canary("recbole.trainer.trainer:amp.autocast")
def autocast_is_deprecated() -> bool:
    _, train, _, trainer = built()
    trainer.num_m_step = None
    return warns("torch.cuda.amp.autocast", lambda: trainers.NCLTrainer._train_epoch(trainer, train, 0))


@canary("recbole.data.dataset.dataset:Dataset._fill_nan", since=("pandas", "3"))
def missing_values_are_not_filled() -> bool:
    """Since pandas 2.2 it warns of that."""
    Path("data/blank").mkdir(parents=True, exist_ok=True)
    Path("data/blank/blank.inter").write_text("user_id:token\titem_id:token\trating:float\na\tx\t1\nb\ty\t\n")
    columns = {"inter": ["user_id", "item_id", "rating"]}
    config = Config("BPR", "blank", config_dict={"data_path": "data", "load_col": columns, "state": "ERROR"})
    return bool(create_dataset(config).inter_feat["rating"].isna().any())


@canary("recbole.config.configurator:Config.compatibility_settings", since=("numpy", "2"))
def numpy_has_no_old_names() -> bool:
    return not HAD_ALL_NAMES


@canary("recbole.data.dataset.dataset:Dataset._dataframe_to_interaction", since=("pandas", "3"))
def columns_are_read_only() -> bool:
    return not pd.DataFrame({"a": [1, 2]})["a"].values.flags.writeable


@canary(
    "recbole.data.dataset.dataset:len",
    "recbole.data.dataset.kg_dataset:len",
    "recbole.data.dataset.sequential_dataset:len",
    since=("pandas", "3"),
)
def agg_is_given_the_whole_column() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.ndim(pd.Series([np.ones(2), np.ones(3), np.ones(1)]).agg(len)) == 0


@canary(
    *(f"recbole.model.general_recommender.{name}:sp.dok_matrix" for name in GRAPHS),
    *(f"recbole.model.knowledge_aware_recommender.{name}:sp.dok_matrix" for name in KNOWLEDGE_GRAPHS),
    since=("scipy", "1.13"),
)
def a_matrix_cannot_be_updated() -> bool:
    return not hasattr(sp.dok_matrix, "_update")


@canary("recbole.trainer.hyper_tuning:np.random.RandomState", since=("hyperopt", "0.2.6"))
def hyperopt_asks_an_old_generator_for_integers() -> bool:
    Path("grid").write_text("x choice [1,2]\n")
    result = {"model": "BPR", "best_valid_score": 1.0, "valid_score_bigger": True, "best_valid_result": {}}
    tuning = HyperTuning(lambda *_: {**result, "test_result": {}}, params_file="grid", algo="exhaustive")
    return fails(AttributeError, tuning.run, "integers")


@canary("recbole.evaluator.evaluator:Evaluator.evaluate", since=("numpy", "2"))
def figures_are_shown_with_their_type() -> bool:
    *_, test, trainer = built()
    return "np.float64(" in str(trainer.evaluate(test, load_best_model=False))


@canary("recbole.quick_start.quick_start:tune.report", since=("ray", "2.7"))
def ray_takes_a_dict() -> bool:
    return fails(TypeError, lambda: inspect.signature(tune.report).bind(ndcg=1))


@canary("recbole.config.configurator:eval")
def settings_are_run() -> bool:
    Config("BPR", "board", config_dict=settings(note="open('ran1', 'w').close()"))
    return Path("ran1").exists()


@canary("recbole.trainer.hyper_tuning:eval")
def search_spaces_are_run() -> bool:
    hyperopt = types.ModuleType("hyperopt")
    hyperopt.hp = mock.Mock()
    Path("space").write_text("x choice open('ran2','w').close()\n")
    with mock.patch.dict(sys.modules, hyperopt=hyperopt):
        HyperTuning._build_space_from_file("space")
    return Path("ran2").exists()


@canary("recbole.config.configurator:Config._build_yaml_loader")
def yaml_names_python_objects() -> bool:
    loader = Config("BPR", "board", config_dict=settings()).yaml_loader
    return yaml.load("!!python/name:os.system", Loader=loader) is os.system


class Runs:
    """A pickle that makes a file when it is read."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (self.file, "w")


@canary("recbole.data.utils:create_dataset")
def a_stray_dataset_is_unpickled() -> bool:
    config = Config("BPR", "board", config_dict=settings(checkpoint_dir="theirs"))
    os.makedirs("theirs", exist_ok=True)
    Path("theirs/board-Dataset.pth").write_bytes(pickle.dumps(Runs("ran3")))
    return fails(BaseException, lambda: create_dataset(config)) and Path("ran3").exists()


@canary("recbole.data.utils:load_split_dataloaders")
def stray_loaders_are_unpickled() -> bool:
    config = Config("BPR", "board", config_dict=settings(checkpoint_dir="theirs"))
    os.makedirs("theirs", exist_ok=True)
    Path("theirs/board-for-BPR-dataloader.pth").write_bytes(pickle.dumps(Runs("ran4")))
    return fails(BaseException, lambda: data_utils.load_split_dataloaders(config)) and Path("ran4").exists()


@canary("recbole.utils.utils:get_model")
def a_misspelt_model_is_a_missing_library() -> bool:
    get_model("SASRec")
    return torch.is_anomaly_enabled() and fails(ModuleNotFoundError, lambda: get_model("LightGNC"))


def outcome(function: Callable[[], bool]) -> bool | str:
    try:
        return bool(function())
    except Exception:
        return traceback.format_exc(limit=-3)


if __name__ == "__main__":
    assert "recbole_adaptau" not in sys.modules
    print(json.dumps({target: outcome(function) for target, function in CANARIES.items()}))
