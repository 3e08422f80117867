"""Recommendations by the ids of the data: trained from a table, or loaded from a run folder."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import torch

from ..data.columns import NONE
from ..data.frames import interactions_table
from ..errors import AdapTauError, DataError, DataWarning, OptionError, did_you_mean
from ..runs.folder import RunFolder
from . import ranking
from .embeddings import Embeddings
from .explain import reasons
from .filters import FILTERS, Filters
from .fitting import train
from .ids import Ids, id_list, need_whole, pair_lists
from .ranking import top_places
from .served import Served, from_run, of_model
from .similar import neighbour_table
from .update import Update, update


class Recommender:
    """Top items for users of the data, or for anybody who names some items they like.

    Users and items are given and returned by their own (external) ids. All that the data has a user down for
    (training, validation, test, and what has too low a rating) counts as seen. Any number of threads may ask at the
    same time: what answers is never changed, only replaced as a whole.

    Args:
        model: Any model's name, ours or RecBole's.
        settings: Any setting by name, as of `recbole-adaptau train`.
    """

    def __init__(self, model: str = "AdapTauMF", **settings: Any):
        if not isinstance(model, str):
            raise TypeError("Recommender takes a model's name; of a model and its dataset use Recommender.of.")
        self.model, self.settings = model, settings
        self._served: Served | None = None
        self._options: dict[str, Any] = {}  # of `load`
        self._history: tuple[list[str], list[str]] = ([], [])  # of `add_history`
        self._writing = Lock()

    def fit(
        self,
        interactions: Any,
        user: str = "user",
        item: str = "item",
        time: str | None = None,
        rating: str | None = None,
        min_rating: float | None = None,
        user_ids: Any = None,
        item_ids: Any = None,
        item_names: Any = None,
        name: str = "interactions",
    ) -> "Recommender":
        """Train on a table of interactions, by RecBole's pipeline and with the run folder of any other run.

        Args:
            interactions: A pandas or Polars DataFrame, an Arrow table, or a SciPy matrix (users in rows).
            user, item: The columns with the ids: text or whole numbers.
            time: The column with times (numbers or dates), for a split by time.
            rating: The column with ratings; needs `min_rating`.
            min_rating: A rating from which on an interaction is a positive; others only count as seen.
            user_ids, item_ids: The ids of a matrix's rows and columns.
            item_names: {item: name}, shown beside the ids.
            name: Of the dataset in run folders and tables.
        """
        table = (interactions, user, item, time, rating, min_rating, user_ids, item_ids)
        folder = train(self.model, self.settings, name, item_names, *table)
        self._served, self._options, self._history = from_run(folder), {}, ([], [])
        return self

    @classmethod
    def load(
        cls, run_folder: str | Path, data_path: str | Path | None = None, name_field: str | None = None
    ) -> "Recommender":
        """The best epoch of a run, or what `update` has put in its place.

        The folder alone is enough. If the files that the run was trained on have changed since, their further
        interactions count as seen, and new users are served from them.

        Args:
            run_folder: What a run has left, of our models or RecBole's.
            data_path: Where the datasets lie now, if they have moved since.
            name_field: The column of the .item file with the items' names, if it is not called title or name.
        """
        made = cls(RunFolder.existing(run_folder).settings()["model"])
        made._options = {"data_path": data_path, "name_field": name_field}
        made._served = from_run(run_folder, **made._options)
        return made

    @classmethod
    def of(cls, model: Any, dataset: Any, name_field: str | None = None) -> "Recommender":
        """Of a trained model and its RecBole dataset."""
        made = cls(type(model).__name__)
        made._served = of_model(model, dataset, name_field)
        return made

    def refresh(self) -> bool:
        """Go over to what `update` has put in the run's place since; True if there was something.

        Until it is loaded, the old one answers.
        """
        with self._writing:
            served = self.served
            if served.folder is None or RunFolder.serving(served.folder).path == served.version:
                return False
            self._served = from_run(served.folder, **self._options).with_history(*self._history)
            return True

    def update(
        self,
        interactions: Any,
        user: str = "user",
        item: str = "item",
        time: str | None = None,
        rating: str | None = None,
        **options: Any,
    ) -> Update:
        """Train further on with new interactions, and go over to the new model if it is no worse; see `update.update`.

        Until then the old one answers.

        Args:
            interactions, user, item, time: As of `fit`.
            rating: The column with ratings, for a model that learned from ratings; "none" if all are positives.
            options: epochs, held_out and check.
        """
        folder = self.run_folder
        if folder is None:
            raise AdapTauError("only a model with a run folder can be updated: use fit, or load one.")
        none = rating == NONE
        table = interactions_table(interactions, user, item, time, None if none else rating)
        done = update(folder, table, **options, all_positive=none)
        self.refresh()
        return done

    def add_history(self, interactions: Any, user: str = "user", item: str = "item") -> None:
        """Interactions since the training: they count as seen, and new users are served from them.

        Nothing is trained: a known user's taste stays as it was. Items that the model does not know are left out with a
        warning.

        Args:
            interactions: A table with the two columns, {user: items}, or pairs (user, item).
        """
        users, items = pair_lists(interactions, "interactions", user, item)
        with self._writing:
            served = self.served
            self._warn("items", list(dict.fromkeys(name for name in items if name not in served.items)))
            self._history = [*self._history[0], *users], [*self._history[1], *items]
            self._served = served.with_history(users, items)

    @property
    def served(self) -> Served:
        if self._served is None:
            raise AdapTauError("nothing is trained yet: call fit, or load a run folder with Recommender.load.")
        return self._served

    @property
    def run_folder(self) -> Path | None:
        """Where the run lies; None for a model that was given as such."""
        return self.served.folder

    @property
    def user_ids(self) -> np.ndarray:
        """All users."""
        return self.served.users[slice(1, None)]

    @property
    def item_ids(self) -> np.ndarray:
        """All items."""
        return self.served.items[slice(1, None)]

    def known(self, kind: str, ids: Any) -> tuple[list[str], list[str]]:
        """The given users or items (kind: user, item) that are known, in order and once each; and the others."""
        given, those = id_list(ids, f"{kind}s"), getattr(self.served, f"{kind}s")
        return [name for name in given if name in those], [name for name in given if name not in those]

    def recommend(
        self,
        users: Any = None,
        k: int = 20,
        include_seen: bool = False,
        *,
        allow: Any = None,
        deny: Any = None,
        exclude: Any = None,
        candidates: Any = None,
        explain: int = 0,
    ) -> pd.DataFrame:
        """The top k items of a user, of several, or of all.

        A user gets fewer than k where fewer are left. Unknown users are left out with a warning.

        Args:
            users: One id or a sequence of ids; None for all.
            k: How many items.
            include_seen: Rank what a user has seen, too.
            allow: Only these items.
            deny: None of these.
            exclude: None of these for single users: {user: items}, pairs, or a table with user and item.
            candidates: Only these for each user, given likewise.
            explain: How many of a user's own items to name as reasons in the column `because`.

        Returns:
            A row for each user and item: user, rank (from 1), item, name (if the data has names), score.
        """
        options = {"allow": allow, "deny": deny, "exclude": exclude, "candidates": candidates, "explain": explain}
        return pd.concat(list(self.batches(users, k, include_seen, **options)), ignore_index=True)

    def batches(
        self,
        users: Any = None,
        k: int = 20,
        include_seen: bool = False,
        *,
        progress: bool = False,
        explain: int = 0,
        **filters: Any,
    ) -> Iterator[pd.DataFrame]:
        """The rows of `recommend` in parts of bounded size; at least one part."""
        served = self.served
        every = np.arange(1, len(served.users)) if users is None else self._places(served.users, users, "users")
        _check_k(k, len(served.items))
        _check_options(explain, filters)
        made = Filters.of(served.users, served.items, None if include_seen else served.hidden, self._warn, **filters)
        return self._parts(served, every, k, made, explain, progress)

    def recommend_for(self, liked: Any, k: int = 20, include_seen: bool = False, **options: Any) -> pd.DataFrame:
        """The top k items for users who are not in the data but like some items that are.

        See `Embeddings.fold_in` for how. The liked items count as seen; unknown ones are left out with a warning.

        Args:
            liked: The items of one user; or of many, as {user: items} or a table with user and item.
            k, include_seen, options: As of `recommend`.

        Returns:
            Rows as of `recommend`; for one user without the user.
        """
        many = isinstance(liked, dict | pd.DataFrame)
        users, items = pair_lists(liked if many else {"": id_list(liked, "liked")}, "liked")
        served = self.served.without_users()
        self._warn("items", list(dict.fromkeys(name for name in items if name not in served.items)))
        theirs = served.with_history(users, items)
        if len(theirs.users) == len(served.users):
            raise DataError("none of the liked items is in the data: name at least one that is.")
        _check_k(k, len(served.items))
        places = np.arange(len(served.users), len(theirs.users))
        explain, progress = options.pop("explain", 0), options.pop("progress", False)
        _check_options(explain, options)
        made = Filters.of(theirs.users, theirs.items, None if include_seen else theirs.seen, self._warn, **options)
        table = pd.concat(list(self._parts(theirs, places, k, made, explain, progress)), ignore_index=True)
        return table if many else table.drop(columns="user")

    def similar_items(self, items: Any = None, k: int = 10) -> pd.DataFrame:
        """The k items most similar to an item, to several, or to each of all, by the cosine of their embeddings.

        Unknown items are left out with a warning. Popularity has no say where the model has a term for it.

        Returns:
            A row for each item and neighbour: item, rank (from 1), neighbour, cosine, and name and neighbour_name if
            the data has names.
        """
        return pd.concat(list(self.similar_batches(items, k)), ignore_index=True)

    def similar_batches(self, items: Any = None, k: int = 10) -> Iterator[pd.DataFrame]:
        """The rows of `similar_items` in parts of bounded size; at least one part."""
        served = self.served
        places = None if items is None else self._places(served.items, items, "items")
        _check_neighbours(k, len(served.items) - 2, "items")
        directions = served.scorer.embeddings.item_directions
        return neighbour_table("item", directions, k, served.items, served.names, places)

    def similar_users(self, users: Any, k: int = 10) -> pd.DataFrame:
        """The k users most similar to a user or to several, by the cosine of their embeddings.

        Returns:
            A row for each user and neighbour: user, rank (from 1), neighbour, cosine.
        """
        served = self.served
        _check_neighbours(k, len(served.users) - 2, "users")
        parts = neighbour_table(
            "user", served.user_directions, k, served.users, None, self._places(served.users, users, "users")
        )
        return pd.concat(list(parts), ignore_index=True)

    def score(self, pairs: Any, user: str = "user", item: str = "item") -> pd.DataFrame:
        """The scores of single pairs: a table with the two columns, {user: items}, or a sequence of (user, item).

        Returns:
            A row for each pair, in order: user, item, score; NaN where the user or the item is unknown.
        """
        served = self.served
        users, items = pair_lists(pairs, "pairs", user, item)
        own, theirs = served.users.places(users), served.items.places(items)
        known = (own > 0) & (theirs > 0)
        scores = np.full(len(own), np.nan)
        asked, rows = np.unique(own[known], return_inverse=True)
        found = np.empty(known.sum())
        step = max(ranking.SCORES_AT_ONCE // len(served.items), 1)
        for start in range(0, len(asked), step):
            part = torch.from_numpy(asked[start : start + step]).to(served.scorer.device)
            mine = (rows >= start) & (rows < start + step)
            table = served.scorer.scores(part, served.seen)
            found[mine] = table[rows[mine] - start, theirs[known][mine]].cpu().numpy()
        scores[known] = found
        return pd.DataFrame(
            {"user": served.users.as_given(users), "item": served.items.as_given(items), "score": scores}
        )

    def embeddings(self) -> Embeddings:
        """The vectors whose inner products are the model's scores, and what is added to them."""
        return self.served.scorer.embeddings

    def _places(self, ids: Ids, given: Any, what: str) -> np.ndarray:
        """Places of the ids that are known, with a warning of the others."""
        names = id_list(given, what)
        places = ids.places(names)
        self._warn(what, [name for name, place in zip(names, places, strict=True) if not place])
        return places[places > 0]

    @staticmethod
    def _warn(what: str, unknown: list[str]) -> None:
        if unknown:
            shown = ", ".join(unknown[:10]) + (f" and {len(unknown) - 10} more" if len(unknown) > 10 else "")
            warnings.warn(f"not in the data, left out: {what} {shown}", DataWarning, stacklevel=3)

    @staticmethod
    def _parts(
        served: Served, users: np.ndarray, k: int, filters: Filters, explain: int, progress: bool
    ) -> Iterator[pd.DataFrame]:
        for part, items, scores in top_places(served, users, k, filters, progress):
            table = _frame(served, part, items, scores)
            if explain:
                table["because"] = _because(served, part, items, scores, explain)
            yield table


def _frame(served: Served, users: np.ndarray, items: np.ndarray, scores: np.ndarray) -> pd.DataFrame:
    """Shape: users [B], items [B, k], scores [B, k]."""
    kept = np.isfinite(scores)  # what is left out is at the end, at -inf
    rows, ranks = np.nonzero(kept)
    places = items[kept]
    columns = {"user": served.users[users[rows]], "rank": (ranks + 1).astype(np.int32), "item": served.items[places]}
    if served.names is not None:
        columns["name"] = served.names[places]
    return pd.DataFrame({**columns, "score": scores[kept]})


def _because(served: Served, users: np.ndarray, items: np.ndarray, scores: np.ndarray, number: int) -> list[str]:
    """For each row of `_frame` the reasons, by name where there are names."""
    names = served.items.names if served.names is None else served.names
    rows, own = (
        part.cpu().numpy() for part in served.seen.positives_of(torch.from_numpy(users).to(served.scorer.device))
    )
    ends = np.searchsorted(rows, np.arange(1, len(users)))
    told = []
    for top, finite, liked in zip(items, np.isfinite(scores), np.split(own, ends), strict=True):
        found = reasons(served.scorer.embeddings, top[finite], liked, number)
        told += ["; ".join(map(str, names[places])) for places in found]
    return told


def _check_k(k: int, n_items: int) -> None:
    need_whole("k", k)
    if not 1 <= k < n_items:
        raise OptionError(f"k = {k}: must be at least 1 and at most {n_items - 1}, the number of items.")


def _check_options(explain: int, filters: dict[str, Any]) -> None:
    for name in filters:
        if name not in FILTERS:
            known = ", ".join(FILTERS)
            raise TypeError(f"there is no filter '{name}', only {known}.{did_you_mean(name, FILTERS)}")
    need_whole("explain", explain)
    if explain < 0:
        raise OptionError(f"explain = {explain}: must be at least 0.")


def _check_neighbours(k: int, others: int, what: str) -> None:
    need_whole("k", k)
    if not 1 <= k <= others:
        raise OptionError(f"{k} neighbours: must be at least 1 and at most {others}, the number of other {what}.")
