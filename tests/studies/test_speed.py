"""The benchmark's own arithmetic; what it measures is never a pass or fail."""

import json
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tqdm import tqdm

from recbole_adaptau.cli.bench import main
from recbole_adaptau.core.losses import LOSSES
from recbole_adaptau.studies.speed import losses, quality, ranks, report, scaling, speed, temperature, timing
from recbole_adaptau.studies.speed.contenders import Contender, contenders
from recbole_adaptau.studies.speed.timing import First, epoch_seconds, fitting_batches, median_and_range, peak_memory
from tests.conftest import write_board
from tests.helpers import build


class Clock:
    """Time that passes only where it is told to."""

    now = 0.0

    def perf_counter(self):
        return self.now


class SlowTrainer:
    """An epoch costs 50 ms once and 10 ms a batch."""

    def __init__(self, clock):
        self.clock = clock

    def _train_epoch(self, loader, epoch):
        assert epoch > 0, "the first epoch does less than all others"
        self.clock.now += 0.05 + 0.01 * len(list(loader))


def test_an_epoch_is_its_fixed_cost_plus_its_batches(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    loader = list(range(200))
    assert fitting_batches(SlowTrainer(clock), loader, 0.2) in (19, 20)
    assert epoch_seconds(SlowTrainer(clock), loader, 20) == pytest.approx(0.05 + 200 * 0.01)


def test_first_hands_out_the_first_and_is_otherwise_the_loader():
    loader = np.arange(10)
    assert list(First(loader, 3)) == [0, 1, 2] and len(First(loader, 3)) == 3 and First(loader, 3).shape == (10,)


def test_in_a_round_short_batches_take_turns_and_long_ones_one():
    asked = []

    def timer(label, seconds):
        def timed(batches):
            asked.append((label, batches))
            return next(seconds)

        return timed

    timers = {
        "slow": timer("slow", iter([7.0])),
        "middling": timer("middling", iter([4.0, 6.0])),
        "quick": timer("quick", iter([1.0, 9.0, *[2.0] * 6])),
    }
    with tqdm(disable=True) as bar:
        got = speed.one_round(timers, {"slow": 4, "middling": 6, "quick": 80}, bar)
    quick = ("quick", 10)
    assert asked == [("slow", 4), ("middling", 3), *[quick] * 4, ("middling", 3), *[quick] * 4]
    assert got == {"slow": 7.0, "middling": 5.0, "quick": 2.0}  # medians: one bad turn does not count


def test_peak_memory_sees_what_was_held_and_let_go():
    with peak_memory() as peak:
        block = torch.ones(50_000_000)
        del block
        assert 190e6 < peak() < 400e6


def test_the_straightforward_contender_computes_our_loss(board):
    built = build("PerRowMF", {**board, "num_negatives": 7})
    model, batch = built.model, next(iter(built.train))
    model.begin_epoch(0)
    model.strategy.tau_u.copy_(torch.linspace(0.2, 0.9, model.n_users))
    torch.manual_seed(3)
    loss = model.calculate_loss(batch)
    torch.manual_seed(3)
    users, positives = batch["user_id"], batch["item_id"]
    rows = torch.randint(1, model.n_items, (len(users), 7)).tolist()
    u, i = (torch.nn.functional.normalize(side.double(), dim=1) for side in model.encode())
    losses = []
    for user, positive, negatives in zip(users.tolist(), positives.tolist(), rows, strict=True):
        logits = i[[positive, *negatives]] @ u[user] / model.strategy.tau_u[user]
        losses.append((torch.logsumexp(logits, 0) - logits[0]).item())
    assert loss.item() == pytest.approx(np.mean(losses), rel=1e-5)


def test_every_contender_is_set_up_alike():
    field = contenders("ml-100k", "dataset/")
    assert [contender.config["embedding_size"] for contender in field] == [64] * 8
    graph = [
        contender.config["n_layers"] for contender in field if "GCN" in contender.label or "SGL" in contender.label
    ]
    assert graph == [3, 3, 3]
    simplex = next(contender for contender in field if "SimpleX" in contender.label)
    assert simplex.config["train_batch_size"] // simplex.config["train_neg_sample_args"]["sample_num"] == 2048


def test_power_law_data_and_fitted_exponent():
    users, items = scaling.power_law_pairs(100, 50, 20_000)
    assert users.min() >= 1 and users.max() <= 100 and items.max() <= 50
    counts = np.bincount(items, minlength=51)[1:]
    assert counts[0] / counts[9] == pytest.approx(10**0.8, rel=0.2)
    sizes = [1, 2, 4, 8]
    assert scaling._exponent(sizes, [3 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert median_and_range([3.0, 1.0, 2.0]) == {"median": 2.0, "least": 1.0, "most": 3.0}


@pytest.mark.parametrize(("model", "mode", "learner"), [
    ("AdapTauLightGCN", "shared", "adam"), ("AdapTauLightGCN", "full", "adam"), ("AdapTauMF", "shared", "row_adam"),
])  # fmt: skip
def test_a_point_of_the_scaling_study(model, mode, learner):
    size = {"users": 300, "items": 200, "interactions": 5000, "negatives": 64, "d": 8}
    got = scaling.measure_point({**size, "model": model, "mode": mode, "learner": learner}, batches=2)
    assert got["epoch_seconds"] == pytest.approx(got["tau_seconds"] + 3 * got["batch_seconds"])


def test_reports_hold_the_figures(tmp_path):
    curves = {"a": [(1, 2.0, 0.1), (2, 4.0, 0.2)], "b": [(1, 1.0, 0.05), (2, 2.0, 0.19)]}
    data = {"dataset": "x", "model": "M", "seed": 1, "machine": "here", "protocol": "honest", "curves": curves}
    text = report.negatives_text(data, "the command")
    assert "| a | 0.2000 | 2.0 | 2 | 4 |" in text and "| b | 0.1900 | 1.0 | not reached |" in text
    report.write("n", tmp_path, data, text, report.negatives_figure(data))
    assert json.loads((tmp_path / "n.json").read_text())["seed"] == 1
    assert (tmp_path / "n.png").stat().st_size > 5000 and not list(tmp_path.glob("*.svg"))
    assert "the command" in text and "honest protocol: epoch chosen on validation" in (tmp_path / "n.md").read_text()


def test_time_to_quality_is_the_first_time_the_peers_best_is_passed(tmp_path):
    curves = {
        "LightGCN": [(1, 10.0, 0.1), (2, 20.0, 0.3), (3, 30.0, 0.3), (4, 40.0, 0.2)],
        "soon": [(1, 2.0, 0.2), (2, 4.0, 0.31), (3, 6.0, 0.4)],
        "never": [(1, 1.0, 0.05), (2, 2.0, 0.19)],
    }
    found = quality.times_to_quality(curves, "LightGCN")
    assert found == {"goal": 0.3, "peer_seconds": 20.0, "reached": {"soon": (2, 4.0), "never": None}}
    about = {model: {"settings": {}, "source": "somewhere"} for model in curves}
    data = {"dataset": "x", "peer": "LightGCN", "metric": "ndcg@20", "seed": 1, "budget_minutes": 3.0, "models": about}
    data |= {"machine": "here", "protocol": "honest", "curves": curves, **found}
    text = report.quality_text(data, "the command")
    assert "| soon | 0.4000 | 3 | 2.00 | 4 | 5.0 |" in text and "| never | 0.1900 | 2 | 1.00 | not reached |" in text
    assert "| LightGCN | 0.3000 | 4 | 10.00 | 20 | 1.0 |" in text and "at most 3 minutes" in text
    report.write("q", tmp_path, data, text, report.quality_figure(data))
    assert (tmp_path / "q.png").stat().st_size > 5000


def test_time_to_quality_of_real_runs_and_again_without_training(tmp_path, capsys):
    write_board(tmp_path)
    settings = ["--data_path", str(tmp_path / "data"), "--run_root", str(tmp_path / "runs"), "--output", str(tmp_path)]
    words = ["quality", "--dataset", "board", "--peer", "BPR", "--models", "AdapTauMF", "--budget", "0.03", *settings]
    (tmp_path / "data" / "board" / "board.yaml").write_text("benchmark_filename: [train, valid, test]\n")
    assert main(words) == 0
    first = json.loads((tmp_path / "time-to-quality-board.json").read_text())
    assert first["goal"] == max(value for _, _, value in first["curves"]["BPR"]) and first["peer_seconds"] > 0
    assert [epoch for epoch, _, _ in first["curves"]["AdapTauMF"]] == list(range(1, 51))
    assert main(words) == 0 and json.loads((tmp_path / "time-to-quality-board.json").read_text()) == first
    assert main([*words, "--models", "BPR"]) == 2 and "leave it out" in capsys.readouterr().err
    # The same from the folders alone.
    folders = [str(tmp_path / "runs" / f"board-{model}-2020") for model in ("BPR", "AdapTauMF")]
    saved = ["quality", "--peer", "BPR", "--output", str(tmp_path / "saved"), "--runs"]
    assert main([*saved, *folders]) == 0
    again = json.loads((tmp_path / "saved" / "time-to-quality-board.json").read_text())
    assert all(again[key] == first[key] for key in ("goal", "peer_seconds", "reached", "curves", "budget_minutes"))
    assert again["models"]["AdapTauMF"]["settings"]["learning_rate"] == 0.002
    capsys.readouterr()
    for wrong, message in (
        ([folders[1]], "must name a run of BPR"),
        ([folders[0], folders[0]], "a second run of BPR"),
        ([str(tmp_path)], "is not a run folder"),
    ):
        assert main([*saved, *wrong]) == 2 and message in capsys.readouterr().err
    other = tmp_path / "other"
    shutil.copytree(folders[1], other)
    (other / "config.yaml").write_text((other / "config.yaml").read_text().replace("seed: 2020", "seed: 7"))
    assert main([*saved, folders[0], str(other)]) == 2 and "they differ in seed" in capsys.readouterr().err
    # Runs with other settings are not taken for these.
    folder = next((tmp_path / "runs").glob("*AdapTauMF*"))
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("user_beta: 1.0", "user_beta: 0.7"))
    assert main(words) == 2
    assert re.search(r"user_beta = 0.7 there and 1.0 now.*another --run_root", capsys.readouterr().err)


def test_the_scaling_report_tells_the_study(tmp_path, monkeypatch):
    """All of the study but its measuring."""
    cost = {"epoch_seconds": 3.0, "batch_seconds": 0.25, "tau_seconds": 0.1, "peak_bytes": 5e8}
    monkeypatch.setattr(scaling, "in_own_process", lambda task: {**cost, "peak_bytes": 1e3 * task["scale"]["items"]})
    data = {"machine": "here", **scaling.study("AdapTauMF")}
    text = report.scaling_text(data, "the command")
    assert "| items | 0.00 | 1.00 | 1,000,000 | 3.0 | 1000 |" in text
    assert "`negatives: full` over 1,000,000 items: 0.25 s a batch, 1.00 GB" in text
    assert "1,000,000 items with `learner: adam`: an epoch takes 3.0 s and 1000 MB" in text
    assert "with AdapTauMF's default, `row_adam`" in text
    assert "learner: adam" not in report.scaling_text({"machine": "", **scaling.study("AdapTauLightGCN")}, "")
    report.write("s", tmp_path, data, text, report.scaling_figure(data))
    assert (tmp_path / "s.png").stat().st_size > 5000


def test_the_losses_report_has_every_loss_beside_the_softmax(monkeypatch):
    """All of it but the measuring: batches that take a second each, the softmax's half of it."""
    monkeypatch.setattr(losses, "fitting_batches", lambda trainer, loader, budget: 8)
    monkeypatch.setattr(Contender, "trainer", property(lambda self: self.label))
    monkeypatch.setattr(Contender, "batches", None)
    monkeypatch.setattr(losses, "epoch_seconds", lambda trainer, loader, n: 1.0 if trainer == "softmax" else 1.25)
    data = losses.measure("ml-100k", "dataset/", rounds=2, budget=1.0)
    assert set(data["ratios"]) == set(LOSSES) and data["ratios"]["psl"]["median"] == 1.25
    assert "| slatk | 1.25 | 1.25 |" in report.losses_text({"machine": "here", **data}, "the command")


def test_the_cost_of_a_temperature_is_the_share_of_the_work_at_an_epochs_beginning(monkeypatch):
    """By a clock that only this work moves on: measuring takes 1 s, 3 s every fourth time; the batches take 10 s."""
    clock = Clock()

    def begin_epoch(epoch):
        clock.now += 0.5 if epoch >= 20 else 3.0 if epoch % 4 == 1 else 1.0

    model = SimpleNamespace(
        begin_epoch=begin_epoch,
        strategy=SimpleNamespace(settings=SimpleNamespace(held_out_until=0.4)),
        held_out=range(20),
        interactions=range(980),
    )
    contender = SimpleNamespace(trainer=SimpleNamespace(model=model, epochs=50), batches=None, label="calibrated")
    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(temperature, "fitting_batches", lambda trainer, loader, budget: 8)
    monkeypatch.setattr(temperature, "epoch_seconds", lambda trainer, loader, number: 13.0)
    row = temperature.of_strategy(contender, rounds=2, budget=1.0)
    assert row["while_measuring"]["median"] == pytest.approx(1.5 / 11.5)
    assert row["afterwards"]["median"] == pytest.approx(0.5 / 10.5)
    assert row["of_a_run"]["median"] == pytest.approx(0.4 * 1.5 / 11.5 + 0.6 * 0.5 / 10.5)
    assert row["share_held_out"] == pytest.approx(0.02)
    text = report.temperature_text(
        {"machine": "", "model": "m", "dataset": "d", "rows": [{"recipe": "none", **row}]}, "c"
    )
    assert "| none | calibrated | 13.04% | 4.76% | 8.07% | 20 (2.00%) |" in text


def test_a_missing_dataset_is_said_plainly(capsys):
    assert main(["speed", "--dataset", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_the_model_of_ranks_is_found_in_what_it_would_measure():
    true = {"fixed": 0.01, "per_row": 2e-5, "group": 0.003, "shared": 6e5, "own": 2e5, "seconds_per_byte": 1e-9}
    sent = {k: (k - 1) * (true["shared"] / k + true["own"]) for k in (2, 4)}
    alone = [(rows, true["fixed"] + true["per_row"] * rows) for rows in (2048, 1024, 512)]
    two = {"sent_bytes": sent[2], "seconds_per_byte": 1e-9}
    two["batch_seconds"] = alone[1][1] + true["group"] + sent[2] * 1e-9
    found = ranks.fit(alone, two, {"sent_bytes": sent[4]})
    assert found == pytest.approx(true)
    one, whole = {"model": found}, {"once_seconds": 1.0, "steps": 10}
    assert ranks.epoch_on(one, whole, 1, 1e8) == pytest.approx(1.0 + 10 * alone[0][1])
    assert ranks.epoch_on(one, whole, 4, 1e8) == pytest.approx(1.0 + 10 * (alone[2][1] + 0.003 + sent[4] / 1e8))
    assert ranks.epoch_on(one, whole, 4, 1e12) == pytest.approx(1.0 + 10 * (alone[2][1] + 0.003 + sent[4] * 1e-9))
