"""A run that stopped and went on equals the run that never stopped, bit for bit."""

import shutil
from pathlib import Path

import pytest
import torch

import recbole_adaptau
from recbole_adaptau import checkpoint
from recbole_adaptau.errors import CheckpointError, DataError
from recbole_adaptau.runs import RunFolder
from recbole_adaptau.trainer import AdapTauTrainer, learning_rate_factor

PER_ROW = {"negatives": "per_row", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 3}}
VARIANTS = {
    "adaptive_user shared": ("AdapTauMF", {"num_negatives": 20}),
    "adaptive in_batch": ("AdapTauMF", {"tau_strategy": "adaptive", "negatives": "in_batch"}),
    "learned full": ("AdapTauMF", {"tau_strategy": "learned", "negatives": "full"}),
    "learned_user popularity": (
        "AdapTauMF",
        {"tau_strategy": "learned_user", "num_negatives": 9, "negative_distribution": "popularity"},
    ),
    "fixed per_row": ("AdapTauMF", {"tau_strategy": "fixed", **PER_ROW}),
    "none shared": ("AdapTauMF", {"tau_strategy": "none", "num_negatives": 20}),
    "lightgcn with dropout": (
        "AdapTauLightGCN",
        {"num_negatives": 20, "edge_dropout": 0.2, "message_dropout": 0.1, "embedding_dropout": 0.1},
    ),
    "recbole's BPR": ("BPR", {}),
    "recbole's LightGCN": ("LightGCN", {}),
}


def run(model, settings, folder):
    settings = {**settings, "run_folder": folder, "epochs": 6, "learning_rate": 0.01, "stopping_step": 50}
    return recbole_adaptau.run_recbole_adaptau(model, "board", None, settings)


def interrupt_in_epoch(patch, trainer, epoch):
    """Press Ctrl-C in the middle of an epoch, after one batch."""
    original = trainer._train_epoch

    def train_epoch(self, train_data, epoch_idx, *args, **kwargs):
        if epoch_idx == epoch:
            self._end_epoch()
            self._save_last(epoch_idx)
            self._begin_epoch(epoch_idx)
            self.model.calculate_loss(next(iter(train_data)).to(self.device)).backward()
            self.optimizer.step()
            raise KeyboardInterrupt
        return original(self, train_data, epoch_idx, *args, **kwargs)

    patch.setattr(trainer, "_train_epoch", train_epoch)


@pytest.mark.parametrize("variant", VARIANTS)
def test_resumed_equals_uninterrupted(board, variant):
    from recbole_adaptau.trainer import RunRecorder

    model, changes = VARIANTS[variant]
    settings = {**board, **changes}
    whole = run(model, settings, "whole")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_in_epoch(patch, RunRecorder, 3)
        with pytest.raises(KeyboardInterrupt):
            run(model, settings, "parts")
    parts = RunFolder("parts")
    assert not parts.is_complete and [record["epoch"] for record in parts.read_epochs()] == [0, 1, 2]
    resumed = recbole_adaptau.resume("parts")
    assert resumed["test_result"] == whole["test_result"]
    assert resumed["best_valid_result"] == whole["best_valid_result"]
    one, two = (checkpoint.load(RunFolder(name).last) for name in ("whole", "parts"))
    for name, value in one["state_dict"].items():
        assert torch.equal(value, two["state_dict"][name]), name
    for key in ("cur_step", "best_epoch", "best_valid_score", "finished", "next_epoch"):
        assert one[key] == two[key], key
    assert torch.equal(one["random"]["torch"], two["random"]["torch"])

    def timeless(records):
        return [{k: v for k, v in record.items() if not k.endswith("_seconds")} for record in records]

    assert timeless(RunFolder("whole").read_epochs()) == timeless(parts.read_epochs())


def test_early_stopping_is_remembered(board):
    """A run that stopped early is not trained on when resumed; only its test is made up for."""
    settings = {**board, "run_folder": "early", "epochs": 50, "learning_rate": 0.5, "stopping_step": 1}
    whole = recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, settings)
    folder = RunFolder("early")
    epochs = len(folder.read_epochs())
    assert epochs < 50
    best = folder.best.read_bytes()
    folder.result.unlink()
    again = recbole_adaptau.resume("early")
    assert again["test_result"] == whole["test_result"]
    assert len(folder.read_epochs()) == epochs and folder.best.read_bytes() == best


def test_resuming_a_complete_run_returns_its_result(board):
    whole = run("AdapTauMF", board, "done")
    before = {path: path.stat().st_mtime_ns for path in Path("done").iterdir()}
    again = recbole_adaptau.resume("done")
    assert again["test_result"] == dict(whole["test_result"])
    assert before == {path: path.stat().st_mtime_ns for path in Path("done").iterdir()}


def test_resuming_nothing_is_said_plainly(tmp_path):
    with pytest.raises(DataError, match=r"nowhere is not a run folder: it has no config\.yaml"):
        recbole_adaptau.resume("nowhere")


def test_a_checkpoint_of_another_model_is_refused(board):
    run("AdapTauMF", board, "one")
    run("AdapTauLightGCN", board, "two")
    Path("two/result.json").unlink()
    shutil.copy("one/last.pth", "two/last.pth")
    with pytest.raises(CheckpointError, match="is of model AdapTauMF, but this run has AdapTauLightGCN"):
        recbole_adaptau.resume("two")


def test_the_learning_rate_falls_as_asked():
    assert [learning_rate_factor("linear", e, 4) for e in range(4)] == [1.0, 0.75, 0.5, 0.25]
    assert [learning_rate_factor("constant", e, 4) for e in range(4)] == [1.0] * 4
    assert learning_rate_factor("cosine", 2, 4) == pytest.approx(0.5)
    assert AdapTauTrainer._begin_epoch is not None
