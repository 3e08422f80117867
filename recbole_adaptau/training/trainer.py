"""RecBole's trainer for our models, extended through its own seams: one event per epoch, and less work around it."""

import math
from typing import Any
from weakref import WeakKeyDictionary

import torch
from recbole.trainer import Trainer
from recbole.utils import set_color
from torch import Tensor

from ..core.row_adam import RowAdam
from ..distributed import ranks
from ..errors import TrainingError
from .batches import Batches
from .evaluation import EvalBatches, ScoreBuffer, TopkCollector


class AdapTauTrainer(Trainer):
    """For our models: raises the epoch event, follows the learning rate's schedule, logs the temperatures.

    Batches and evaluation are RecBole's with less work around them (`batches`, `evaluation`).
    """

    def __init__(self, config: Any, model: Any):
        super().__init__(config, model)
        if isinstance(self.optimizer, RowAdam):
            ranks.check_row_updates(config["model"], self.model.encode())
        self.eval_collector = TopkCollector(config)
        self._eval_batches: WeakKeyDictionary[Any, EvalBatches] = WeakKeyDictionary()
        self._scores = ScoreBuffer()

    def evaluate(self, eval_data: Any, load_best_model: bool = True, *args: Any, **kwargs: Any) -> Any:
        if EvalBatches.fits(eval_data):
            if eval_data not in self._eval_batches:
                self._eval_batches[eval_data] = EvalBatches(eval_data)
            eval_data = self._eval_batches[eval_data]
        return super().evaluate(eval_data, load_best_model, *args, **kwargs)

    def _full_sort_batch_eval(self, batched_data: Any) -> tuple[Any, Tensor, Tensor, Tensor]:
        """RecBole's, with the scores of every batch in the same memory."""
        interaction, history, positive_u, positive_i = batched_data
        users = interaction[self.model.USER_ID].to(self.device)
        return interaction, self._scores.scores(self.model, users, history), positive_u, positive_i

    def _build_optimizer(self, **kwargs: Any) -> torch.optim.Optimizer:
        learner = self.learner.lower()
        if kwargs or learner not in ("adam", "row_adam"):
            return super()._build_optimizer(**{"params": self._parameters(), **kwargs})
        if learner == "row_adam":
            return RowAdam(self._parameters(), lr=self.learning_rate)
        # One pass over the tables instead of a dozen; the same numbers to rounding.
        return torch.optim.Adam(self._parameters(), lr=self.learning_rate, weight_decay=self.weight_decay, fused=True)

    def _parameters(self) -> list[Any]:
        """What is learned; a strategy with a rate of its own is a group of its own."""
        strategy = self.model.strategy
        if strategy.learning_rate is None:
            return list(self.model.parameters())
        own = list(strategy.parameters())
        others = [parameter for parameter in self.model.parameters() if not any(parameter is one for one in own)]
        rate = strategy.learning_rate
        return [{"params": others}, {"params": own, "lr": rate, "initial_lr": rate}]

    def sync_grad_loss(self) -> Any:
        return ranks.zero_of_all(self.model)

    def _train_epoch(self, train_data: Any, epoch_idx: int, *args: Any, **kwargs: Any) -> Any:
        advice = too_few_steps(len(train_data), self.epochs, self.config["train_batch_size"])
        if advice and epoch_idx == 0:
            self.logger.warning(set_color(advice, "yellow"))
        self.epoch_state = self._begin_epoch(epoch_idx)
        batches = Batches(train_data) if Batches.fits(train_data) else train_data
        loss = super()._train_epoch(batches, epoch_idx, *args, **kwargs)
        ranks.add_up(self.model.strategy.tallies())
        return loss

    def _check_nan(self, loss: Tensor) -> None:
        """Also for an infinite loss, which RecBole lets pass, and in words that help."""
        if torch.isneginf(loss):
            raise TrainingError(
                "the training loss has become -inf, as that of a row without negatives may be: a loss has to give "
                "such a row 0, as softmax_loss does; or raise train_batch_size or num_negatives."
            )
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the training loss has become {loss.item()}: the parameters have grown beyond what float32 holds. "
                f"Lower learning_rate (now {self.learning_rate}) or reg_weight, or set clip_grad_norm={{max_norm: 1}} "
                "with learner=adam."
            )

    def _begin_epoch(self, epoch_idx: int) -> dict[str, float]:
        """The epoch's learning rate and temperatures; returns what is worth recording of them."""
        factor = learning_rate_factor(self.config["lr_schedule"], epoch_idx, self.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = group.get("initial_lr", self.learning_rate) * factor
        state = self.model.begin_epoch(epoch_idx)
        # Each rank drew items of its own for the users' losses and quantiles.
        ranks.share([*self.model.strategy.buffers(), *self.model.loss.buffers()])
        self.logger.info(
            set_color(f"epoch {epoch_idx} temperature", "green")
            + f" [{self.model.strategy.describe()}, tau_u = {state['tau_u_min']:.4f} / {state['tau_u_mean']:.4f} / "
            + f"{state['tau_u_max']:.4f} (min / mean / max), mu+ - mu = {state['gap']:.4f}, "
            + f"mean |dL/df| = {state['gradient']:.3e}]"
        )
        for name, value in state.items():
            self.tensorboard.add_scalar(f"Temperature/{name}", value, epoch_idx)
        self.wandblogger.log_metrics({**state, "train_step": epoch_idx}, head="train")
        return {**state, "learning_rate": self.learning_rate * factor}


# What AdapTauLightGCN has on ml-100k, the smallest data it was tried on.
ENOUGH_STEPS = 500


def too_few_steps(batches: int, epochs: int, batch_size: int) -> str | None:
    """What to change when little data in large batches leaves few steps to learn in; None when there are enough."""
    steps = batches * epochs
    enough = ENOUGH_STEPS / 50  # batches an epoch; who asks for fewer epochs than 50 means to have few steps
    if steps >= ENOUGH_STEPS or batches >= enough or batch_size <= 64:
        return None
    smaller = max(2 ** int(math.log2(batch_size * batches / enough)), 64)
    return (
        f"{steps} steps of learning in all ({batches} an epoch) are few: on data as small as this expect more "
        f"of --train_batch_size={smaller}, or of more --epochs."
    )


def learning_rate_factor(schedule: str, epoch: int, epochs: int) -> float:
    """Share of the learning rate used in an epoch: linear and cosine fall from 1 towards 0 over all epochs."""
    done = epoch / epochs
    return {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}[schedule]
