"""RecBole's several processes made right (issues 1811, 2154), on CPUs as on GPUs."""

import datetime
import os
from typing import Any

import torch
import torch.distributed as dist
from recbole.data.dataloader import FullSortEvalDataLoader, NegSampleEvalDataLoader
from recbole.utils import KGDataLoaderState, init_seed
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import distributed as torch_distributed

from ..distributed import ranks
from ..training.checkpoint import DATA_CLASSES
from ..training.products import use_faster_products

# Of all processes only the first may write.
_ONLY_FIRST = ("show_progress", "verbose", "log_wandb", "save_dataset", "save_dataloaders")


def init_device(original: Any, self: Any) -> None:
    use_faster_products()
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


def trainer_init(original: Any, self: Any, config: Any, model: Any) -> None:
    """Broadcasts buffers once instead of in every batch; seeds differ between all processes.

    Only batch normalisation on CPUs, which PyTorch cannot compute over several processes, still takes rank 0's
    averages. Each process draws negatives and dropout of its own. Parameters start as rank 0's.
    """
    # Before RecBole's torch.load: arrays that some models keep beside their weights are data.
    torch.serialization.add_safe_globals(DATA_CLASSES)
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


def ensure_dir(original: Any, dir_path: str) -> None:
    if ranks.is_first():  # another machine has no use for the folders of a run
        os.makedirs(dir_path, exist_ok=True)


def loader_init(original: Any, self: Any, config: Any, dataset: Any, sampler: Any, shuffle: bool = False) -> None:
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


def train_epoch(
    original: Any, self: Any, train_data: Any, epoch_idx: int, loss_func: Any = None, show_progress: bool = False
) -> Any:
    if self.config["single_spec"]:
        return original(self, train_data, epoch_idx, loss_func, show_progress)
    loss = ranks.weighted_loss(loss_func or self.model.calculate_loss, _inner_loader(train_data).sampler, self.model)
    return ranks.averaged(original(self, train_data, epoch_idx, loss, show_progress), self.device)


def _inner_loader(loader: Any) -> Any:
    """The loader whose rows are counted; a knowledge-graph loader has two inside and says which is on."""
    if not hasattr(loader, "kg_dataloader"):
        return loader
    return loader.kg_dataloader if loader.state == KGDataLoaderState.KG else loader.general_dataloader


def map_reduce(original: Any, self: Any, result: Any, num_sample: int) -> Any:
    """Rank 0's figures go to all, so that all stop early in the same epoch."""
    figures = torch.tensor(list(result.values()), dtype=torch.float64, device=self.device)
    ranks.share([figures])
    return type(result)(zip(result, figures.tolist(), strict=True))


def evaluate(
    original: Any,
    self: Any,
    eval_data: Any,
    load_best_model: bool = True,
    model_file: Any = None,
    show_progress: bool = False,
) -> Any:
    if self.config["single_spec"] or not load_best_model or not eval_data:
        return original(self, eval_data, load_best_model, model_file, show_progress)
    with ranks.file_of_first(model_file or self.saved_model_file, self.device) as file:
        return original(self, eval_data, True, str(file), show_progress)
