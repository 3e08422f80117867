"""The best items of any number of users, in memory that does not grow with them."""

from collections.abc import Iterator

import numpy as np
import torch
from tqdm import tqdm

from ..training.evaluation import top_items
from .filters import Filters
from .served import Served

SCORES_AT_ONCE = 16_000_000  # 64 MB of scores, whatever the number of users


def top_places(
    served: Served, users: np.ndarray, k: int, filters: Filters, progress: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The k best items of users by place, in batches; at least one batch.

    Shape: users [U] → users [B], items [B, k], scores [B, k]; what is left out comes last, at -inf.
    """
    step = max(SCORES_AT_ONCE // len(served.items), 1)
    memory = served.scorer.memory(min(step, len(users)))  # of this call alone
    with tqdm(total=len(users), unit=" users", desc="recommend", disable=not progress, leave=False) as bar:
        for start in range(0, max(len(users), 1), step):
            part = users[start : start + step]
            with torch.inference_mode():
                ids = torch.from_numpy(part).to(served.scorer.device)
                scores = filters.apply(served.scorer.scores(ids, served.seen, memory), ids)
                top = top_items(scores, k)
                found = top.cpu().numpy(), scores.gather(1, top).cpu().numpy()
            yield part, *found
            bar.update(len(part))
