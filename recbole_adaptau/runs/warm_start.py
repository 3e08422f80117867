"""A model's start from another run's weights: what it knows of a user or an item is found by id."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import CheckpointError
from ..training import checkpoint
from .folder import RunFolder, read_interactions

TABLES = ("user_embedding", "item_embedding")


@torch.no_grad()
def warm_start(model: Any, run: RunFolder, dataset: Any) -> None:
    """Set a new model's state to that of a run's best epoch, row by row by id.

    Rows of users and items that the run does not know keep their start, but for the two embedding tables: there a new
    user is the mean of its known items, and a new item the mean of its known users, at the mean length of the others.
    """
    old, state = read_interactions(run.interactions), checkpoint.load(run.best)["state_dict"]
    fields = {"user": dataset.uid_field, "item": dataset.iid_field}
    # For each new row the old one, 0 where there is none; row 0 is the padding in both.
    known = {
        kind: _places(ids, dataset.field2id_token[fields[kind]])
        for kind, ids in (("user", old.user_ids), ("item", old.item_ids))
    }
    old_sizes = {"user": len(old.user_ids), "item": len(old.item_ids)}
    for name, value in model.state_dict().items():
        if name not in state:
            raise CheckpointError(f"{run.best} has no {name}: it is of another model.")
        kind = _kind(name, value, state[name], known, old_sizes)
        if kind is not None:
            rows = known[kind] > 0
            value[rows] = state[name][known[kind][rows]].to(value)
        elif value.shape == state[name].shape:
            value.copy_(state[name])
    _start_new_rows(model, dataset, fields, known)


def _places(old: np.ndarray, new: Any) -> Tensor:
    place = {name: row for row, name in enumerate(old) if row}
    return torch.tensor([place.get(str(name), 0) for name in new])


def _kind(name: str, new: Tensor, old: Tensor, known: dict[str, Tensor], old_sizes: dict[str, int]) -> str | None:
    """Whose rows a tensor has: the sizes tell, and the name where there are as many users as items."""
    fits = [
        kind
        for kind in known
        if new.dim() and new.shape[1:] == old.shape[1:]
        if (len(new), len(old)) == (len(known[kind]), old_sizes[kind])
    ]
    return next((kind for kind in fits if kind in name), fits[0] if fits else None)


def _start_new_rows(model: Any, dataset: Any, fields: dict[str, str], known: dict[str, Tensor]) -> None:
    tables = [getattr(model, name, None) for name in TABLES]
    if not all(isinstance(table, nn.Embedding) for table in tables):
        return
    weights = {
        kind: table.weight for kind, table in zip(fields, tables, strict=True) if isinstance(table, nn.Embedding)
    }
    if weights["user"].shape[1] != weights["item"].shape[1]:
        return
    before = {kind: weight.clone() for kind, weight in weights.items()}
    places = {kind: torch.as_tensor(np.asarray(dataset.inter_feat[name])) for kind, name in fields.items()}
    for kind, other in (("user", "item"), ("item", "user")):
        sums = torch.zeros_like(weights[kind])
        wanted = (known[kind][places[kind]] == 0) & (known[other][places[other]] > 0)
        sums.index_add_(0, places[kind][wanted].to(sums.device), before[other][places[other][wanted]])
        lengths = sums.norm(dim=1, keepdim=True)
        rows = lengths.squeeze(1) > 0
        usual = before[kind][known[kind] > 0].norm(dim=1).mean()
        weights[kind][rows] = sums[rows] / lengths[rows] * usual
