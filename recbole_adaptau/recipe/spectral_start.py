"""The tables start from the leading singular vectors of the training graph instead of from chance alone."""

import numpy as np
import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from ..core.interactions import Interactions, diagonal
from .base import RecipePart, register_part

CHANCE = 0.1  # what is kept of a random start: it moves the columns that the data leaves empty
NOTHING = 1e-5  # what is smaller is rounding


@register_part("spectral_start")
class SpectralStart(RecipePart):
    """`spectral_start`: directions from a truncated SVD of the normalised training graph, lengths as at random."""

    meaning = "the tables start from the training graph's leading singular vectors"
    needs_own_tables = True

    def start(self, users: Tensor, items: Tensor) -> None:
        directions = spectral_rows(self.interactions, users.shape[1], seed=int(torch.randint(2**31, ())))
        for table, rows in zip((users, items), directions, strict=True):
            start_from(table, rows)


def spectral_rows(interactions: Interactions, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Directions of users and items whose products approximate the normalised interaction matrix.

    The matrix is D_u^-1/2 R D_i^-1/2, D the numbers of positives. A first singular pair, their roots, says only how
    active a user and how popular an item is; it is taken out, and the next `size` are kept, times the roots of their
    values. Data with fewer of them leaves the last columns 0.

    Returns:
        Rows of length 1; 0 for padding and for who has no positive. Shape: [n_users, size], [n_items, size].
    """
    degrees = [counts.cpu().numpy().astype(float) for counts in (interactions.user_counts, interactions.item_counts)]
    by_user, by_item = (diagonal(np.maximum(degree, 1.0) ** -0.5) for degree in degrees)
    matrix = by_user @ interactions.matrix() @ by_item
    left, values, right = randomized_svd(matrix, min(size + 1, *matrix.shape), random_state=seed)
    # The pair to take out has the value 1. So has every part of the graph that hangs together by itself, and vectors of
    # equal values come in any mixture: hence not simply without the first column.
    first_left, first_right = (np.sqrt(degree / len(interactions)) for degree in degrees)
    share, roots = first_left @ left, np.sqrt(values)
    _, strengths, columns = np.linalg.svd((np.eye(len(share)) - np.outer(share, share)) * roots)
    columns = columns[:size][strengths[:size] > NOTHING].T
    without = (left - np.outer(first_left, share), right.T - np.outer(first_right, share))
    user_rows, item_rows = (_unit_rows((vectors * roots) @ columns, size) for vectors in without)
    return user_rows, item_rows


def start_from(table: Tensor, rows: Tensor) -> None:
    """Turn a table that has been filled at random, in place, into given directions; its rows keep their mean length.

    A row without a direction stays as it is. Shape: table [N, d], rows [N, d].
    """
    known = rows.any(dim=1)
    length = table[known].norm(dim=1).mean()
    table[known] = CHANCE * table[known] + length * rows[known].to(table)


def _unit_rows(vectors: np.ndarray, size: int) -> Tensor:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > NOTHING * lengths.max())
    return torch.from_numpy(np.pad(unit, ((0, 0), (0, size - unit.shape[1])))).float()
