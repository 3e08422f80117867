"""Shared by all tests: small planted data, and a RecBole that neither reads our arguments nor writes here."""

import os
import random
import sys
from pathlib import Path

import hypothesis
import numpy as np
import psutil
import pytest

# Before torch starts its pool: two test processes with one thread each beat two with two on two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


# A busy machine is no fault: no example has a time to keep.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True
)
hypothesis.settings.load_profile("untimed")

# What takes longest, by how its id begins: left out of `make test`, run by `make test-all`.
SLOW = (
    "tests/e2e/test_cli.py::test_ctrl_c_says_how_to_go_on_and_going_on_works",
    "tests/e2e/test_experiments.py::test_runs_side_by_side_come_to_the_same",
    "tests/e2e/test_experiments.py::test_sigterm_ends_runs_side_by_side_and_says_how_to_go_on",
    "tests/e2e/test_guide.py",
    "tests/e2e/test_leaderboard.py::test_interrupted_and_continued_it_comes_to_the_same",
    "tests/e2e/test_leaderboard.py::test_the_examples_run",
    "tests/e2e/test_paper.py::test_all_experiments_share_their_runs_and_write_all_files",
    "tests/e2e/test_ranks.py",
    "tests/e2e/test_serving_page.py",
    "tests/e2e/test_soak.py",
    "tests/e2e/test_wheel.py",
    "tests/patches/test_training.py::test_recboles_models_train_test_and_load_on_ml_100k",
)


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="Modules, and the tests of each, in a random order.")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    if config.option.shuffle is not None:
        rng = random.Random(config.option.shuffle)
        rng.shuffle(items)
        modules = list({item.path: None for item in items})  # together, or their fixtures are made many times
        items.sort(key=lambda item: modules.index(item.path))


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Every test works in an empty folder, and RecBole does not see pytest's arguments."""
    monkeypatch.setattr(sys, "argv", ["test"])
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True, scope="session")
def no_second_for_the_load():
    """RecBole watches the processor for a second at the start of every run, to write its load into the log.

    Fixtures of a module are made before `alone`: pytest's arguments are hidden from RecBole there, too.
    """
    watch = psutil.cpu_percent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["test"])
        patch.setattr(psutil, "cpu_percent", lambda interval=None: watch(0.01))
        yield


def write_inter(folder: Path, name: str, pairs, part: str = "") -> Path:
    """Write pairs of ids as a RecBole atomic file folder/name/name[.part].inter."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    path = folder / name / f"{name}{'.' + part if part else ''}.inter"
    lines = ["user_id:token\titem_id:token", *(f"{user}\t{item}" for user, item in pairs)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def checkerboard(users: int = 48, items: int = 48, colours: int = 4) -> tuple[list, list, list]:
    """Users like exactly the items of their colour; two of them are held out, one each to validate and test.

    Since a user's colour is plain from the rest, the held-out items must rank first.
    """
    rng = np.random.default_rng(0)
    train, valid, test = [], [], []
    for user in range(users):
        own = [item for item in range(items) if item % colours == user % colours]
        rng.shuffle(own)
        train += [(f"u{user}", f"i{item}") for item in own[2:]]
        valid.append((f"u{user}", f"i{own[0]}"))
        test.append((f"u{user}", f"i{own[1]}"))
    return train, valid, test


def write_board(folder: Path) -> None:
    """The checkerboard as a dataset below `folder`/data."""
    for part, pairs in zip(("train", "valid", "test"), checkerboard(), strict=True):
        write_inter(folder / "data", "board", pairs, part)


def board_settings(folder: Path) -> dict:
    """Settings that make RecBole load the checkerboard from there."""
    return {
        "data_path": str(folder / "data"),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "show_progress": False,
        "state": "ERROR",
        "topk": [2, 5],
        "valid_metric": "NDCG@5",
        "embedding_size": 8,
        "train_batch_size": 64,
    }


@pytest.fixture
def board(tmp_path) -> dict:
    """Settings that make RecBole load the checkerboard."""
    write_board(tmp_path)
    return board_settings(tmp_path)
