"""What our trainer adds to RecBole's: the rate of an epoch, the optimiser, and words for a loss that is no number."""

import math
from types import SimpleNamespace

import pytest
import torch
from recbole.trainer import Trainer

from recbole_adaptau.core.row_adam import RowAdam
from recbole_adaptau.distributed import ranks
from recbole_adaptau.errors import TrainingError
from recbole_adaptau.training.batches import Batches
from recbole_adaptau.training.evaluation import EvalBatches
from recbole_adaptau.training.trainer import ENOUGH_STEPS, learning_rate_factor, too_few_steps
from tests.helpers import build, trainer_of


@pytest.mark.parametrize("epochs", [1, 4, 7])
def test_schedules_fall_from_one_towards_zero(epochs):
    for epoch in range(epochs):
        share = epoch / epochs
        assert learning_rate_factor("constant", epoch, epochs) == 1.0
        assert learning_rate_factor("linear", epoch, epochs) == pytest.approx(1 - share)
        assert learning_rate_factor("cosine", epoch, epochs) == pytest.approx((1 + math.cos(math.pi * share)) / 2)


@pytest.mark.parametrize(
    ("batches", "epochs", "batch_size", "smaller"),
    [
        (3, 50, 2048, 512),
        (9, 55, 2048, 1024),
        (9, 50, 1130, 512),  # 1017 would be enough
        (9, 56, 2048, None),  # 504 steps
        (5, 100, 2048, None),  # 500 steps
        (10, 49, 2048, None),  # ten batches an epoch
        (1, 50, 128, 64),
        (1, 50, 65, 64),
        (1, 50, 64, None),
    ],
)
def test_advice_for_few_steps_names_a_batch_size_that_gives_enough(batches, epochs, batch_size, smaller):
    advice = too_few_steps(batches, epochs, batch_size)
    if smaller is None:
        assert advice is None
    else:
        assert f"{batches * epochs} steps" in advice and f"({batches} an epoch)" in advice
        assert f"--train_batch_size={smaller}," in advice
        assert smaller == 64 or batches * batch_size / smaller >= ENOUGH_STEPS / 50


def test_an_epoch_begins_with_its_rate_and_its_temperatures(board):
    built = build("AdapTauMF", {**board, "epochs": 4, "lr_schedule": "linear", "learning_rate": 0.08})
    trainer = trainer_of(built)
    for epoch in (0, 1, 3):
        state = trainer._begin_epoch(epoch)
        assert state["learning_rate"] == pytest.approx(0.08 * (1 - epoch / 4))
        assert {group["lr"] for group in trainer.optimizer.param_groups} == {state["learning_rate"]}
        assert state["tau_0"] == pytest.approx(built.model.strategy.tau_0.item())
    trainer.tensorboard.close()


@pytest.mark.parametrize("learner", ["adam", "row_adam", "sgd"])
def test_the_optimiser_is_the_asked_one(board, learner):
    changes = {"learner": learner, "learning_rate": 0.03, **({} if learner == "row_adam" else {"weight_decay": 0.2})}
    trainer = trainer_of(build("AdapTauMF", {**board, **changes}))
    (group,) = trainer.optimizer.param_groups
    kind = {"adam": torch.optim.Adam, "row_adam": RowAdam, "sgd": torch.optim.SGD}[learner]
    assert type(trainer.optimizer) is kind and group["lr"] == 0.03 and len(group["params"]) == 2
    assert group.get("weight_decay", 0.0) == (0.0 if learner == "row_adam" else 0.2)
    assert bool(group.get("fused")) == (learner == "adam")


@pytest.mark.parametrize("learner", ["adam", "row_adam", "sgd"])
@pytest.mark.parametrize("strategy", ["learned", "learned_user"])
def test_a_learned_temperature_can_have_a_rate_of_its_own(board, learner, strategy):
    settings = {**board, "tau_strategy": strategy, "learner": learner, "epochs": 4, "lr_schedule": "linear"}
    settings |= {"learning_rate": 0.08}
    (plain,) = trainer_of(build("AdapTauMF", settings)).optimizer.param_groups
    assert plain["lr"] == 0.08
    built = build("AdapTauMF", {**settings, "tau_learning_rate": 0.002})
    trainer = trainer_of(built)
    tables, own = trainer.optimizer.param_groups
    assert {id(one) for one in own["params"]} == {id(one) for one in built.model.strategy.parameters()}
    assert len(tables["params"]) == 2 and (tables["lr"], own["lr"]) == (0.08, 0.002)
    assert bool(own.get("fused")) == (learner == "adam")
    state = trainer._begin_epoch(3)
    assert tables["lr"] == state["learning_rate"] == pytest.approx(0.02) and own["lr"] == pytest.approx(0.0005)
    trainer.tensorboard.close()


def test_a_slow_temperature_stays_near_its_start(board):
    """A step of Adam is about as long as the rate, so that 8 batches move log(tau − tau_min) by at most 8 of them."""
    found = {}
    for rate in (None, 1e-4):
        settings = {**board, "tau_strategy": "learned", "tau": 0.3, "learning_rate": 0.05, "tau_learning_rate": rate}
        built = build("AdapTauMF", settings)
        trainer = trainer_of(built)
        trainer._train_epoch(built.train, 0)
        found[rate] = abs(built.model.strategy.raw.item() - math.log(0.28))
        trainer.tensorboard.close()
    assert 0 < found[1e-4] < 8.1e-4 and found[None] > 0.05


def test_a_loss_that_is_no_number_says_what_to_change(board):
    trainer = trainer_of(build("AdapTauMF", {**board, "learning_rate": 0.5}))
    trainer._check_nan(torch.tensor(3.0))
    for loss, words in ((math.nan, r"has become nan.*now 0\.5"), (math.inf, "has become inf"), (-math.inf, "-inf")):
        with pytest.raises(TrainingError, match=words):
            trainer._check_nan(torch.tensor(loss))
    with pytest.raises(TrainingError, match="without negatives"):
        trainer._check_nan(torch.tensor(-math.inf))


def test_a_loader_is_prepared_once_and_its_scores_leave_out_what_was_seen(board):
    built = build("AdapTauMF", {**board, "eval_batch_size": 300})
    trainer = trainer_of(built)
    trainer.eval_collector.data_collect(built.train)
    for _ in range(2):
        trainer.evaluate(built.valid, load_best_model=False)
    assert len(trainer._eval_batches) == 1
    trainer.evaluate(built.test, load_best_model=False)
    assert len(trainer._eval_batches) == 2
    batch = next(iter(EvalBatches(built.test)))
    interaction, scores, positive_u, positive_i = trainer._full_sort_batch_eval(batch)
    assert interaction is batch[0] and positive_u is batch[2] and positive_i is batch[3]
    assert torch.isneginf(scores[:, 0]).all() and torch.isneginf(scores[batch[1]]).all()
    plain = built.model.full_sort_predict(interaction).view(scores.shape)
    kept = torch.isfinite(scores)
    assert kept.sum() == scores.numel() - len(scores) - len(batch[1][0]) and torch.equal(scores[kept], plain[kept])


@pytest.mark.parametrize("learner", ["adam", "row_adam", "ADAM"])
def test_row_wise_updates_are_checked_against_the_ranks_when_the_trainer_is_made(board, learner, monkeypatch):
    checked = []
    monkeypatch.setattr(ranks, "check_row_updates", lambda name, tables: checked.append((name, len(tables))))
    trainer = trainer_of(build("AdapTauMF", {**board, "learner": learner}))
    assert checked == ([("AdapTauMF", 2)] if learner == "row_adam" else [])
    assert learner == "row_adam" or trainer.optimizer.defaults["fused"]


def test_an_epoch_advises_once_begins_trains_on_batches_and_adds_up_the_tallies(board, monkeypatch):
    built = build("AdapTauMF", {**board, "epochs": 3, "train_batch_size": 512, "tau_strategy": "adaptive_user"})
    trainer, seen, added = trainer_of(built), [], []
    warnings: list[str] = []
    monkeypatch.setattr(trainer.logger, "warning", warnings.append)
    monkeypatch.setattr(Trainer, "_train_epoch", lambda self, batches, epoch, *_: seen.append((batches, epoch)) or 7.0)
    monkeypatch.setattr(ranks, "add_up", added.append)
    for epoch in (0, 1):
        trainer.epoch_state = None
        assert trainer._train_epoch(built.train, epoch) == 7.0
        assert len(warnings) == 1, "in the first epoch alone"
        assert trainer.epoch_state["tau_0"] == pytest.approx(built.model.strategy.tau_0.item())
    assert [(type(batches), epoch) for batches, epoch in seen] == [(Batches, 0), (Batches, 1)]
    assert "--train_batch_size=" in warnings[0]
    for tensors in added:
        assert [tensor.shape for tensor in tensors] == [tensor.shape for tensor in built.model.strategy.tallies()]
    assert len(added) == 2
    monkeypatch.setattr(Batches, "fits", lambda _: False)
    trainer._train_epoch(built.train, 2)
    assert seen[-1] == (built.train, 2)
    trainer.tensorboard.close()


def test_the_state_of_an_epoch_is_shared_logged_and_recorded(board, monkeypatch):
    built = build("AdapTauMF", {**board, "epochs": 3, "loss": "slatk"})
    trainer, shared, logged, scalars, metrics = trainer_of(built), [], [], {}, []
    trainer.tensorboard.close()
    trainer.tensorboard = SimpleNamespace(add_scalar=lambda name, value, step: scalars.update({name: (value, step)}))
    trainer.wandblogger = SimpleNamespace(log_metrics=lambda state, head: metrics.append((state, head)))
    monkeypatch.setattr(ranks, "share", shared.extend)
    monkeypatch.setattr(trainer.logger, "info", logged.append)
    state = trainer._begin_epoch(2)
    buffers = [*built.model.strategy.buffers(), *built.model.loss.buffers()]
    assert buffers and [id(tensor) for tensor in shared] == [id(tensor) for tensor in buffers]
    assert "epoch 2 temperature" in logged[0] and f"tau_u = {state['tau_u_min']:.4f} / " in logged[0]
    del state["learning_rate"]
    assert scalars == {f"Temperature/{name}": (value, 2) for name, value in state.items()}
    assert metrics == [({**state, "train_step": 2}, "train")]
