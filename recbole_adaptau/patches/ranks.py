"""RecBole's several processes made right (issues 1811, 2154), on CPUs as on GPUs."""

import datetime
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import FullSortEvalDataLoader, NegSampleEvalDataLoader
from recbole.data.dataloader.abstract_dataloader import AbstractDataLoader
from recbole.evaluator.collector import Collector
from recbole.trainer import trainer as trainers
from recbole.utils import KGDataLoaderState, init_seed, utils
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import distributed as torch_distributed

from ..distributed import ranks
from .metrics import PER_EVALUATION
from .patching import replace_everywhere

# Of all processes only the first may write.
_ONLY_FIRST = ("show_progress", "verbose", "log_wandb", "save_dataset", "save_dataloaders")


def join_on_any_device() -> None:
    """Choose gloo on the CPU and nccl on GPUs; RecBole hard-codes nccl and insists on a list of GPUs.

    It also silences by the rank on the machine, so that on a second machine one process writes as the first does.
    """
    original = Config._init_device

    def _init_device(self: Any) -> None:
        settings = self.final_config_dict
        if "local_rank" not in settings:
            original(self)
            return
        local_rank = settings.pop("local_rank")
        original(self)  # as for one process: the list of GPUs, and whether there are any
        settings.update(local_rank=local_rank, single_spec=False)
        on_gpu = settings["device"].type == "cuda"
        if on_gpu:
            settings["device"] = torch.device("cuda", local_rank)
            torch.cuda.set_device(local_rank)
        if not ranks.is_active():  # our launcher has joined already, RecBole's has not
            dist.init_process_group(
                "nccl" if on_gpu else "gloo",
                rank=local_rank + settings["offset"],
                world_size=settings["world_size"],
                init_method=f"tcp://{settings['ip']}:{settings['port']}",
                timeout=datetime.timedelta(minutes=30),
            )
        if not ranks.is_first():
            settings["state"] = "error"
            settings.update(dict.fromkeys(_ONLY_FIRST, False))

    Config._init_device = _init_device


def wrap_on_any_device() -> None:
    """Build DistributedDataParallel for CPUs too, and broadcast buffers once instead of in every batch.

    Only batch normalisation on CPUs, which PyTorch cannot compute over several processes, still takes rank 0's
    averages. Seeds differ between all processes, where RecBole's are the same on every machine: each draws negatives
    and dropout of its own. Parameters start as rank 0's.
    """

    def __init__(self: Any, config: Any, model: Any) -> None:
        self.config, self.model = config, model
        if config["single_spec"]:
            return
        on_gpu = config["device"].type == "cuda"
        if on_gpu:
            self.model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        self.distributed_model = nn.parallel.DistributedDataParallel(
            self.model, device_ids=[config["local_rank"]] if on_gpu else None
        )
        self.distributed_model.register_comm_hook(dist.group.WORLD, ranks.mean_gradient)
        self.distributed_model.broadcast_buffers = not on_gpu and any(
            isinstance(module, _BatchNorm) for module in model.modules()
        )
        if not ranks.is_first():
            init_seed(config["seed"] + ranks.rank(), config["reproducibility"])

    trainers.AbstractTrainer.__init__ = __init__


def make_folders_together() -> None:
    """Let several processes make the same folder; RecBole looks whether it is there first, and one of two fails."""

    def ensure_dir(dir_path: str) -> None:
        os.makedirs(dir_path, exist_ok=True)

    replace_everywhere(utils.ensure_dir, ensure_dir)


def share_rows_exactly() -> None:
    """Give every loader a RankSampler; DistributedSampler repeats rows and shuffles by a seed of its own."""
    original = AbstractDataLoader.__init__

    def __init__(self: Any, config: Any, dataset: Any, sampler: Any, shuffle: bool = False) -> None:
        if config["single_spec"]:
            original(self, config, dataset, sampler, shuffle=shuffle)
            return

        def rank_sampler(rows: list[int], shuffle: bool, drop_last: bool) -> ranks.RankSampler:
            step = max(1, self.step // config["world_size"])
            contiguous = isinstance(self, FullSortEvalDataLoader | NegSampleEvalDataLoader)
            return ranks.RankSampler(len(rows), step, self.generator if shuffle else None, contiguous)

        # RecBole names the class by its full path in PyTorch, so that is where another has to stand meanwhile.
        replaced = torch_distributed.DistributedSampler
        vars(torch_distributed)["DistributedSampler"] = rank_sampler
        try:
            original(self, config, dataset, sampler, shuffle=shuffle)
        finally:
            vars(torch_distributed)["DistributedSampler"] = replaced

    AbstractDataLoader.__init__ = __init__


def weigh_ranks_by_rows() -> None:
    """Let every row of a batch count alike, also where the ranks have unequal numbers of them.

    The loss that is logged and recorded is the ranks' mean, where RecBole's is rank 0's.
    """

    def shared(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _train_epoch(
            self: Any, train_data: Any, epoch_idx: int, loss_func: Any = None, show_progress: bool = False
        ) -> Any:
            if self.config["single_spec"]:
                return original(self, train_data, epoch_idx, loss_func, show_progress)
            loss = ranks.weighted_loss(
                loss_func or self.model.calculate_loss, _inner_loader(train_data).sampler, self.model
            )
            return ranks.averaged(original(self, train_data, epoch_idx, loss, show_progress), self.device)

        return _train_epoch

    for trainer in (trainers.Trainer, trainers.NCLTrainer):
        trainer._train_epoch = shared(trainer._train_epoch)


def _inner_loader(loader: Any) -> Any:
    """The loader whose rows are counted; a knowledge-graph loader has two inside and says which is on."""
    if not hasattr(loader, "kg_dataloader"):
        return loader
    return loader.kg_dataloader if loader.state == KGDataLoaderState.KG else loader.general_dataloader


def evaluate_over_all_users() -> None:
    """Compute metrics from all ranks' users together, so that they are one process's.

    RecBole averages the ranks' metrics by number of batches times four, and Gini index and coverage as if they were
    means. Rank 0's figures go to all, so that all stop early in the same epoch.
    """
    collected = Collector.get_data_struct

    def get_data_struct(self: Any) -> Any:
        struct = collected(self)
        if not self.config["single_spec"]:
            for key in PER_EVALUATION:
                if key in struct:
                    struct.set(key, torch.cat(ranks.gathered(struct.get(key), self.device)))
        return struct

    def _map_reduce(self: Any, result: Any, num_sample: int) -> Any:
        figures = torch.tensor(list(result.values()), dtype=torch.float64, device=self.device)
        ranks.share([figures])
        return type(result)(zip(result, figures.tolist(), strict=True))

    Collector.get_data_struct = get_data_struct
    trainers.Trainer._map_reduce = _map_reduce


def load_what_rank_0_saved() -> None:
    """Evaluate the checkpoint that rank 0 has written, on all ranks.

    RecBole's ranks look for a file with their own timestamp in its name, and need not wait until it is written.
    """
    original = trainers.Trainer.evaluate

    @wraps(original)
    def evaluate(
        self: Any, eval_data: Any, load_best_model: bool = True, model_file: Any = None, show_progress: bool = False
    ) -> Any:
        if self.config["single_spec"] or not load_best_model or not eval_data:
            return original(self, eval_data, load_best_model, model_file, show_progress)
        with ranks.file_of_first(model_file or self.saved_model_file, self.device) as file:
            return original(self, eval_data, True, str(file), show_progress)

    trainers.Trainer.evaluate = evaluate
