"""Which of a user's own items speak for a recommendation."""

import numpy as np
from torch import Tensor

from .embeddings import Embeddings


def reasons(embeddings: Embeddings, items: np.ndarray, own: np.ndarray, number: int) -> list[np.ndarray]:
    """For each recommended item the user's items that speak for it most, best first.

    With an item regression these are the largest positive terms of its sum. Where no item of the user's has one, and
    without a regression, they are the nearest by the cosine of their embeddings.

    Shape: item ids [k], the user's item ids [L] → k arrays of at most `number` ids.
    """
    if not len(own):
        return [own] * len(items)
    found: list[np.ndarray] = []
    added = embeddings.item_weights
    terms = None if added is None else added[1][items][:, own].toarray()
    cosines = _cosines(embeddings.item_directions, items, own)
    for row in range(len(items)):
        strength = cosines[row]
        if terms is not None and (terms[row] > 0).any():
            strength = np.where(terms[row] > 0, terms[row], -np.inf)
        best = np.argsort(-strength, kind="stable")[:number]
        found.append(own[best[np.isfinite(strength[best])]])
    return found


def _cosines(directions: Tensor, items: np.ndarray, own: np.ndarray) -> np.ndarray:
    cosines: np.ndarray = (directions[items] @ directions[own].T).cpu().numpy()
    return cosines
