"""Run folders: nobody else's, writable from the start, whole whatever happens to the disk."""

import errno
import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from recbole.config import Config
from recbole.utils import init_logger

import recbole_adaptau
from recbole_adaptau.cli import train as cli
from recbole_adaptau.cli.main import main
from recbole_adaptau.errors import AdapTauError, DataError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training import checkpoint
from tests.helpers import build, trainer_of


def run(settings, folder):
    changes = {"epochs": 4, "num_negatives": 20, "run_folder": folder}
    return recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, {**settings, **changes})


@pytest.mark.parametrize("key", ["run_folder", "run_root"])
@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_a_place_that_cannot_be_written_is_told_before_data_is_read(capsys, key, place):
    Path("file").touch()
    assert cli.main(["-m", "AdapTauMF", "-d", "ml-100k", f"--{key}={place}"]) == 2
    error = capsys.readouterr().err
    assert f"cannot write to {Path(place).absolute()}" in error and "--run_folder=FOLDER" in error
    assert "The number of users" not in error


def test_a_run_without_a_place_is_refused(capsys):
    assert cli.main(["-m", "AdapTauMF", "-d", "ml-100k", "--run_root="]) == 2
    assert capsys.readouterr().err == (
        "error: run_root and run_folder are both empty: name a place for what the run writes.\n"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_told_before_data_is_read(board):
    Path("locked").mkdir(mode=0o500)
    with pytest.raises(DataError, match=r"cannot write to .*locked: Permission denied"):
        run(board, "locked")


def test_a_folder_that_another_run_is_filling_is_left_alone(board):
    """Also when it has nothing in it yet, or when both want to go on with the same run."""
    first = RunFolder("run")
    with first.alone(), ThreadPoolExecutor() as elsewhere:
        with pytest.raises(DataError, match="another process is filling run: wait for it, or give another run_folder"):
            elsewhere.submit(run, board, "run").result()
        assert os.listdir("run") == [".lock"]
        first.config.write_text(json.dumps({"model": "AdapTauMF", "dataset": "board", **board}))
        with pytest.raises(DataError, match="another process is filling run"):
            elsewhere.submit(recbole_adaptau.resume, "run").result()
        assert sorted(os.listdir("run")) == [".lock", "config.yaml"]


def test_runs_that_start_in_the_same_second_have_their_own_places(board, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda *_: "20260101-000000")
    folders = {Config("AdapTauMF", "board", config_dict=dict(board))["run_folder"] for _ in range(20)}
    assert len(folders) == 20
    # RecBole's models without a run folder: their logs, and their checkpoints.
    monkeypatch.setattr("recbole.utils.utils.get_local_time", lambda: "now")
    monkeypatch.setattr("recbole.trainer.trainer.get_local_time", lambda: "now")
    built = build("BPR", board)
    names = set()
    for pid in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        init_logger(built.config)
        logs = {getattr(handler, "baseFilename", "") for handler in logging.getLogger().handlers}
        names |= {trainer_of(built).saved_model_file, *(log for log in logs if log.endswith(".log"))}
    assert len(names) == 4


def test_a_record_cut_short_does_not_count_and_other_damage_is_told():
    folder = RunFolder(".")
    folder.epochs.write_text('{"epoch": 0}\n{"epoch": 1}\n{"epo')
    assert [record["epoch"] for record in folder.read_epochs()] == [0, 1]
    folder.keep_epochs_before(1)
    assert folder.epochs.read_text() == '{"epoch": 0}\n'
    folder.epochs.write_text('{"epoch": 0}\nbent\n')
    with pytest.raises(DataError, match=r"epochs\.jsonl is damaged"):
        folder.read_epochs()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
def test_a_full_disk_is_told_for_records_too():
    folder = RunFolder("run")
    folder.epochs = Path("/dev/full")
    with pytest.raises(DataError, match=r"could not write /dev/full: No space left on device.*--resume="):
        folder.add_epoch({"epoch": 0})


def test_a_disk_that_fills_up_while_training_costs_nothing_but_the_epoch(board, monkeypatch):
    whole = run(board, "whole")
    sync, calls = os.fsync, []

    def full(handle):
        calls.append(1)
        if len(calls) >= 18:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    with (
        monkeypatch.context() as patch,
        pytest.raises(AdapTauError, match=r"could not write .*No space left on device"),
    ):
        patch.setattr(os, "fsync", full)
        run(board, "parts")
    parts = RunFolder("parts")
    assert checkpoint.load(parts.last)["next_epoch"] >= 1 and not list(parts.path.glob(".*"))
    assert recbole_adaptau.resume("parts")["test_result"] == whole["test_result"]
    one, two = (checkpoint.load(RunFolder(name).last)["state_dict"] for name in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_what_a_killed_process_left_half_written_is_cleared_away(board):
    Path("run").mkdir()
    Path("run/.last.pth.0123abcd.tmp").write_bytes(b"half")
    run(board, "run")
    assert not list(Path("run").glob(".*"))


@pytest.mark.parametrize("complete", [True, False])
def test_a_run_of_version_0_1_is_refused_and_what_to_do_is_said(complete, capsys):
    old = RunFolder("old")
    old.path.mkdir()
    old.config.write_text("model: AdapTauMF\ndataset: ml-100k\ntau_strategy: adaptive_user\npopularity_prior: true\n")
    old.best.write_bytes(b"")
    if complete:
        old.finish({"model": "AdapTauMF", "dataset": "ml-100k", "test_result": {}})
    for command in (["train", "--resume=old"], ["recommend", "old", "--users", "1"], ["analyse", "old"]):
        assert main(command) == 2
        assert "made by version 0.1" in capsys.readouterr().err
