"""RecBole's EASE with one matrix of items times items in memory instead of four, or refused before it fails."""

from typing import Any

import numpy as np
import psutil
import torch
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.model.general_recommender import EASE as RecboleEASE
from scipy.linalg import lapack

from ..data.positives import training_positives
from ..errors import DataError

ROWS_AT_ONCE = 256


class EASE(RecboleEASE):
    """Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019; the same scores as RecBole's."""

    def __init__(self, config: Any, dataset: Any):
        GeneralRecommender.__init__(self, config, dataset)
        self.dummy_param = torch.nn.Parameter(torch.zeros(1))
        _refuse_if_too_large(self.n_items)
        self.interaction_matrix = training_positives(dataset).matrix()
        self.item_similarity = _similarity(self.interaction_matrix, config["reg_weight"])

    def predict(self, interaction: Any) -> torch.Tensor:
        """Shape: [B] scores of the given pairs."""
        users, items = (interaction[field].cpu().numpy() for field in (self.USER_ID, self.ITEM_ID))
        products = self.interaction_matrix[users].multiply(self.item_similarity[:, items].T)
        return torch.from_numpy(products.sum(axis=1)).to(self.device)

    def full_sort_predict(self, interaction: Any) -> torch.Tensor:
        """Shape: [B · n_items] scores of all items for the given users."""
        users = interaction[self.USER_ID].cpu().numpy()
        return torch.from_numpy((self.interaction_matrix[users] @ self.item_similarity).reshape(-1))


def _refuse_if_too_large(n_items: int) -> None:
    """The Gram matrix and the part of it that is being filled have to fit into the memory that is free."""
    needed = 4.0 * n_items * (n_items + 8 * ROWS_AT_ONCE)
    free = psutil.virtual_memory().available
    if needed > free:
        raise DataError(
            f"EASE inverts a matrix of items times items: {n_items:,} items need {needed / 1e9:.1f} GB of memory, and "
            f"{free / 1e9:.1f} GB are free. Leave EASE out, or use ItemRegression, which keeps to nearest items."
        )


def _similarity(matrix: Any, reg_weight: float) -> np.ndarray:
    """B = −P / diag(P) with a diagonal of 0, P the inverse of XᵀX + reg_weight. Shape: X [n, m] → [m, m], in place."""
    number = matrix.shape[1]
    inverse = np.empty((number, number), np.float32, order="F")
    columns = matrix.tocsc()
    for start in range(0, number, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        inverse[:, part] = (columns.T @ columns[:, part]).toarray()
    inverse[np.diag_indices(number)] += np.float32(reg_weight)
    for step in (lapack.spotrf, lapack.spotri):  # Cholesky, then the lower half of the inverse from it
        inverse, failed = step(inverse, 1, **{"overwrite_a" if step is lapack.spotrf else "overwrite_c": 1})
        if failed:
            raise DataError(f"EASE: XᵀX + {reg_weight} cannot be inverted: raise reg_weight.")
    for start in range(0, number, ROWS_AT_ONCE):
        stop = min(start + ROWS_AT_ONCE, number)
        part = slice(start, stop)
        inverse[part, part] = np.tril(inverse[part, part]) + np.tril(inverse[part, part], -1).T
        inverse[part, stop:] = inverse[stop:, part].T
    inverse /= -np.diag(inverse).copy()
    np.fill_diagonal(inverse, 0.0)
    return inverse
