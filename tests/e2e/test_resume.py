"""A run that stopped and went on equals the run that never stopped, bit for bit."""

import shutil
from pathlib import Path

import pytest
import torch
from recbole.utils import get_model

import recbole_adaptau
from recbole_adaptau.errors import AdapTauError, CheckpointError, DataError, OptionError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training import checkpoint
from recbole_adaptau.training.trainer import learning_rate_factor, too_few_steps
from tests.helpers import build, trainer_of
from tests.soak.kills import timeless

PER_ROW = {"negatives": "per_row", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 3}}
VARIANTS = {
    "adaptive_user shared": ("AdapTauMF", {"num_negatives": 20}),
    "adaptive in_batch": ("AdapTauMF", {"tau_strategy": "adaptive", "negatives": "in_batch"}),
    "learned full": ("AdapTauMF", {"tau_strategy": "learned", "negatives": "full"}),
    "learned_user popularity": (
        "AdapTauMF",
        {"tau_strategy": "learned_user", "num_negatives": 9, "negative_distribution": "popularity"},
    ),
    "learned_user at its own rate": (
        "AdapTauMF",
        {"tau_strategy": "learned_user", "tau_learning_rate": 0.003, "lr_schedule": "linear", "num_negatives": 9},
    ),
    "fixed per_row": ("AdapTauMF", {"tau_strategy": "fixed", **PER_ROW}),
    "none shared": ("AdapTauMF", {"tau_strategy": "none", "num_negatives": 20}),
    "calibrated_user shared": (
        "AdapTauMF",
        {"tau_strategy": "calibrated_user", "held_out_share": 0.2, "num_negatives": 20},
    ),
    "calibrated per_row": ("AdapTauMF", {"tau_strategy": "calibrated", "held_out_share": 0.2, **PER_ROW}),
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


def interrupt_at_batch(patch, model, number):
    """Press Ctrl-C when the given batch of the run, counted over its epochs, is about to be learned from."""
    kind, calls = get_model(model), []
    original = kind.calculate_loss

    def calculate_loss(self, interaction):
        calls.append(1)
        if len(calls) == number:
            raise KeyboardInterrupt
        return original(self, interaction)

    patch.setattr(kind, "calculate_loss", calculate_loss)


@pytest.mark.parametrize("variant", VARIANTS)
def test_resumed_equals_uninterrupted(board, variant):
    model, changes = VARIANTS[variant]
    settings = {**board, **changes}
    whole = run(model, settings, "whole")
    with pytest.MonkeyPatch.context() as patch:
        # 480 interactions: 8 batches of 64 positives an epoch, 24 where a row has 3 negatives.
        each = 24 if "per_row" in variant else 8
        interrupt_at_batch(patch, model, 3 * each + 4)
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
    for key in ("cur_step", "best_valid_score", "finished", "next_epoch"):
        assert one[key] == two[key], key
    assert torch.equal(one["random"]["torch"], two["random"]["torch"])

    assert timeless(RunFolder("whole").read_epochs()) == timeless(parts.read_epochs())


@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
def test_a_larger_budget_goes_on_where_a_smaller_one_stopped(board, monkeypatch, model):
    """To the same bits as a run that never had one; an epoch takes a minute here."""
    monkeypatch.setattr(RunFolder, "seconds_by_epoch", lambda self: [60.0 for _ in self.read_epochs()])
    whole = run(model, board, "whole")
    folder = RunFolder("parts")

    def stands_at():
        return folder.read_result()["stopped_by"], [record["epoch"] for record in folder.read_epochs()]

    first = run(model, {**board, "budget_minutes": 2}, "parts")
    assert stands_at() == ("budget", [0, 1]) and checkpoint.load(folder.last)["next_epoch"] == 2
    for budget in (..., 2, 1):
        again = recbole_adaptau.resume("parts", budget_minutes=budget)
        assert stands_at() == ("budget", [0, 1]) and again["test_result"] == first["test_result"]
    recbole_adaptau.resume("parts", budget_minutes=2.5)  # more, but not enough for another epoch
    assert stands_at() == ("budget", [0, 1]) and folder.settings()["budget_minutes"] == 2.5
    recbole_adaptau.resume("parts", budget_minutes=4)
    assert stands_at() == ("budget", [0, 1, 2, 3])
    resumed = recbole_adaptau.resume("parts", budget_minutes=None)
    assert stands_at() == ("epochs", [0, 1, 2, 3, 4, 5])
    assert resumed["test_result"] == whole["test_result"]
    one, two = (checkpoint.load(RunFolder(name).last) for name in ("whole", "parts"))
    assert all(torch.equal(value, two["state_dict"][name]) for name, value in one["state_dict"].items())
    assert timeless(RunFolder("whole").read_epochs()) == timeless(folder.read_epochs())
    with pytest.raises(OptionError, match="budget_minutes = -1: must be a number above 0"):
        recbole_adaptau.resume("parts", budget_minutes=-1)


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
    with pytest.raises(DataError, match=r"nowhere is not a run folder: there is no such folder"):
        recbole_adaptau.resume("nowhere")


def test_a_used_folder_is_not_written_into(board):
    run("AdapTauMF", board, "used")
    before = Path("used/epochs.jsonl").read_text()
    with pytest.raises(DataError, match=r"used already holds a run .*--resume=used"):
        run("AdapTauMF", {**board, "seed": 9}, "used")
    assert Path("used/epochs.jsonl").read_text() == before


def test_resuming_only_the_test_has_what_popularity_metrics_need(board):
    settings = {**board, "metrics": ["NDCG", "GiniIndex", "ItemCoverage", "AveragePopularity"]}
    whole = run("AdapTauMF", settings, "popular")
    Path("popular/result.json").unlink()
    assert recbole_adaptau.resume("popular")["test_result"] == whole["test_result"]


def test_resuming_before_the_first_epoch_was_saved_starts_over(board):
    whole = run("AdapTauMF", board, "whole")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at_batch(patch, "AdapTauMF", 3)
        with pytest.raises(KeyboardInterrupt):
            run("AdapTauMF", board, "early")
    RunFolder("early").add_epoch({"epoch": 0, "train_seconds": 1.0})
    assert recbole_adaptau.resume("early")["test_result"] == whole["test_result"]
    assert [record["epoch"] for record in RunFolder("early").read_epochs()] == list(range(6))


def test_a_run_resumes_from_another_folder_and_loading_writes_nothing(board, tmp_path, monkeypatch):
    settings = {**board, "data_path": "data"}
    whole = run("AdapTauMF", settings, "here")
    Path("here/result.json").unlink()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert recbole_adaptau.resume("../here")["test_result"] == whole["test_result"]
    monkeypatch.chdir("..")
    Path("here").rename("moved")
    config, *_ = recbole_adaptau.load_data_and_model("moved")
    assert config["run_folder"] is None and not Path("here").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.copy(folder / "best.pth", folder / "last.pth"), "is not a last.pth"),
        (lambda folder: (folder / "last.pth").write_bytes(b"torn"), "damaged"),
        (lambda folder: (folder / "best.pth").write_bytes(b"torn"), "damaged"),
        (lambda folder: (folder / "best.pth").unlink(), "there is no checkpoint file"),
        (lambda folder: (folder / "config.yaml").write_text("["), "config.yaml is damaged"),
        (lambda folder: (folder / "result.json").write_text(""), "result.json is damaged"),
    ],
)
def test_a_damaged_folder_is_said_plainly(board, damage, message):
    run("AdapTauMF", board, "torn")
    Path("torn/result.json").unlink()
    damage(Path("torn"))
    with pytest.raises(AdapTauError, match=message):
        recbole_adaptau.resume("torn")


def test_a_dataset_that_grew_is_said_plainly(board, tmp_path):
    run("AdapTauMF", board, "grown")
    Path("grown/result.json").unlink()
    path = tmp_path / "data/board/board.train.inter"
    before = path.read_text()
    path.write_text(before + "newcomer\ti1\n")
    with pytest.raises(CheckpointError, match="was the dataset changed since"):
        recbole_adaptau.resume("grown")
    path.write_text(before + before.splitlines()[-1] + "\n")  # as many users and items as before
    with pytest.raises(CheckpointError, match="was trained on other data than board holds now"):
        recbole_adaptau.resume("grown")


def _without_last_item(state):
    state["state_dict"]["item_embedding.weight"] = state["state_dict"]["item_embedding.weight"][:-1].clone()


def _short_moments(state):
    """Compiled code would write past their end."""
    state["optimizers"]["optimizer"]["state"][0]["exp_avg_sq"] = torch.zeros(1, 8)


STRANGE = {
    "is of model AdapTauLightGCN, but this run has AdapTauMF": lambda s: s["config"].update(model="AdapTauLightGCN"),
    "is of dataset other, but this run has board": lambda s: s["config"].update(dataset="other"),
    "was trained on other data than board holds now": lambda s: s.update(data="0"),
    "size mismatch for item_embedding.weight": _without_last_item,
    r"exp_avg_sq is \[1, 8\] for a parameter of \[49, 8\]": _short_moments,
    "is not a last.pth": lambda s: s.pop("next_epoch"),
    "does not say where to go on": lambda s: s.update(config=None),
    "do not fit AdapTauMF on board": lambda s: s.pop("state_dict"),
    "does not hold what a last.pth of this run does: KeyError": lambda s: s.pop("optimizers"),
    "does not hold what a last.pth of this run does: TypeError": lambda s: s.update(next_epoch="soon"),
    "does not hold what a last.pth of this run does: ValueError": lambda s: s.update(loaders=[]),
    "does not hold what a last.pth of this run does": lambda s: s["random"].update(torch=torch.zeros(3)),
}


def test_a_checkpoint_of_something_else_is_refused(board):
    run("AdapTauMF", board, "run")
    built = build("AdapTauMF", {**board, "run_folder": "run", "resume": True})
    trainer = trainer_of(built)
    trainer._train_data, trainer._data = built.train, checkpoint.fingerprint(built.train._dataset)
    trainer.resume_checkpoint("run/last.pth")
    for message, change in STRANGE.items():
        state = checkpoint.load("run/last.pth")
        change(state)
        checkpoint.save(state, "strange.pth")
        with pytest.raises(CheckpointError, match=message):
            trainer.resume_checkpoint("strange.pth")


def test_the_learning_rate_falls_as_asked():
    assert [learning_rate_factor("linear", e, 4) for e in range(4)] == [1.0, 0.75, 0.5, 0.25]
    assert [learning_rate_factor("constant", e, 4) for e in range(4)] == [1.0] * 4
    assert learning_rate_factor("cosine", 2, 4) == pytest.approx(0.5)


def test_little_data_in_large_batches_is_said():
    """3 batches of 2048 for 50 epochs are 150 steps; 512 makes them 600."""
    assert "150 steps" in too_few_steps(3, 50, 2048) and "--train_batch_size=512" in too_few_steps(3, 50, 2048)
    assert "--train_batch_size=64" in too_few_steps(1, 50, 128)
    for enough in ((10, 50, 8192), (39, 2, 2048), (3, 400, 2048), (3, 50, 64)):
        assert too_few_steps(*enough) is None
