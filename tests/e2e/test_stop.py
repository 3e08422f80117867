"""A signal at any moment of a run: it ends at a safe one, and going on gives the same bits."""

import os
import signal

import pytest
import torch

import recbole_adaptau
from recbole_adaptau.cli import train as cli
from recbole_adaptau.model import AdapTauMF
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.runs.recorder import RunRecorder
from recbole_adaptau.training import checkpoint
from recbole_adaptau.training.interrupt import Stopped
from recbole_adaptau.training.trainer import AdapTauTrainer

# Where the signal comes: a method, called for the how-maniest time. 8 batches an epoch, one batch to evaluate.
MOMENTS = {
    "in a batch": (AdapTauMF, "calculate_loss", 20),
    "while validating": (AdapTauTrainer, "_full_sort_batch_eval", 3),
    "before the last.pth of a recorded epoch": (RunFolder, "add_epoch", 2),
    "while best.pth is written": (AdapTauTrainer, "_save_checkpoint", 1),
    "while the last last.pth is written": (RunRecorder, "_save_last", 4),
    "while testing": (RunRecorder, "_summary", 1),
}


def run(settings, folder):
    changes = {"epochs": 4, "stopping_step": 50, "learning_rate": 0.01, "num_negatives": 20, "run_folder": folder}
    return recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, {**settings, **changes})


def signal_at(patch, owner, name, call, number):
    original, calls = getattr(owner, name), []

    def method(self, *args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), number)
        return original(self, *args, **kwargs)

    patch.setattr(owner, name, method)


def test_stopping_anywhere_loses_nothing_that_was_finished(board):
    whole = run(board, "whole")
    weights = checkpoint.load(RunFolder("whole").last)["state_dict"]
    before = signal.getsignal(signal.SIGTERM)
    for moment, place in MOMENTS.items():
        with pytest.MonkeyPatch.context() as patch:
            signal_at(patch, *place, signal.SIGTERM)
            with pytest.raises(Stopped, match=f"Continue with: recbole-adaptau train --resume={moment}") as stop:
                run(board, moment)
        assert stop.value.exit_code == 143 and signal.getsignal(signal.SIGTERM) == before
        parts = RunFolder(moment)
        # Never between an epoch's record and its checkpoint.
        assert checkpoint.load(parts.last)["next_epoch"] == len(parts.read_epochs()), moment
        assert recbole_adaptau.resume(moment)["test_result"] == whole["test_result"], moment
        again = checkpoint.load(parts.last)["state_dict"]
        assert all(torch.equal(weights[name], again[name]) for name in weights), moment


def test_the_command_ends_with_the_code_of_sigterm(board, capsys):
    settings = [f"--{key}={value}" for key, value in board.items()]
    with pytest.MonkeyPatch.context() as patch:
        signal_at(patch, AdapTauMF, "calculate_loss", 20, signal.SIGTERM)
        assert cli.main(["-m", "AdapTauMF", "-d", "board", "--run_folder=run", *settings]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == (
        "interrupted; every finished epoch is saved. Continue with: recbole-adaptau train --resume=run"
    )


def test_a_second_signal_does_not_wait(board):
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # in a shell's background job it is ignored
    with pytest.MonkeyPatch.context() as patch:
        signal_at(patch, AdapTauMF, "calculate_loss", 12, signal.SIGINT)
        signal_at(patch, AdapTauMF, "encode", 12, signal.SIGINT)
        with pytest.raises(Stopped) as stop:
            run(board, "parts")
    signal.signal(signal.SIGINT, ignored)
    assert stop.value.exit_code == 130
    assert [record["epoch"] for record in RunFolder("parts").read_epochs()] == [0]
