"""A FAISS index of the items, and the check that it ranks as the evaluator does."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import AdapTauError, need
from ..training.evaluation import ScoreBuffer, top_items
from .embeddings import Embeddings
from .tables import whole_file


def need_faiss() -> None:
    need("faiss", "a FAISS index needs", "faiss")


def write_index(path: Path, items: Tensor) -> Any:
    """Write an exact inner-product index of the items; its row r is row r of `items`.

    Shape: items [n, d], without padding.
    """
    need_faiss()
    import faiss

    index = faiss.IndexFlatIP(items.shape[1])
    index.add(np.ascontiguousarray(items.cpu().numpy(), dtype=np.float32))
    with whole_file(path) as temporary:
        faiss.write_index(index, str(temporary))
    return index


def check_index(path: Path, model: Any, embeddings: Embeddings, users: Tensor, k: int) -> None:
    """Raise unless the index in a file gives these users the top k that the evaluator's scores give.

    What a recipe adds is no inner product, so it is taken off the scores first. Items whose
    scores differ by less than rounding may change places.

    Shape: user ids [B].
    """
    import faiss

    found, rows = faiss.read_index(str(path)).search(embeddings.users[users].cpu().numpy().astype(np.float32), k)
    scores = ScoreBuffer().scores(model, users, None)
    for part in embeddings.added:
        part.pairs.add_to(scores, users, -part.scales[users])
    wanted = scores.gather(1, top_items(scores, k)).cpu()
    # The score that the evaluator gives to what the index found, which is row 0 there and item 1 here.
    own = scores.cpu().gather(1, torch.from_numpy(rows + 1))
    tolerance = 1e-5 * float(wanted.abs().max().clamp_min(1.0))
    worst = max(float((own - wanted).abs().max()), float((torch.from_numpy(found) - wanted).abs().max()))
    if not worst <= tolerance:
        raise AdapTauError(
            f"the index in {path} does not rank as the model does (scores differ by {worst:.2e}): do not use it."
        )
