"""Each item's nearest items, or user's nearest users, by the cosine of their embeddings."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..training.evaluation import top_items
from .ids import Ids


def neighbours(
    directions: Tensor, k: int, of: Sequence[int] | np.ndarray | None = None, scores_at_once: int = 16_000_000
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The k nearest others, by cosine, of some items (None: of all), in batches; at least one batch.

    Shape: unit vectors [n_items, d], row 0 padding → items [B], their neighbours [B, k], cosines [B, k].
    """
    step = max(scores_at_once // len(directions), 1)
    wanted = torch.as_tensor(
        range(1, len(directions)) if of is None else of, dtype=torch.long, device=directions.device
    )
    for items in wanted.split(step):
        cosines = directions[items] @ directions.T
        cosines[:, 0] = -torch.inf
        cosines[torch.arange(len(items)), items] = -torch.inf
        top = top_items(cosines, k)
        yield items, top, cosines.gather(1, top)


def neighbour_table(
    kind: str,
    directions: Tensor,
    k: int,
    ids: Ids,
    names: np.ndarray | None,
    of: Sequence[int] | np.ndarray | None = None,
) -> Iterator[pd.DataFrame]:
    """The neighbours as rows by external ids: `kind` (item or user), rank, neighbour, cosine, and names if any."""
    for items, near, cosines in neighbours(directions, k, of):
        own = np.repeat(items.cpu().numpy(), k)
        others = near.cpu().numpy().ravel()
        columns = {kind: ids[own], "rank": np.tile(np.arange(1, k + 1, dtype=np.int32), len(items))}
        columns |= {"neighbour": ids[others], "cosine": cosines.cpu().numpy().ravel()}
        if names is not None:
            columns |= {"name": names[own], "neighbour_name": names[others]}
        yield pd.DataFrame(columns)
