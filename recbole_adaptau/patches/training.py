"""Training: names that PyTorch has moved, reports to ray, and NCL on data with fewer users or items than clusters."""

import sys
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..errors import AdapTauError


def grad_scaler(original: Any, **options: Any) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cuda", **options)


def autocast(original: Any, **options: Any) -> torch.amp.autocast:
    return torch.amp.autocast("cuda", **options)


def report(original: Any, **figures: Any) -> None:
    """To ray, if this process is one of ray's: it has imported ray before it got here."""
    if "ray.tune" in sys.modules:
        sys.modules["ray.tune"].report(**figures)


def run_kmeans(original: Any, self: Any, x: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    try:
        import faiss
    except ModuleNotFoundError as error:
        raise AdapTauError("the model 'NCL' needs faiss: pip install faiss-cpu") from error
    kmeans = faiss.Kmeans(d=self.latent_dim, k=min(self.k, len(x)), gpu=self.device.type == "cuda")
    kmeans.train(x)
    _, nearest = kmeans.index.search(x, 1)
    centroids = F.normalize(torch.from_numpy(kmeans.centroids).to(self.device), p=2, dim=1)
    return centroids, torch.from_numpy(nearest).squeeze().to(self.device)
