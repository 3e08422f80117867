"""Next day's interactions: a warm start from the run that serves, checked against it before it takes its place."""

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config.selection import lowest_rating
from ..core.interactions import Interactions
from ..data.low_rated import LowRated
from ..data.stored import RunData
from ..errors import DataError, OptionError
from ..runs.folder import RunFolder, read_interactions
from ..runs.quick_start import run_recbole_adaptau
from ..training.checkpoint import quoted, shielded_argv
from .filters import Filters
from .ids import Ids, as_text, need_whole
from .ranking import top_places
from .served import Served, from_run, quiet

EPOCHS, HELD_OUT, LARGEST_SHARE, K = 5, 0.1, 0.5, 20
# Fewer users say little of a difference between two models.
FEWEST_USERS = 30
# How many standard errors the new model may be behind: what chance alone does in one of forty updates.
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Update:
    """What an update came to.

    Attributes:
        interactions, users, items: How many are new.
        low_rated: How many new ones have too low a rating to be learned from.
        old, new: NDCG@20 of both models over the held-out users.
        error: The standard error of the difference, over the users.
        checked: How many users were held out.
        replaced: Whether the new model recommends now.
        folder: Where it lies.
    """

    interactions: int
    users: int
    items: int
    old: float
    new: float
    error: float
    checked: int
    replaced: bool
    folder: Path | None
    low_rated: int = 0

    def __str__(self) -> str:
        if not self.interactions:
            return "nothing new: every positive interaction is known already"
        lines = [f"{self.interactions:,} new interactions, {self.users:,} new users, {self.items:,} new items"]
        if self.low_rated:
            lines.append(f"{self.low_rated:,} with a low rating count as seen")
        if self.checked:
            lines.append(
                f"NDCG@{K} of {self.checked:,} held-out users: {self.old:.4f} before, {self.new:.4f} now "
                f"(standard error of the difference {self.error:.4f})"
            )
        done = "the new model recommends now" if self.replaced else "the new model is worse, and the old one stays"
        return "\n".join([*lines, f"{done}: {self.folder}"])


def update(
    run_folder: str | Path,
    interactions: pd.DataFrame,
    epochs: int = EPOCHS,
    held_out: float = HELD_OUT,
    check: bool = True,
    all_positive: bool = False,
) -> Update:
    """Train what serves further on with new interactions, and put it in place if it is no worse.

    It starts from the weights that serve now and learns from all that these had (training, validation and test) and
    from what is new, but for a tenth of it, on which both are compared. The new version is a run folder of its own
    below run_folder/versions; one small file says which of them recommends, and is replaced last. So whoever loads the
    folder finds the old or the new one, whole.

    Args:
        run_folder: A run, refitted or not, updated before or not.
        interactions: user, item and perhaps time and rating, as of `data.frames.interactions_table`. Pairs with a lower
            rating than those that the run learned from only count as seen.
        epochs: How long to train.
        held_out: Which share of the new interactions to compare on, at most: one of each user, the last if there are
            times.
        check: Whether to compare; if not, the new model takes the place of the old in any case.
        all_positive: Whether interactions without ratings are positives though the run learned from ratings.
    """
    need_whole("epochs", epochs)
    if epochs < 1:
        raise OptionError(f"epochs = {epochs}: must be at least 1.")
    if not isinstance(held_out, float | int) or not 0 < held_out <= LARGEST_SHARE:
        raise OptionError(f"held_out = {held_out!r}: must be above 0 and at most {LARGEST_SHARE}.")
    run = RunFolder.existing(run_folder)
    with quiet(), run.alone():
        current = RunFolder.serving(run_folder)
        if not current.interactions.is_file():
            raise DataError(f"{current.path} has kept no interactions (a run of version 0.2?): train it again.")
        data = read_interactions(current.interactions)
        positives, low_rated = _by_rating(interactions, lowest_rating(current.settings()), run_folder, all_positive)
        rows = _new_rows(data, positives)
        if rows.empty:
            return Update(0, 0, 0, 0.0, 0.0, 0.0, 0, False, None)
        mask = _held_out(data, rows, held_out, current.settings()["seed"]) if check else np.zeros(len(rows), bool)
        if check and rows[mask]["user"].nunique() < FEWEST_USERS:
            raise _too_few(data, rows, mask)
        merged = replace(_merged(data, rows[~mask], rows[mask]), low_rated=data.low_rated.joined(low_rated))
        version = _new_version(run)
        version.path.mkdir(parents=True)
        version.write_interactions(merged)
        _train(current, version, epochs)
        about = current.about_data()
        version.describe_data(**{key: about[key] for key in ("files", "id_types") if key in about})
        old, new = _compared(current, version, rows[~mask], rows[mask]) if check else (np.zeros(0), np.zeros(0))
        error = float(np.std(new - old, ddof=1) / np.sqrt(len(new))) if check else 0.0
        before, now = (float(values.mean()) if check else 0.0 for values in (old, new))
        better = not check or now >= before - STANDARD_ERRORS * error
        if better:
            run.put_in_place(version.path.name)
            _remove_old_versions(run, keep={version.path, current.path})
    users, items = len(merged.user_ids) - len(data.user_ids), len(merged.item_ids) - len(data.item_ids)
    return Update(len(rows), users, items, before, now, error, len(new), better, version.path, len(low_rated))


def _by_rating(
    interactions: pd.DataFrame, least: float | None, run_folder: str | Path, all_positive: bool
) -> tuple[pd.DataFrame, LowRated]:
    """The rows that are positives in the eyes of the run, and the pairs of the others."""
    if least is None or all_positive:
        return interactions, LowRated.of()
    if "rating" not in interactions:
        raise OptionError(
            f"{run_folder} learned from ratings of at least {least:g}, and the new interactions have none: name the "
            "column with --rating COLUMN, or say --rating none if each of them is a positive."
        )
    positive = interactions["rating"] >= least
    low = interactions[~positive]
    return interactions[positive], LowRated.of(*(low[kind].map(as_text) for kind in ("user", "item")))


def _too_few(data: RunData, rows: pd.DataFrame, mask: np.ndarray) -> DataError:
    users = rows[mask]["user"].nunique()
    more = rows[_held_out(data, rows, LARGEST_SHARE, 0)]["user"].nunique() >= FEWEST_USERS
    instead = f"hold out more (--held-out {LARGEST_SHARE})" if more else "wait for more"
    return DataError(
        f"only {users} {'user' if users == 1 else 'users'} can be held out of {len(rows)} new interactions, too few to "
        f"compare two models on ({FEWEST_USERS}): {instead}, or update without the check (--unchecked)."
    )


def _new_rows(data: RunData, interactions: pd.DataFrame) -> pd.DataFrame:
    """The interactions that are not known yet, each once, ids as text."""
    rows = interactions[[name for name in ("user", "item", "time") if name in interactions]].copy()
    for kind in ("user", "item"):
        rows[kind] = rows[kind].map(as_text)
    if "time" in rows:
        rows = rows.sort_values("time", kind="stable")
    rows = rows.drop_duplicates(["user", "item"])
    users, items = (Ids(ids).places(rows[kind]) for kind, ids in (("user", data.user_ids), ("item", data.item_ids)))
    pairs = data.users.astype(np.int64) * len(data.item_ids) + data.items
    known = (users > 0) & (items > 0) & np.isin(users * len(data.item_ids) + items, pairs)
    return rows[~known].reset_index(drop=True)


def _held_out(data: RunData, rows: pd.DataFrame, share: float, seed: int) -> np.ndarray:
    """[rows] the last interaction of random users, or a random one without times; at most a share of all.

    No user and no item is known by held-out interactions alone.
    """
    rng = np.random.default_rng(seed)
    order = rows if "time" in rows else rows.sample(frac=1, random_state=seed)
    last = order.drop_duplicates("user", keep="last").index.to_numpy()
    mask = np.zeros(len(rows), bool)
    mask[rng.permutation(last)[: round(len(rows) * share)]] = True
    for kind, ids in (("user", data.user_ids), ("item", data.item_ids)):
        mask &= (rows[kind].isin(ids) | rows[kind].isin(rows[kind][~mask])).to_numpy()
    return mask


def _merged(data: RunData, training: pd.DataFrame, held_out: pd.DataFrame) -> RunData:
    """Everything known and the new training rows as training part, the held-out rows as test part.

    New users and items come after the known ones, whose places stay.
    """
    ids, places = {}, {}
    for kind, known in (("user", data.user_ids), ("item", data.item_ids)):
        named = [*training[kind], *held_out[kind]]
        old = Ids(known)
        all_ids = old.with_more(name for name in dict.fromkeys(named) if name not in old)
        ids[kind] = all_ids.names.astype(str)
        places[kind] = np.concatenate([getattr(data, f"{kind}s"), all_ids.places(named).astype(np.int32)])
    sizes = (len(data.users) + len(training), 0, len(held_out))
    names = data.names
    if names is not None:
        names = np.concatenate([names, np.full(len(ids["item"]) - len(names), "", dtype=object)]).astype(str)
    return RunData(ids["user"], ids["item"], places["user"], places["item"], sizes, {}, names)


def _new_version(run: RunFolder) -> RunFolder:
    name, number = time.strftime("%Y%m%d-%H%M%S"), 1
    while (run.versions / f"{name}-{number}").exists():
        number += 1
    return RunFolder(run.versions / f"{name}-{number}")


def _train(current: RunFolder, version: RunFolder, epochs: int) -> None:
    settings: dict[str, Any] = current.settings() | {
        "run_folder": str(version.path),
        "stored_data": str(version.interactions.absolute()),
        "warm_start": str(current.path.absolute()),
        "stop_epoch": None,
        "epochs": epochs,
        "resume": False,
        "stored_settings": True,
    }
    for key in ("nproc", "world_size"):
        settings.pop(key, None)
    with shielded_argv():
        run_recbole_adaptau(settings["model"], settings["dataset"], None, quoted(settings))


def _compared(
    current: RunFolder, version: RunFolder, training: pd.DataFrame, held_out: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    """NDCG@20 of each held-out user: of what serves now, with new users folded in, and of the new version."""
    # As they were trained: in files that have changed since, the held-out interactions would count as seen.
    old, new = (from_run(folder.path, with_changes=False) for folder in (current, version))
    old = old.with_history(training["user"].tolist(), training["item"].tolist())
    data = read_interactions(version.interactions)
    seen = Interactions(*data.training, len(new.users), len(new.items)).to(new.scorer.device)
    new = replace(new, seen=seen)
    users = list(dict.fromkeys(held_out["user"]))
    wanted = {user: set(part) for user, part in held_out.groupby("user")["item"]}
    return ndcg(old, users, wanted), ndcg(new, users, wanted)


def ndcg(served: Served, users: list[str], wanted: dict[str, set[str]], k: int = K) -> np.ndarray:
    """[users] NDCG@k; 0 for a user of whom nothing is known. Items that are unknown count as not found."""
    k = min(k, len(served.items) - 1)
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    found = np.zeros(len(users))
    places = served.users.places(users)
    known = np.flatnonzero(places)
    tops = (top for _, part, _ in top_places(served, places[known], k, Filters(seen=served.seen)) for top in part)
    for row, top in zip(known, tops, strict=True):
        hits = np.isin(served.items.names[top].astype(str), list(wanted[users[row]]))
        found[row] = (hits * discounts).sum() / discounts[: min(len(wanted[users[row]]), k)].sum()
    return found


def _remove_old_versions(run: RunFolder, keep: set[Path]) -> None:
    """All but what recommends now and what did before, which somebody may just be loading."""
    for folder in run.versions.iterdir():
        if folder not in keep:
            shutil.rmtree(folder, ignore_errors=True)
