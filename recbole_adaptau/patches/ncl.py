"""NCL on data with fewer users or items than clusters, with or without a GPU."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from recbole.model.general_recommender.ncl import NCL

from ..errors import AdapTauError


def cluster_small_data() -> None:
    """Never ask faiss for more clusters than points.

    RecBole's default of 1000 clusters ends in a RuntimeError on ml-100k, which has 943 users; it also asks
    faiss for a GPU whatever the model's device.
    """

    def run_kmeans(self: Any, x: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            import faiss
        except ModuleNotFoundError as error:
            raise AdapTauError("the model 'NCL' needs faiss: pip install faiss-cpu") from error
        kmeans = faiss.Kmeans(d=self.latent_dim, k=min(self.k, len(x)), gpu=self.device.type == "cuda")
        kmeans.train(x)
        _, nearest = kmeans.index.search(x, 1)
        centroids = F.normalize(torch.from_numpy(kmeans.centroids).to(self.device), p=2, dim=1)
        return centroids, torch.from_numpy(nearest).squeeze().to(self.device)

    NCL.run_kmeans = run_kmeans
