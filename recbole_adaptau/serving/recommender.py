"""Recommendations from a saved run, by the ids of the data."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.utils import ModelType
from torch import Tensor
from tqdm import tqdm

from ..core.interactions import Interactions
from ..errors import DataError, OptionError
from ..runs.folder import RunFolder
from ..runs.quick_start import load_data_and_model
from ..training.evaluation import ScoreBuffer, top_items
from .embeddings import Embeddings, embeddings_of
from .names import item_names
from .similar import neighbour_table

SCORES_AT_ONCE = 16_000_000  # 64 MB of scores, whatever the number of users


class Recommender:
    """Top items for users of the data, or for anybody who names some items they like.

    Users and items are given and returned by their own (external) ids. What a user has interacted with anywhere in the
    data (training, validation and test) counts as seen.

    Attributes:
        user_ids: [n_users] external ids; place 0 is RecBole's padding.
        item_ids: [n_items] the same for items.
        names: [n_items] the items' names, or None.
    """

    def __init__(self, model: Any, dataset: Any, name_field: str | None = None):
        _refuse_what_cannot_rank(model)
        self.model = model.eval()
        self.device = next(model.parameters(), torch.empty(0)).device
        self.user_ids = np.asarray(dataset.field2id_token[dataset.uid_field], dtype=object)
        self.item_ids = np.asarray(dataset.field2id_token[dataset.iid_field], dtype=object)
        self.names = item_names(dataset, name_field)
        users, items = (np.asarray(dataset.inter_feat[field]) for field in (dataset.uid_field, dataset.iid_field))
        self._seen = Interactions(users, items, len(self.user_ids), len(self.item_ids)).to(self.device)
        self._places = {
            "user": {name: place for place, name in enumerate(self.user_ids) if place},
            "item": {name: place for place, name in enumerate(self.item_ids) if place},
        }
        self._scores = ScoreBuffer()

    @classmethod
    def from_run(
        cls, run_folder: str | Path, data_path: str | Path | None = None, name_field: str | None = None
    ) -> "Recommender":
        """The best epoch of a run.

        Args:
            run_folder: What a run has left, of our models or RecBole's.
            data_path: Where the datasets lie now, if they have moved since.
            name_field: The column of the .item file with the items' names, if it is not called title or name.
        """
        _, model, dataset, *_ = load_data_and_model(RunFolder.existing(run_folder).path, data_path)
        return cls(model, dataset, name_field)

    def known(self, kind: str, ids: Iterable[Any]) -> tuple[list[int], list[str]]:
        """Internal ids of the given users or items (kind: user, item), in order and once each; and the unknown ones."""
        given = list(dict.fromkeys(map(str, ids)))
        places = self._places[kind]
        return [places[name] for name in given if name in places], [name for name in given if name not in places]

    def _warned(self, kind: str, ids: Iterable[Any]) -> list[int]:
        """As `known`, with a warning of the unknown ones."""
        places, unknown = self.known(kind, ids)
        if unknown:
            warnings.warn(f"not in the data, left out: {kind}s {', '.join(unknown[:10])}", stacklevel=3)
        return places

    def recommend(self, users: Iterable[Any] | None = None, k: int = 20, include_seen: bool = False) -> pd.DataFrame:
        """The top k items of some users, or of all.

        A user gets fewer than k where fewer are left that they have not seen. Unknown users are left out with a
        warning.

        Returns:
            A row for each user and item: user, rank (from 1), item, name (if the data has names), score.
        """
        places = None if users is None else self._warned("user", users)
        return pd.concat(list(self.batches(places, k, include_seen)), ignore_index=True)

    def batches(
        self, users: Sequence[int] | None, k: int, include_seen: bool = False, progress: bool = False
    ) -> Iterator[pd.DataFrame]:
        """The rows of `recommend` in parts of bounded size, for users by internal id (None: all); at least one part."""
        self.check_k(k)
        every = torch.arange(1, len(self.user_ids)) if users is None else torch.tensor(users, dtype=torch.long)
        step = max(SCORES_AT_ONCE // len(self.item_ids), 1)
        with tqdm(total=len(every), unit=" users", desc="recommend", disable=not progress, leave=False) as bar:
            for part in every.split(step) if len(every) else (every,):
                ids = part.to(self.device)
                yield self._frame(*self._top(ids, k, include_seen), k, part.numpy())
                bar.update(len(part))

    def recommend_for(self, liked: Iterable[Any], k: int = 20, include_seen: bool = False) -> pd.DataFrame:
        """The top k items for somebody who is not in the data but likes some items that are.

        See `Embeddings.fold_in` for how. The liked items count as seen; unknown ones are left out with a warning.

        Returns:
            Rows as of `recommend`, without the user.
        """
        self.check_k(k)
        places = self._warned("item", liked)
        if not places:
            raise DataError("none of the liked items is in the data: name at least one that is.")
        ids = torch.tensor(places, device=self.device)
        scores = self.embeddings().scores_for(ids).unsqueeze(0)
        scores[:, 0] = -torch.inf
        if not include_seen:
            scores[:, ids] = -torch.inf
        top = top_items(scores, k)
        return self._frame(top, scores.gather(1, top), k, None)

    def similar(self, items: Iterable[Any] | None = None, k: int = 10) -> pd.DataFrame:
        """The k items most similar to each of some items, or of all, by the cosine of their embeddings.

        Unknown items are left out with a warning. Popularity has no say where the model has a term for it.

        Returns:
            A row for each item and neighbour: item, rank (from 1), neighbour, cosine, and name and neighbour_name if
            the data has names.
        """
        places = None if items is None else self._warned("item", items)
        return pd.concat(list(self.similar_batches(places, k)), ignore_index=True)

    def similar_batches(self, items: Sequence[int] | None, k: int) -> Iterator[pd.DataFrame]:
        """The rows of `similar` in parts of bounded size, for items by internal id (None: all); at least one part."""
        others = len(self.item_ids) - 2
        if not 1 <= k <= others:
            raise OptionError(f"{k} neighbours: must be at least 1 and at most {others}, the number of other items.")
        return neighbour_table(self.embeddings().item_directions, k, self.item_ids, self.names, items)

    def embeddings(self) -> Embeddings:
        """The vectors whose inner products are the model's scores, and what is added to them."""
        return embeddings_of(self.model, self._seen.active_users)

    def check_k(self, k: int) -> None:
        if not 1 <= k < len(self.item_ids):
            raise OptionError(f"k = {k}: must be at least 1 and at most {len(self.item_ids) - 1}, the number of items.")

    @torch.no_grad()
    def _top(self, users: Tensor, k: int, include_seen: bool) -> tuple[Tensor, Tensor]:
        """Shape: users [B] → items [B, k], scores [B, k]."""
        scores = self._scores.scores(self.model, users, None if include_seen else self._seen.positives_of(users))
        top = top_items(scores, k)
        return top, scores.gather(1, top)

    def _frame(self, items: Tensor, scores: Tensor, k: int, users: np.ndarray | None) -> pd.DataFrame:
        values = scores.cpu().numpy().ravel()
        kept = np.isfinite(values)  # what was seen is at the end, at -inf
        places = items.cpu().numpy().ravel()[kept]
        rows = len(items)
        columns: dict[str, Any] = {} if users is None else {"user": self.user_ids[np.repeat(users, k)[kept]]}
        columns |= {"rank": np.tile(np.arange(1, k + 1, dtype=np.int32), rows)[kept], "item": self.item_ids[places]}
        if self.names is not None:
            columns["name"] = self.names[places]
        return pd.DataFrame(columns | {"score": values[kept]})


def _refuse_what_cannot_rank(model: Any) -> None:
    name = type(model).__name__
    if getattr(model, "type", None) in (ModelType.SEQUENTIAL, ModelType.CONTEXT):
        raise OptionError(
            f"{name} is a {model.type.name.lower()} model, which needs more than a user's id to rank items; "
            "recommendations are for models that rank by user alone."
        )
    if type(model).full_sort_predict is AbstractRecommender.full_sort_predict:
        raise OptionError(f"{name} has no full_sort_predict: it cannot rank all items at once.")
