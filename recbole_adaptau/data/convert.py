"""From the LightGCN text format (`train.txt`, `test.txt`) to RecBole's atomic files, the split as given."""

import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ..errors import DataError, did_you_mean
from ..files import need_parent
from .lightgcn_text import Tokens, read_pairs
from .text import counts

PARTS = ("train", "test", "fit", "valid")

SIDECAR = """\
# Given split, converted from the LightGCN text files (train.txt, test.txt) in {source}.
# {report.users:,} users, {report.items:,} items; interactions: train {report.train:,} \
(= fit {report.fit:,} + valid {report.valid:,}), test {report.test:,}.
# valid_ratio {valid_ratio}, seed {seed}.
# {command}
given_split: {{paper: [train, test, test], honest: [fit, valid, test]}}
load_col: {{inter: [user_id, item_id]}}
"""


@dataclass(frozen=True)
class ConversionReport:
    """What was written and what was cleaned away; the parts are counted in interactions."""

    folder: Path
    users: int
    items: int
    train: int
    test: int
    fit: int
    valid: int
    duplicates_dropped: int
    overlap_dropped: int
    merged_lines: int
    cold_test_users: int
    cold_test_items: int

    def __str__(self) -> str:
        rows = [
            ("users", self.users, ""),
            ("items", self.items, ""),
            ("train", self.train, "interactions, = fit + valid"),
            ("  fit", self.fit, ""),
            ("  valid", self.valid, ""),
            ("test", self.test, ""),
            ("duplicates dropped", self.duplicates_dropped, "an item repeated for a user"),
            ("overlap dropped", self.overlap_dropped, "test pairs that are also in train"),
            ("lines merged", self.merged_lines, "further lines of a user"),
            ("cold test users", self.cold_test_users, "in test only, kept"),
            ("cold test items", self.cold_test_items, "in test only, kept"),
        ]
        return counts(self.folder, rows)


def convert_lightgcn(
    source: Path,
    name: str,
    output: Path = Path("dataset"),
    valid_ratio: float = 0.1,
    seed: int = 2020,
    force: bool = False,
) -> ConversionReport:
    """Write `output/name/` from `source/train.txt` and `source/test.txt`.

    Each line of those files is a user id and its item ids, separated by spaces. The folder gets the parts
    train, test, fit and valid (`name.<part>.inter`; fit and valid make up train) and the sidecar `name.yaml`.
    The files do not depend on the order of the lines or of the items in a line.

    Cleaned and counted: items repeated for a user, test pairs that are also in train, users spread over
    several lines (merged). Users or items that occur in test only are kept and counted.

    A new folder appears complete or not at all. With `force` an existing one keeps every file that is not
    ours; its sidecar goes first and comes back last, so a half-replaced folder never has one.

    Args:
        source: Folder with `train.txt` and `test.txt`.
        name: Name of the dataset, later given as `--dataset=name`.
        output: Folder of all datasets, RecBole's `data_path`.
        valid_ratio: Share of each user's train items held out for validation, in (0, 0.5].
        seed: Seed of that draw, see `validation_mask`.
        force: Replace our files if `output/name` exists.

    Returns:
        ConversionReport: The counts.

    Raises:
        DataError: The input or an option cannot be used; the message says where and what to do.
    """
    source, output = Path(source), Path(output)
    folder = output / name
    _check_options(name, valid_ratio, seed)
    _check_paths(source, folder, force)
    with tqdm(total=3 + len(PARTS), desc="convert", leave=False, disable=None) as bar:
        user_tokens, item_tokens = Tokens(), Tokens()
        raw, merged = {}, 0
        for part in ("train", "test"):
            users, items, repeated = read_pairs(source / f"{part}.txt", user_tokens, item_tokens)
            raw[part], merged = (users, items), merged + repeated
            bar.update()
        user_ids, user_place = user_tokens.canonical()
        item_ids, item_place = item_tokens.canonical()
        # One number per (user, item) pair: sorting, de-duplicating and comparing parts become array calls.
        pairs = {
            part: np.unique(user_place[users] * len(item_ids) + item_place[items])
            for part, (users, items) in raw.items()
        }
        duplicates = sum(len(raw[part][0]) - len(pairs[part]) for part in raw)
        overlap = np.isin(pairs["test"], pairs["train"], assume_unique=True)
        pairs["test"] = pairs["test"][~overlap]
        users, items = np.divmod(pairs["train"], len(item_ids))
        test_users, test_items = np.divmod(pairs["test"], len(item_ids))
        held_out = validation_mask(users, items, valid_ratio, seed)
        pairs["fit"], pairs["valid"] = pairs["train"][~held_out], pairs["train"][held_out]
        _check_parts(source, items, pairs)
        bar.update()
        report = ConversionReport(
            folder=folder,
            users=len(np.union1d(users, test_users)),
            items=len(np.union1d(items, test_items)),
            **{part: len(pairs[part]) for part in PARTS},
            duplicates_dropped=duplicates,
            overlap_dropped=int(overlap.sum()),
            merged_lines=merged,
            cold_test_users=len(np.setdiff1d(test_users, users)),
            cold_test_items=len(np.setdiff1d(test_items, items)),
        )
        files = {f"{name}.yaml": _sidecar(report, source, name, valid_ratio, seed)}
        for part in PARTS:
            part_users, part_items = (ids.tolist() for ids in np.divmod(pairs[part], len(item_ids)))
            lines = [f"{user_ids[u]}\t{item_ids[i]}\n" for u, i in zip(part_users, part_items, strict=True)]
            files[f"{name}.{part}.inter"] = "user_id:token\titem_id:token\n" + "".join(lines)
            bar.update()
        publish(files, folder, force)
    return report


def validation_mask(
    users: NDArray[np.int64], items: NDArray[np.int64], valid_ratio: float, seed: int
) -> NDArray[np.bool_]:
    """Which train interactions are held out for validation.

    Per user `round(valid_ratio * n)` of its n items, at least one if n >= 2, never all. An item whose every
    interaction was drawn gets one back (its first user's), so validation makes no user and no item cold;
    that user then has one validation item less than its share, possibly none.

    Args:
        users: Users as integers, pairs sorted by user and item and without repeats.
        items: Their items.
        valid_ratio: Share to hold out, in (0, 0.5].
        seed: Seed of the draw.

    Shape:
        users [N], items [N] → [N], True = validation.
    """
    counts = np.bincount(users)
    shares = np.minimum(np.maximum(np.rint(valid_ratio * counts), 1), counts - 1)
    draw = np.random.default_rng(seed).random(len(users))
    shuffled = np.lexsort((draw, users))
    starts = np.cumsum(counts) - counts
    # Sorted by user, shuffling within users leaves every row's user in place, so `users` needs no reordering.
    rank = np.arange(len(users)) - starts[users]
    mask = np.empty(len(users), dtype=bool)
    mask[shuffled] = rank < shares[users]
    in_fit = np.bincount(items[~mask], minlength=items.max(initial=0) + 1)
    cold_rows = np.flatnonzero(in_fit[items] == 0)
    mask[cold_rows[np.unique(items[cold_rows], return_index=True)[1]]] = False
    return mask


def check_name(name: str) -> None:
    """Refuse what cannot name a dataset."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", name) or ".." in name:
        raise DataError(
            f"name {name!r} cannot name a dataset: use letters, digits, '_', '-' and single '.', "
            "not starting with '.' or '-', at most 100 characters, for example 'gowalla'."
        )
    if name == "ml-100k":
        raise DataError("name 'ml-100k' always means RecBole's own sample: choose another, as 'ml-100k-given'.")


def _check_options(name: str, valid_ratio: float, seed: int) -> None:
    check_name(name)
    if not 0 < valid_ratio <= 0.5:
        raise DataError(f"valid_ratio is {valid_ratio}: it must be above 0 and at most 0.5, for example 0.1.")
    if seed < 0:
        raise DataError(f"seed is {seed}: it must be 0 or more.")


def _check_paths(source: Path, folder: Path, force: bool) -> None:
    if not source.is_dir():
        siblings = [path.name for path in source.parent.iterdir()] if source.parent.is_dir() else []
        raise DataError(f"source '{source}' is not a folder.{did_you_mean(source.name, siblings)}")
    missing = [file for file in ("train.txt", "test.txt") if not (source / file).is_file()]
    if missing:
        found = ", ".join(sorted(path.name for path in source.iterdir())[:20]) or "nothing"
        raise DataError(
            f"source '{source}' lacks {' and '.join(missing)}; it holds: {found}. "
            "Point --source at the folder that holds both files."
        )
    check_folder(folder, force)


def check_folder(folder: Path, force: bool) -> None:
    """Refuse to write a dataset over what is there, unless asked to, or into folders that are not there."""
    need_parent(folder.parent, "output")
    if folder.exists() and not folder.is_dir():
        raise DataError(f"'{folder}' exists and is not a folder: choose another name or output.")
    if folder.exists() and not force:
        raise DataError(f"'{folder}' exists: choose another name, or add --force to replace its converted files.")


def _check_parts(source: Path, train_items: NDArray[np.int64], pairs: dict[str, NDArray[np.int64]]) -> None:
    if len(np.unique(train_items)) < 2:
        raise DataError(f"{source / 'train.txt'}: all interactions are with one item; there is nothing to rank.")
    if not len(pairs["test"]):
        raise DataError(f"{source / 'test.txt'}: every pair is also in train.txt; give a test part of its own.")
    if not len(pairs["valid"]):
        raise DataError(
            f"{source / 'train.txt'}: nothing can be held out for validation without leaving a user or an "
            "item with no train interaction; give a train part in which some have at least two."
        )


def printable_name(source: Path) -> str:
    """The source as a comment may name it: printable, and without its path, which would tell of one machine."""
    return "".join(char if char.isprintable() else "?" for char in source.resolve().name)


def _sidecar(report: ConversionReport, source: Path, name: str, valid_ratio: float, seed: int) -> str:
    label = printable_name(source)
    options = ["--source", label, "--name", name, "--valid_ratio", str(valid_ratio), "--seed", str(seed)]
    command = shlex.join(["recbole-adaptau", "data", "convert", *options])
    return SIDECAR.format(report=report, source=repr(label), valid_ratio=valid_ratio, seed=seed, command=command)


def publish(files: Mapping[str, str | Iterable[str]], folder: Path, force: bool) -> None:
    """Write a dataset's files: a new folder appears complete or not at all, in an old one the sidecar comes last.

    Args:
        files: The text of each by its name, whole or in parts.
    """
    sidecar = f"{folder.name}.yaml"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
            # One level down, because the scratch folder itself is readable by its owner only.
            staged = Path(scratch) / folder.name
            staged.mkdir()
            for file, text in files.items():
                if isinstance(text, str):
                    (staged / file).write_text(text, encoding="utf-8", newline="\n")
                    continue
                with open(staged / file, "w", encoding="utf-8", newline="\n") as written:
                    written.writelines(text)
            if not (force and folder.is_dir()):
                staged.rename(folder)
                return
            (folder / sidecar).unlink(missing_ok=True)
            for file in sorted(files, key=lambda file: file == sidecar):
                os.replace(staged / file, folder / file)
    except OSError as error:
        raise DataError(f"cannot write '{folder}' ({error.strerror}); check the place and its space.") from error
