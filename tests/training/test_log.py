"""What a run shows on the screen, and what goes to run.log alone."""

import logging
import re
import threading
from pathlib import Path

import pytest

from recbole_adaptau.cli.main import main
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training.log import duration, epoch_line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (3.21, "3.2 s"),
        (9.99, "10 s"),
        (48.4, "48 s"),
        (99.6, "2 min"),
        (3000, "50 min"),
        (7800, "2 h 10 min"),
    ],
)
def test_durations_for_the_eye(seconds, text):
    assert duration(seconds) == text


def test_one_line_an_epoch():
    record = {"epoch": 6, "train_loss": 12.3456, "train_seconds": 1.0, "valid_seconds": 0.5, "valid_score": 0.25}
    line = epoch_line({**record, "tau_0": 0.2}, "ndcg@20", True, 50, 65.0)
    assert line == "epoch  6 ( 7/50)  loss 12.35  ndcg@20 0.2500 best  tau_0 0.200  1.5 s  at most 65 s left"
    bare = epoch_line({"epoch": 49, "train_loss": [1.0, 2.0], "train_seconds": 2.0}, "ndcg@20", False, 50, 0.0)
    assert bare == "epoch 49 (50/50)  loss 1.000 + 2.000  2.0 s"


def trained(capsys, *words: str) -> tuple[str, str]:
    """Standard output and error of a short run in the folder run."""
    command = ["train", "-m", "AdapTauMF", "--epochs=2", "--embedding_size=4", "--num_negatives=8", "--run_folder=run"]
    assert main([*command, *words]) == 0
    out, error = capsys.readouterr()
    return out, error


@pytest.mark.e2e
def test_the_screen_has_a_line_an_epoch_and_the_log_has_everything(capsys):
    root = logging.getLogger()
    handlers = list(root.handlers)
    try:
        out, error = trained(capsys)
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
    shown = [line for line in re.sub(r"\x1b\[[\d;]*m", "", error).splitlines() if line]
    assert len(shown) < 8, error
    assert [line.split("  ")[0] for line in shown if line.startswith("epoch")] == ["epoch 0 (1/2)", "epoch 1 (2/2)"]
    assert "at most" in error and "positives: 100,000 of 100,000" in error and "train_batch_size" not in error
    log = Path("run/run.log").read_text(encoding="utf-8")
    for told in ("train_batch_size = ", "The number of inters: 100000", "epoch 0 training", "epoch 1 (2/2)", "FLOPs"):
        assert told in log
    assert "next: recbole-adaptau recommend run --output recommendations.csv" in out
    assert len(RunFolder("run").read_epochs()) == 2
    main(["recommend", "run", "--users", "196"])
    assert not Path("log").exists(), "loading a run leaves no log beside it"


@pytest.mark.e2e
def test_no_thread_outlives_a_run_and_its_events_are_written(capsys):
    before = set(threading.enumerate())
    trained(capsys)
    assert not [thread for thread in set(threading.enumerate()) - before if "Writer" in type(thread).__name__]
    (events,) = Path("run/tensorboard").glob("events*")
    assert b"Temperature/tau_0" in events.read_bytes()


@pytest.mark.e2e
def test_verbose_shows_recboles_log(capsys):
    _, error = trained(capsys, "--verbose")
    assert "train_batch_size" in error and "epoch 0 training" in error and "epoch 0 (1/2)" in error
