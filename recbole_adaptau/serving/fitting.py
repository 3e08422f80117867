"""From a table in memory to a run folder, by RecBole's pipeline."""

import csv
import sys
import warnings
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd
from recbole.utils import get_model

from ..config.loading import check_name, new_run_folder
from ..data.frames import are_numbers, interactions_table
from ..errors import DataError, DataWarning, OptionError
from ..runs.folder import RunFolder
from ..runs.quick_start import run_recbole_adaptau
from ..training.checkpoint import quoted, shielded_argv
from .scoring import refuse_what_cannot_rank

OWN = ("dataset", "data_path", "load_col", "benchmark_filename")


def train(
    model: str,
    settings: Mapping[str, Any],
    name: str,
    item_names: Any,
    data: Any,
    user: str,
    item: str,
    time: str | None,
    rating: str | None,
    min_rating: float | None,
    user_ids: Any,
    item_ids: Any,
) -> Path:
    """Train a model on interactions; see `Recommender.fit`. Returns the run folder."""
    for key in OWN:
        if key in settings:
            raise OptionError(f"{key}: fit sets it; leave it out.")
    if settings.get("min_rating") is not None:
        raise OptionError(
            "min_rating: give it to fit, with the column of the ratings: fit(…, rating='…', min_rating=4)."
        )
    check_name(name)
    refuse_what_cannot_rank(get_model(model))
    if user is None or item is None:
        raise OptionError("user and item: name the columns with the ids, as user='customer', item='article'.")
    if item_names is not None and not isinstance(item_names, Mapping | pd.Series):
        raise TypeError(f"item_names: give {{item: name}}, not a {type(item_names).__name__}.")
    if rating is not None and min_rating is None:
        raise OptionError(f"rating = {rating!r}: say from which rating on an interaction is a positive: min_rating=4.")
    if min_rating is not None and not isinstance(min_rating, Real):
        raise OptionError(f"min_rating = {min_rating!r}: must be a number.")
    table = interactions_table(data, user, item, time, rating, user_ids, item_ids)
    if min_rating is not None and "rating" not in table:
        raise OptionError(f"min_rating = {min_rating}: name the column with the ratings: rating='…'.")
    if len(table) < (rows := getattr(data, "nnz", len(table)) if "rating" in table and rating is None else len(data)):
        warnings.warn(
            f"{rows - len(table)} of {rows} rows have no user or no item and are left out.", DataWarning, stacklevel=3
        )
    table = _each_pair_once(table, min_rating)
    folder = Path(
        settings.get("run_folder") or new_run_folder(settings.get("run_root") or "runs", name, model, settings)
    )
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"run_folder = {str(folder)!r} is a file, not a folder.")
    RunFolder(folder).refuse_if_used()
    write_dataset(folder / "dataset" / name, name, table, item_names, min_rating)
    given = {
        "show_progress": sys.stderr.isatty(),
        **settings,
        "run_folder": str(folder),
        "data_path": str(folder / "dataset"),
    }
    with shielded_argv():
        run_recbole_adaptau(model, name, None, quoted({**given, "strict_keys": list(settings)}))
    types = {kind: "int" for kind in ("user", "item") if are_numbers(table[kind])}
    RunFolder(folder).describe_data(id_types=types)
    return folder


def _each_pair_once(table: pd.DataFrame, min_rating: float | None) -> pd.DataFrame:
    """Of a pair that occurs more than once the earliest, or the first; those with too low a rating after others."""
    if "time" in table:
        table = table.sort_values("time", kind="stable")
    if min_rating is not None:
        low = table["rating"] < min_rating
        if low.all():
            raise DataError(f"no rating is at least min_rating = {min_rating}.")
        table = table.loc[low.sort_values(kind="stable").index]
    return table.drop_duplicates(["user", "item"]).sort_index()


def write_dataset(
    folder: Path, name: str, table: pd.DataFrame, item_names: Any = None, min_rating: float | None = None
) -> None:
    """RecBole's atomic files of a table with user, item and perhaps time, and its items' names.

    With `min_rating` also the ratings, and the lowest of a positive.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"user": "user_id:token", "item": "item_id:token", "time": "timestamp:float"}
    columns |= {} if min_rating is None else {"rating": "rating:float"}
    kept = table[[column for column in columns if column in table]].rename(columns=columns)
    kept.to_csv(folder / f"{name}.inter", sep="\t", index=False, quoting=csv.QUOTE_NONE, lineterminator="\n")
    loaded = ", ".join(column.partition(":")[0] for column in kept)
    settings = f"load_col: {{inter: [{loaded}]}}\n" + (f"min_rating: {min_rating}\n" if min_rating is not None else "")
    (folder / f"{name}.yaml").write_text(settings, encoding="utf-8")
    if item_names is not None:
        rows = [(str(item), _line(shown)) for item, shown in item_names.items()]
        named = pd.DataFrame(rows, columns=["item_id:token", "item_name:token_seq"])
        named.to_csv(folder / f"{name}.item", sep="\t", index=False, quoting=csv.QUOTE_NONE, lineterminator="\n")


def _line(name: Any) -> str:
    return " ".join(str(name).replace('"', "'").split())
