"""Training: names that PyTorch has moved, models of one epoch, reports to ray, run folders, NCL with few users."""

import inspect
import sys
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import need


def grad_scaler(original: Any, **options: Any) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cuda", **options)


def autocast(original: Any, **options: Any) -> torch.amp.autocast:
    return torch.amp.autocast("cuda", **options)


def start_traditional(original: Any, self: Any, config: Any, model: Any) -> None:
    original(self, config, model)
    self.eval_step = min(self.eval_step, self.epochs)


def report(original: Any, **figures: Any) -> None:
    """To ray, if this process is one of ray's: it has imported ray before it got here."""
    if "ray.tune" not in sys.modules:
        return
    send = sys.modules["ray.tune"].report
    if "metrics" in inspect.signature(send).parameters:
        send(figures)
    else:  # Ray 2.6
        send(**figures)


def run_recbole(
    original: Any,
    model: Any = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    queue: Any = None,
) -> dict[str, Any]:
    """With `run_folder` in the result, where the configuration has one; our own functions add it themselves."""
    from recbole.config import Config

    from ..training.checkpoint import quoted

    settings = dict(config_dict or {})
    if "record_run" in settings or "local_rank" in settings:
        return dict(original(model, dataset, config_file_list, config_dict, saved, queue))
    folder = Config(model, dataset, config_file_list, dict(settings))["run_folder"]
    settings |= quoted({"run_folder": folder}) if folder else {}
    result = dict(original(model, dataset, config_file_list, settings, saved, queue))
    return {**result, "run_folder": folder} if folder else result


def run_kmeans(original: Any, self: Any, x: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    need("faiss", "the model 'NCL' needs", "ncl")
    import faiss

    kmeans = faiss.Kmeans(d=self.latent_dim, k=min(self.k, len(x)), gpu=self.device.type == "cuda")
    kmeans.train(x)
    _, nearest = kmeans.index.search(x, 1)
    centroids = F.normalize(torch.from_numpy(kmeans.centroids).to(self.device), p=2, dim=1)
    return centroids, torch.from_numpy(nearest).squeeze().to(self.device)
