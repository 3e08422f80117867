"""Arbitrary text, bytes and values against everything that reads what users give.

Whatever comes in, there are two ways out: an error of ours, which the command prints in one line, or a result that
holds. A short run of each is part of the test suite (tests/test_fuzz.py); a long one is

    python -m tests.soak.fuzz --cases 20000
"""

import argparse
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from recbole.config import Config
from recbole.data import create_dataset
from tqdm import tqdm

from recbole_adaptau.cli.train import parse_settings
from recbole_adaptau.config.keys import defaults
from recbole_adaptau.config.yaml_files import load_files
from recbole_adaptau.core.strategies import STRATEGIES
from recbole_adaptau.data import convert_lightgcn
from recbole_adaptau.data.check import AtomicFile
from recbole_adaptau.data.importer import import_file
from recbole_adaptau.errors import AdapTauError, DataError, OptionError
from recbole_adaptau.model import AdapTauLightGCN
from recbole_adaptau.training.checkpoint import quoted

HEAD = b"user_id:token\titem_id:token\trating:float\n"
# Bytes that mean something to some reader, and plain ones to go with them.
PIECES = (
    b"0", b"1", b"22", b"u", b"item", b" ", b"  ", b"\t", b"\n", b"\r", b"\r\n", b",", b";", b":", b'"', b"'", b"#",
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\x85", b"\xc3\xa9", b"NA", b"nan", b"[PAD]", b"None",
    b"inf", b"1e999", b"-0", b"user_id:token", b"item_id:token", b"rating:float", b"x" * 2000, HEAD, b"1\t2\t3\n",
)  # fmt: skip
BYTES = st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
# Mostly well-formed lines, so that some get through to the end.
LINES = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), max_size=12).map(
    lambda rows: "\n".join(" ".join(map(str, row)) for row in rows).encode()
)
ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["3", "", "x", "inf"])), max_size=30
).map(lambda rows: HEAD + "".join(f"{u}\t{i}\t{r}\n" for u, i, r in rows).encode())
PAIRS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["x", "y z", "", "nan", '"q"'])), max_size=12).map(
    lambda rows: b"user,item\n" + "".join(f"{user},{item}\n" for user, item in rows).encode()
)
TABLES = st.tuples(
    st.sampled_from([b"user,item\n", b"user,item,time\n", b"a;user_id;item_id\n", b"user,user ,item\n"]),
    st.lists(st.sampled_from([b"1", b"2", b"a", b",", b",", b";", b"\n", b'"', b" ", b"2024-05-31", b"1e9"])).map(
        b"".join
    ),
).map(b"".join)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["none", "fixed", "full", "mean", "tau_0", "Y-N", "auto", "adam", 0.5, 1, 10**400, "RS"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_numbers = itertools.count()


def a_folder(root: Path) -> Path:
    folder = root / str(next(_numbers))
    folder.mkdir()
    return folder


def fuzz_converter(root: Path, train: bytes, test: bytes, ratio: float) -> bool:
    """Nothing is written, or four parts that the check of atomic files passes, with nothing of test in train."""
    source = a_folder(root)
    (source / "train.txt").write_bytes(train)
    (source / "test.txt").write_bytes(test)
    try:
        report = convert_lightgcn(source, "d", source / "out", ratio)
    except DataError:
        assert not (source / "out").exists()
        return False
    pairs: dict[str, set[tuple[str, ...]]] = {}
    for part in ("train", "test", "fit", "valid"):
        file = AtomicFile.at(source / "out" / "d" / f"d.{part}.inter", "\t", None)
        lines = file.lines(len(file.columns()))
        assert lines is not None and not lines.uneven
        rows = file.path.read_text(encoding="utf-8").split("\n")[1:-1]
        pairs[part] = {tuple(row.split("\t")) for row in rows}
        assert len(pairs[part]) == len(rows) == getattr(report, part) > 0
    assert not pairs["train"] & pairs["test"] and pairs["fit"] | pairs["valid"] == pairs["train"]
    assert not pairs["fit"] & pairs["valid"]
    return True


def fuzz_csv(root: Path, content: bytes) -> bool:
    """Nothing is written, or a file that the check of atomic files passes, with every pair once."""
    source = a_folder(root)
    (source / "in.csv").write_bytes(content)
    try:
        report = import_file(source / "in.csv", "d", source / "out")
    except DataError:
        assert not (source / "out").exists()
        return False
    file = AtomicFile.at(source / "out" / "d" / "d.inter", "\t", None)
    lines = file.lines(len(file.columns()))
    assert lines is not None and not lines.uneven and lines.filled == report.interactions + 1
    rows = [tuple(row.split("\t")[:2]) for row in file.path.read_text(encoding="utf-8").split("\n")[1:-1]]
    assert len(set(rows)) == len(rows) == report.interactions > 0
    return True


def fuzz_atomic_file(root: Path, content: bytes) -> bool:
    """An error of ours, or a table with an id in every row and a finite number where one belongs."""
    folder = a_folder(root)
    (folder / "d").mkdir()
    (folder / "d" / "d.inter").write_bytes(content)
    _config()["data_path"] = str(folder / "d")
    try:
        dataset = create_dataset(_config())
    except DataError:
        return False
    table = dataset.inter_feat
    assert len(table) and (table[["user_id", "item_id"]] > 0).all(axis=None)
    assert table["user_id"].max() < dataset.user_num and table["item_id"].max() < dataset.item_num
    assert "rating" not in table or np.isfinite(table["rating"]).all()
    return True


@cache
def _config() -> Config:
    """Made once: reading RecBole's YAML files takes longer than reading a small dataset."""
    return Config("AdapTauMF", "d", config_dict={"load_col": None, "state": "ERROR", "data_path": "."})


def fuzz_yaml(root: Path, text: bytes) -> bool:
    """An error of ours, or settings by name."""
    path = a_folder(root) / "a.yaml"
    path.write_bytes(text)
    try:
        content = load_files([path])
    except OptionError:
        return False
    assert all(isinstance(key, str) for key in content)
    return True


def fuzz_words(root: Path, words: list[str]) -> bool:
    """An error of ours, or settings by name, each word used."""
    try:
        found = parse_settings(words)
    except OptionError:
        return False
    assert all(key.isidentifier() for key in found) and len(found) <= len(words)
    return True


KEYS = sorted(
    {
        *defaults(AdapTauLightGCN), "seed", "epochs", "learner", "learning_rate", "train_batch_size",
        "n_layers", "edge_dropout", "eval_args", "weight_decay", "clip_grad_norm", "load_col", "val_interval",
        "benchmark_filename", "data_path", "user_inter_num_interval", "given_split", "state", "worker", "eval_step",
    }
)  # fmt: skip


def fuzz_settings(root: Path, changes: dict[str, Any]) -> bool:
    """An error of ours, or a configuration whose options hold together."""
    try:
        config = Config("AdapTauLightGCN", "ml-100k", config_dict=quoted(changes))
    except AdapTauError:
        return False
    strategy = STRATEGIES[config["tau_strategy"]].Settings.read(config)
    assert strategy.tau_min <= getattr(strategy, "tau_max", 1e4) and config["epochs"] >= 0
    assert config["learning_rate"] > 0
    return True


TARGETS: dict[str, tuple[Callable[..., bool], tuple[st.SearchStrategy[Any], ...]]] = {
    "converter": (fuzz_converter, (BYTES | LINES, BYTES | LINES, st.floats(0.01, 0.5))),
    "CSV file": (fuzz_csv, (BYTES | TABLES | PAIRS,)),
    "atomic file": (fuzz_atomic_file, (BYTES | ROWS | st.tuples(ROWS, BYTES).map(b"".join),)),
    "YAML file": (fuzz_yaml, (BYTES | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),)),
    "command line": (fuzz_words, (st.lists(st.text(max_size=12) | VALUES.map(lambda v: f"--tau={v}"), max_size=4),)),
    "settings": (fuzz_settings, (st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3),)),
}


def fuzz(name: str, root: Path, cases: int, start: int | None = None, bar: Any = None) -> tuple[int, int]:
    """Run one target; returns how many cases were tried and how many of them were accepted.

    Args:
        name: A key of `TARGETS`.
        root: A folder for its files.
        cases: How many cases to try; Hypothesis may run out of different ones before.
        start: Seed; None for Hypothesis' own choice, which is the same every time.
        bar: Progress bar to move.
    """
    target, inputs = TARGETS[name]
    count = [0, 0]

    def once(values: tuple[Any, ...]) -> None:
        count[0] += 1
        count[1] += target(root, *values)
        if bar is not None:
            bar.update()

    profile = settings(
        max_examples=cases, deadline=None, database=None, derandomize=start is None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    test = profile(given(st.tuples(*inputs))(once))
    (test if start is None else seed(start)(test))()
    return count[0], count[1]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.soak.fuzz", description=__doc__)
    made.add_argument("--cases", type=int, default=2000, help="cases for each target (default: %(default)s)")
    made.add_argument("--seed", type=int, default=1, help="seed of the draw (default: %(default)s)")
    made.add_argument("--only", choices=TARGETS, help="one target instead of all")
    return made


def main() -> int:
    """Fuzz every target and print how many cases each has seen; a case that breaks through is a traceback."""
    args = parser().parse_args()
    sys.argv = sys.argv[:1]
    logging.disable(logging.WARNING)  # what was cleaned in each case
    print(f"{'target':<14}{'cases':>9}{'accepted':>10}{'refused':>9}{'seconds':>9}")
    total = 0
    for name in [args.only] if args.only else TARGETS:
        started = time.perf_counter()
        with (
            tempfile.TemporaryDirectory(prefix="fuzz-") as folder,
            tqdm(total=args.cases, desc=name, leave=False, disable=None) as bar,
        ):
            tried, accepted = fuzz(name, Path(folder), args.cases, args.seed, bar)
        seconds = time.perf_counter() - started
        print(f"{name:<14}{tried:>9,}{accepted:>10,}{tried - accepted:>9,}{seconds:>9.0f}", flush=True)
        total += tried
    print(f"{total:,} cases, no traceback")
    return 0


if __name__ == "__main__":
    sys.exit(main())
