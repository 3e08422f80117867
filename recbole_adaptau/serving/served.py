"""All that answers a request, as one thing that never changes."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from logging import INFO, disable, root
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recbole.quick_start import quick_start
from torch import Tensor

from ..core.interactions import Interactions
from ..data.low_rated import LowRated
from ..data.names import item_names
from ..data.stored import changed_files
from ..errors import AdapTauError, DataWarning
from ..runs.folder import RunFolder
from ..runs.quick_start import load_data_and_model
from ..training.checkpoint import config_settings, rebuild_config
from .ids import Ids
from .scoring import Scorer, histories


@dataclass(frozen=True)
class Served:
    """A trained model with its users and items.

    Attributes:
        scorer: The scores of the users the model was trained on.
        users: Those users, and further ones who are known by what they have seen.
        items: The items.
        seen: What each user has seen, and is described by.
        low_rated: What else some users have seen, and gave too low a rating.
        names: [n_items] the items' names, or None.
        folder: Of the run, or None.
        version: Where in that folder the model lies.
    """

    scorer: Scorer
    users: Ids
    items: Ids
    seen: Interactions
    low_rated: LowRated = field(default_factory=LowRated.of)
    names: np.ndarray | None = None
    folder: Path | None = None
    version: Path | None = None

    @cached_property
    def hidden(self) -> Interactions:
        """What each user is not recommended unless seen items are asked for: `seen` and `low_rated`."""
        low = self.low_rated
        if not len(low):
            return self.seen
        users, items = self.users.places(low.user_ids)[low.users], self.items.places(low.item_ids)[low.items]
        known = (users > 0) & (items > 0)
        return self._interactions(self.users, users[known], items[known])

    def _interactions(self, ids: Ids, users: np.ndarray, items: np.ndarray) -> Interactions:
        """`seen` and further pairs, of all these users."""
        own = np.concatenate([self.seen.users.cpu().numpy(), users])
        theirs = np.concatenate([self.seen.items.cpu().numpy(), items])
        return Interactions(own, theirs, len(ids), len(self.items)).to(self.scorer.device)

    @cached_property
    def user_directions(self) -> Tensor:
        """Unit vectors of all users' tastes."""
        kept = self.scorer.embeddings
        if len(self.users) == self.scorer.n_users:
            return kept.user_directions
        new = torch.arange(self.scorer.n_users, len(self.users), device=self.scorer.device)
        rows = kept.fold_in(histories(self.seen, new))
        rows = (rows[:, :-1] if kept.has_bias else rows) / kept.user_length
        return torch.cat([kept.user_directions, rows])

    def with_history(self, users: Sequence[str], items: Sequence[str]) -> "Served":
        """With further interactions; unknown items are left out, unknown users become known."""
        places = self.items.places(items)
        known = places > 0
        names = [name for name, is_known in zip(users, known, strict=True) if is_known]
        ids = self.users.with_more(dict.fromkeys(name for name in names if name not in self.users))
        return replace(self, users=ids, seen=self._interactions(ids, ids.places(names), places[known]))

    def without_users(self) -> "Served":
        """The model and its items alone: whoever is added is new."""
        nobody = np.empty(0, np.int64)
        seen = Interactions(nobody, nobody, 1, len(self.items)).to(self.scorer.device)
        scorer, users = self.scorer.for_new_users(), Ids(self.users.names[:1])
        return replace(self, scorer=scorer, users=users, seen=seen, low_rated=LowRated.of())


def of_model(model: Any, dataset: Any, name_field: str | None = None, types: dict[str, str] | None = None) -> Served:
    """Of a model and its RecBole dataset."""
    fields = {"user": dataset.uid_field, "item": dataset.iid_field}
    ids = {kind: Ids(dataset.field2id_token[name], (types or {}).get(kind) == "int") for kind, name in fields.items()}
    users, items = (np.asarray(dataset.inter_feat[name]) for name in fields.values())
    seen = Interactions(users, items, len(ids["user"]), len(ids["item"]))
    scorer = Scorer(model, seen.active_users)
    low_rated, names = getattr(dataset, "low_rated", LowRated.of()), item_names(dataset, name_field)
    return Served(scorer, ids["user"], ids["item"], seen.to(scorer.device), low_rated, names)


def from_run(
    folder: str | Path,
    data_path: str | Path | None = None,
    name_field: str | None = None,
    with_changes: bool = True,
) -> Served:
    """Of a run folder; see `Recommender.load`."""
    version = RunFolder.serving(folder)
    with quiet():
        config, model, dataset, *_ = load_data_and_model(version.path, data_path)
        about = version.about_data()
        served = of_model(model, dataset, name_field, about.get("id_types"))
        changed = data_path is not None or changed_files(about.get("files", {}))
        if with_changes and changed and version.interactions.is_file():
            served = _with_changes(served, config)
    return replace(served, folder=Path(folder), version=version.path)


@contextmanager
def quiet() -> Iterator[None]:
    """Without RecBole's log of a configuration and a dataset."""
    before = root.manager.disable
    disable(max(before, INFO))
    try:
        yield
    finally:
        disable(before)


def _with_changes(served: Served, config: Any) -> Served:
    """With what the dataset's files hold now; if they cannot be read, as it was."""
    try:
        now = quick_start.create_dataset(rebuild_config({**config_settings(config), "stored_data": None}))
    except AdapTauError as error:
        warnings.warn(f"the data has changed since the training and cannot be read: {error}", DataWarning, stacklevel=4)
        return served
    names = [
        now.field2id_token[field][np.asarray(now.inter_feat[field])].tolist()
        for field in (now.uid_field, now.iid_field)
    ]
    unknown = list(dict.fromkeys(name for name in names[1] if name not in served.items))
    if unknown:
        shown = ", ".join(unknown[:10]) + (" …" if len(unknown) > 10 else "")
        warnings.warn(
            f"{len(unknown)} {'item is' if len(unknown) == 1 else 'items are'} new since the training and not "
            f"recommended before the next: {shown}",
            DataWarning,
            stacklevel=4,  # the line that loads the recommender
        )
    low_rated = served.low_rated.joined(getattr(now, "low_rated", LowRated.of()))
    return replace(served, low_rated=low_rated).with_history(*names)
