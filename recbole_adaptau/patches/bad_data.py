"""Data that RecBole would crash on, hang on, or quietly read as something else: refused, or cleaned and counted.

`data.check` says what is looked for; here is where RecBole is made to look. Nothing is checked twice: a file that
serves as two parts is looked over once, and a dataset RecBole has saved itself is not looked over again.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recbole.utils import FeatureSource, ModelType

from ..config.selection import WITHOUT_LABELS, rating_bound
from ..data.check import AtomicFile, check_values, repeated_pairs, seen_before, without_missing_ids
from ..data.low_rated import LowRated
from ..errors import DataError, did_you_mean, refusals_explained
from ..training.log import say
from .libraries import silence_chained_assignment


def load_feat(original: Any, self: Any, filepath: str, source: Any) -> pd.DataFrame | None:
    file = AtomicFile.at(filepath, self.config["field_separator"], self.config["encoding"])
    columns = file.columns()
    is_inter = source is FeatureSource.INTERACTION
    if is_inter:
        _need_ids(self, columns, file)
        _need_rating(self, columns, file)
    seen: set[str] = self.__dict__.setdefault("_checked_files", set())
    known, lines = filepath in seen, None
    seen.add(filepath)
    if not known:
        lines = file.lines(len(columns))
        _judge_lines(self, lines, len(columns), file, strict=is_inter)
    table = _read(self, original, file, source, columns)
    if table is None:
        return None
    if lines is not None and len(table) < lines.filled - 1:
        raise file.open_quote()
    notes = [] if known else check_values(table, columns, file, self.config["val_interval"] or ())
    ids = [field for field in (self.uid_field, self.iid_field) if field in table]
    table, left_out = without_missing_ids(table, ids, file)
    for note in notes if known else [*left_out, *notes]:
        self.logger.warning(note)
    if is_inter and table.empty:
        raise DataError(f"{file.path} is empty: below its first line there is no interaction.")
    if is_inter:
        _count_rows(self, table)
    return table


def _count_rows(dataset: Any, table: pd.DataFrame) -> None:
    """Keep how many interactions were read, for `_say_positives`, and which of them have too low a rating."""
    rows, low = dataset.__dict__.get("_rows_read", (0, 0))
    bound = rating_bound(dataset.config)
    if bound is not None and bound[0] in table:
        field, interval = bound
        within = dataset._within_intervals(table[field].to_numpy(), dataset._parse_intervals_str(interval))
        low += int((~within).sum())
        if dataset.uid_field is not None and dataset.iid_field is not None:
            dataset.low_rated = LowRated.of(*(table[name][~within] for name in (dataset.uid_field, dataset.iid_field)))
    dataset.__dict__["_rows_read"] = rows + len(table), low


def _need_ids(dataset: Any, columns: dict[str, str], file: AtomicFile) -> None:
    """An interaction file has a column of users and one of items, both ids, and both are loaded."""
    load_col, unload_col = dataset._get_load_and_unload_col(FeatureSource.INTERACTION)
    for key, field in (("USER_ID_FIELD", dataset.uid_field), ("ITEM_ID_FIELD", dataset.iid_field)):
        if field is None:
            continue
        if field not in columns:
            raise DataError(
                f"{file.path}, line 1: there is no column '{field}' among {', '.join(columns)}."
                f"{did_you_mean(field, columns)} Rename the column, or set {key} to its name."
            )
        if columns[field] != "token":
            raise DataError(
                f"{file.path}, line 1: column '{field}' is of type {columns[field]}, but ids are of type token: "
                f"write {field}:token."
            )
        if (load_col is not None and field not in load_col) or (unload_col is not None and field in unload_col):
            raise DataError(f"load_col and unload_col leave out '{field}' of {file.path}: nothing works without it.")


def _need_rating(dataset: Any, columns: dict[str, str], file: AtomicFile) -> None:
    bound = rating_bound(dataset.config)
    if bound is not None and bound[0] not in columns:
        raise DataError(
            f"{file.path} has no column '{bound[0]}' (RATING_FIELD), of which only values in {bound[1]} are positives; "
            f"it has {', '.join(columns)}.{did_you_mean(bound[0], columns)}"
        )


def _judge_lines(dataset: Any, lines: Any, width: int, file: AtomicFile, strict: bool) -> None:
    """Lines with too few or too many columns: refused among interactions, counted in other files."""
    if lines is None or not lines.uneven:
        return
    message = (
        f"{file.path}, line {lines.first_uneven}: {lines.first_width} column(s), but the first line names {width}; "
        f"{lines.uneven} of {lines.filled - 1} lines are so. Columns are separated by {file.separator!r} "
        "(field_separator)."
    )
    if strict:
        raise DataError(message)
    dataset.logger.warning(f"{message} Missing columns are taken as empty and further ones left out.")


def _read(dataset: Any, load: Any, file: AtomicFile, source: Any, columns: dict[str, str]) -> pd.DataFrame | None:
    """RecBole's own reading, in the encoding of the file, whatever this machine's is."""
    given = dataset.config["encoding"]
    dataset.config["encoding"] = file.encoding
    try:
        with warnings.catch_warnings():
            silence_chained_assignment()
            table: pd.DataFrame | None = load(dataset, str(file.path), source)
        return table
    except pd.errors.ParserError as error:
        raise file.open_quote() from error
    except ValueError as error:
        found = file.not_a_number(columns, dataset.config["seq_separator"])
        if found is None:
            raise
        raise found from error
    finally:
        dataset.config["encoding"] = given


def from_scratch(original: Any, self: Any) -> None:
    """Repeated consumption can be meant (`repeatable`, models other than general ones): then nothing is dropped."""
    with refusals_explained(f"the dataset '{self.dataset_name}' cannot be loaded with these settings", DataError):
        try:
            original(self)
        except ValueError as error:
            if "feat is empty" not in str(error):
                raise
            filters = [*FILTERS, "val_interval"]
            chosen = ", ".join(f"{key} = {self.config[key]}" for key in filters if self.config[key] not in UNFILTERED)
            raise DataError(f"no interaction of '{self.dataset_name}' is left by {chosen}: loosen them.") from error
    are_pairs = self.uid_field is not None and self.config["MODEL_TYPE"] == ModelType.GENERAL
    if self.benchmark_filename_list is not None:
        if are_pairs and not self.config["repeatable"]:
            _drop_seen(self)
        _say_parts(self)
        return
    _say_positives(self)
    if are_pairs and not self.config["repeatable"]:
        _note_repeats(self)


UNFILTERED: tuple[Any, ...] = (None, "[0,inf)", {})
FILTERS = ("rm_dup_inter", "user_inter_num_interval", "item_inter_num_interval")


def _say_positives(dataset: Any) -> None:
    """How many interactions are positives, and why the others are not."""
    config, kept = dataset.config, len(dataset.inter_feat)
    rows, low = dataset.__dict__.get("_rows_read", (kept, 0))
    field = config["RATING_FIELD"]
    if config["MODEL_TYPE"] not in WITHOUT_LABELS:
        label = dataset.label_field
        if config["threshold"] and label in dataset.inter_feat:
            positive = int((dataset.inter_feat[label] > 0).sum())
            say(f"positives: {positive:,} of {kept:,} interactions, by threshold = {config['threshold']}")
        return
    told = [f"positives: {kept:,} of {rows:,} interactions"]
    bound = rating_bound(config)
    if bound is not None:
        told.append(f"{low:,} left out because their {field} is not in {bound[1]} (they count as seen)")
    elif field in dataset.inter_feat:
        told.append(f"every {field} counts as one (--min-rating=N leaves out those below N)")
    if rows - low > kept:
        values = {**config["val_interval"]} if config["val_interval"] else {}
        values.pop(field, None)
        found = {key: config[key] for key in FILTERS} | {"val_interval": values}
        filters = ", ".join(f"{key} = {value}" for key, value in found.items() if value) or "other filters"
        told.append(f"{rows - low - kept:,} left out by {filters}")
    say("; ".join(told))


def _say_parts(dataset: Any) -> None:
    """How many interactions the parts of a given split have; a file that both validates and tests counts once."""
    if dataset.config["MODEL_TYPE"] not in WITHOUT_LABELS:
        _say_positives(dataset)
        return
    names = dataset.benchmark_filename_list
    sizes = dict(zip(names, dataset.file_size_list, strict=True))
    told = f"positives: {sum(sizes.values()):,} interactions, split as given: "
    told += ", ".join(f"{name} {size:,}" for name, size in sizes.items())
    say(f"{told}; '{names[-1]}' both validates and tests" if names[-1] in names[1:-1] else told)


def _pairs(dataset: Any) -> tuple[Any, Any]:
    table = dataset.inter_feat
    return table[dataset.uid_field].to_numpy(), table[dataset.iid_field].to_numpy()


def _note_repeats(dataset: Any) -> None:
    repeats = repeated_pairs(*_pairs(dataset))
    if repeats:
        dataset.logger.warning(
            f"{repeats} of the {len(dataset.inter_feat)} interactions of '{dataset.dataset_name}' repeat the user and "
            "item of another. One may train and the other test, which flatters every figure: set rm_dup_inter=first "
            "to keep one of each."
        )


def _drop_seen(dataset: Any) -> None:
    bounds = np.cumsum(dataset.file_size_list)[:-1]
    users, items = (np.split(column, bounds) for column in _pairs(dataset))
    seen = seen_before(list(zip(users, items, strict=True)))
    for name, mask in zip(dataset.benchmark_filename_list, seen, strict=True):
        path = Path(dataset.dataset_path) / f"{dataset.dataset_name}.{name}.inter"
        if mask.all() and len(mask):
            raise DataError(f"{path}: every interaction is also in training; give a part of its own.")
        if mask.any():
            dataset.logger.warning(
                f"{path}: {mask.sum()} of {len(mask)} interactions left out, because they are in training too."
            )
    keep = ~np.concatenate(seen)
    if not keep.all():
        dataset.inter_feat = dataset.inter_feat[keep].reset_index(drop=True)
        dataset.file_size_list = [int((~mask).sum()) for mask in seen]
