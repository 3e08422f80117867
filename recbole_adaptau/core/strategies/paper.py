"""The paper's ways to set the temperature. A strategy says how; the trainer says when."""

import math
from collections.abc import Callable, Mapping
from logging import getLogger
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ...errors import OptionError
from ..calibration import HeldOut
from ..closed_form import global_tau, quantile, user_taus
from ..component import Component, Registry
from ..epoch_view import EpochView
from ..interactions import Interactions
from ..settings import TAU_LEAST, TAU_MOST, SettingsModel, setting


class TemperatureStrategy(Component):
    """The contract: temperatures that are set when an epoch begins.

    Args:
        n_users: Users, the padding included.
        embedding_size: Length of a user's embedding.
        settings: Of the class's own `Settings`; None for the defaults.

    Attributes:
        tau_0: [] the global temperature.
        tau_u: [n_users] each user's temperature, for strategies that have one, as of the last `begin_epoch`.
    """

    class Settings(SettingsModel):
        tau_min: float = setting(0.02, "Lower bound of every temperature.", ge=TAU_LEAST, le=TAU_MOST)

    # Whether tau_0 is computed from training positives alone: a run compares it with validation positives at its end.
    closed_form = False
    # The rate at which the optimiser changes its parameters; None for that of the model.
    learning_rate: float | None = None

    tau_0: Tensor
    tau_u: Tensor | None

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(settings)
        start = torch.tensor(getattr(self.settings, "tau", 0.1))
        self.register_buffer("tau_0", start)
        self.register_buffer("tau_u", None)

    def reset_parameters(self) -> None:
        """Start values of its own, called after the model has initialised all its modules."""

    def min_user_count(self, interactions: Interactions) -> float:
        """Only users with more positives than this count for tau_0."""
        return 0.0

    def hold_out(self, interactions: Interactions, seed: int) -> tuple[Interactions, HeldOut | None]:
        """Split the training positives, before anything reads them, into those to train on and those to measure on.

        The split must depend on nothing but the data, the seed and the settings: every process makes it for itself.
        """
        return interactions, None

    def trains_held_out(self, epoch: int, epochs: int) -> bool:
        """Whether the positives held out are trained on in an epoch, of so many in all."""
        return True

    def begin_epoch(self, view: EpochView) -> None:
        """Set the temperatures of the epoch about to begin."""

    def observe(self, users: Tensor, losses_at: Callable[[Tensor], Tensor]) -> None:
        """See a batch of training, before its step.

        Shape: user ids [B]; losses_at, temperatures [B] → the rows' losses [B] against the batch's negatives.
        """

    def tallies(self) -> tuple[Tensor, ...]:
        """What `observe` has added up in this epoch; several processes take the sum of theirs when it ends."""
        return ()

    def tau(self, users: Tensor, embeddings: Tensor) -> Tensor:
        """Shape: user ids [B], their scored embeddings [B, d] → temperatures [B]."""
        return self.tau_0.expand(len(users))

    def describe(self) -> str:
        """What sets the temperature, in a word or two for the log; the figures are the epoch event's."""
        return f"{self.name}: tau_0 = {self.tau_0.item():.4f}"


STRATEGIES: Registry[type[TemperatureStrategy]] = Registry("tau_strategy")
register_strategy = STRATEGIES.register


@register_strategy("none")
class NoTemperature(TemperatureStrategy):
    """`none`: plain inner products, nothing normalised, tau = 1."""

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(n_users, embedding_size, settings)
        self.tau_0.fill_(1.0)

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        if values["normalization"] not in ("auto", "N-N"):
            raise OptionError(
                f"tau_strategy = none means no normalisation, but normalization = {values['normalization']}: "
                "use tau_strategy=fixed to normalise at a fixed temperature."
            )
        if values["test_score"] == "cosine":
            raise OptionError("tau_strategy = none ranks by inner product: test_score = cosine contradicts it.")


@register_strategy("fixed")
class FixedTau(TemperatureStrategy):
    """`fixed`: the value of `tau`, as a grid search sets it."""

    class Settings(TemperatureStrategy.Settings):
        tau: float = setting(
            0.1,
            "The temperature of `fixed`, and where `learned` and `learned_user` start.",
            ge=TAU_LEAST,
            le=TAU_MOST,
        )

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        if values["tau"] < values["tau_min"]:
            raise OptionError(
                f"tau = {values['tau']} is below tau_min = {values['tau_min']}, the lower bound of every temperature: "
                "raise tau or lower tau_min."
            )


def _bounded_exp(raw: Tensor) -> Tensor:
    """exp, which a step too long for float32 cannot make infinite: from there on the gradient would be NaN."""
    return torch.exp(raw.clamp_max(math.log(TAU_MOST)))


@register_strategy("learned")
class LearnedTau(FixedTau):
    """`learned` (C-tau): one temperature learned by gradient descent, tau = tau_min + exp(raw)."""

    class Settings(FixedTau.Settings):
        tau_learning_rate: Annotated[float, Field(gt=0.0, le=1e3)] | None = setting(
            None,
            "Learning rate of the temperature's own parameters, under the same lr_schedule; None for learning_rate.",
            wanted="a number above 0; leave it out for learning_rate",
        )

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(n_users, embedding_size, settings)
        self.learning_rate = self.settings.tau_learning_rate
        # The start must lie above the lower bound for the logarithm to exist.
        start = max(self.settings.tau - self.settings.tau_min, 1e-3)
        self.raw = nn.Parameter(torch.tensor(math.log(start)))

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        super().refuse(values)
        if values["positive_tau"] == "tau_0":
            raise OptionError(
                f"tau_strategy = {cls.name} learns one temperature for positive and negatives alike: "
                "positive_tau = tau_0 goes with fixed, adaptive and adaptive_user only."
            )

    @torch.no_grad()
    def begin_epoch(self, view: EpochView) -> None:
        self.tau_0.copy_(self._global())

    def tau(self, users: Tensor, embeddings: Tensor) -> Tensor:
        return self._global().expand(len(users))

    def _global(self) -> Tensor:
        return self.settings.tau_min + _bounded_exp(self.raw)


@register_strategy("learned_user")
class LearnedUserTau(LearnedTau):
    """`learned_user` (Cu-tau): a small network reads the user's embedding and scales the learned temperature.

    tau_u = tau_min + exp(raw + 3 tanh(net(e_u))), so a user's part is within e^±3 of the common one. The last
    layer starts at zero: everybody starts at `tau`. The embedding is read without gradient, so that the network
    sets temperatures but does not bend embeddings.
    """

    tau_u: Tensor
    HIDDEN = 32

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(n_users, embedding_size, settings)
        self.last_layer = nn.Linear(self.HIDDEN, 1)
        self.net = nn.Sequential(nn.Linear(embedding_size, self.HIDDEN), nn.ReLU(), self.last_layer)
        self.register_buffer("tau_u", torch.full((n_users,), self.settings.tau))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.last_layer.weight)
        nn.init.zeros_(self.last_layer.bias)

    @torch.no_grad()
    def begin_epoch(self, view: EpochView) -> None:
        users = view.embeddings[0]
        self.tau_u.copy_(self.tau(torch.arange(len(users), device=users.device), users))
        self.tau_0.copy_(self.tau_u[view.interactions.active_users].mean())

    def tau(self, users: Tensor, embeddings: Tensor) -> Tensor:
        personal = 3.0 * torch.tanh(self.net(embeddings.detach()).squeeze(1))
        return self.settings.tau_min + _bounded_exp(self.raw + personal)


@register_strategy("adaptive")
class AdaptiveTau(TemperatureStrategy):
    """`adaptive` (Adap-tau_0): the closed form, computed anew from the embeddings at the start of every epoch.

    Start-up: before training, mu+ − mu is about zero and the closed form would fall to its lower bound. Until the
    measured gap has once passed `tau_startup_min_gap`, and at least for `tau_startup_epochs` epochs, the gap is
    taken to be `tau_startup_gap` (the authors assume 0.7 for their first hundred epochs). Once released, the
    measured gap counts for good; if it shrinks so far that tau_0 meets its lower bound, that is said in the log.
    """

    class Settings(TemperatureStrategy.Settings):
        tau_max: float = setting(
            1.0,
            "Upper bound of every adaptive temperature; tau_0 of data denser than one half.",
            ge=TAU_LEAST,
            le=TAU_MOST,
        )
        tau_form: Literal["simplified", "with_variances"] = setting(
            "simplified", "Closed form of tau_0: simplified (Eq. 13), or with_variances."
        )
        tau_startup_gap: float = setting(
            0.7, "mu+ - mu assumed while the embeddings are untrained.", ge=TAU_LEAST, le=TAU_MOST
        )
        tau_startup_min_gap: float = setting(0.2, "The measured mu+ - mu counts once it has passed this.", ge=0.0)
        tau_startup_epochs: int = setting(0, "The assumed gap holds for at least this many epochs.", ge=0)
        tau_user_quantile: float = setting(
            0.0, "Only users with more positives than this quantile count for tau_0; 0 for all.", ge=0.0, lt=1.0
        )

    closed_form = True
    released: Tensor

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(n_users, embedding_size, settings)
        self.register_buffer("released", torch.tensor(False))

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        if values["tau_min"] > values["tau_max"]:
            raise OptionError(f"tau_min = {values['tau_min']} is above tau_max = {values['tau_max']}.")
        if values["normalization"] not in ("auto", "Y-Y"):
            raise OptionError(
                f"tau_strategy = {cls.name} computes the temperature from cosines and needs normalization = Y-Y, not "
                f"{values['normalization']}: use tau_strategy=fixed or learned with {values['normalization']}."
            )

    def min_user_count(self, interactions: Interactions) -> float:
        if self.settings.tau_user_quantile == 0:
            return 0.0
        counts = interactions.user_counts[interactions.active_users]
        least = quantile(counts, self.settings.tau_user_quantile)
        # Where all have as many, nobody has more: then all count.
        return least if (counts > least).any() else 0.0

    def begin_epoch(self, view: EpochView) -> None:
        self.tau_0.fill_(self.global_tau(view))

    def global_tau(self, view: EpochView) -> float:
        """tau_0 of the epoch about to begin."""
        o = self.settings
        if view.epoch >= o.tau_startup_epochs and view.gap > o.tau_startup_min_gap:
            self.released.fill_(True)
        measured = bool(self.released)
        tau_0 = global_tau(
            view.gap if measured else o.tau_startup_gap,
            view.log_ratio_left,
            o.tau_min,
            o.tau_max,
            view.variance_gap if measured and o.tau_form == "with_variances" else None,
        )
        if view.log_ratio <= 0 and view.epoch == 0:
            getLogger().warning(
                f"The training data is denser than one half, where the closed form has no solution: "
                f"tau_0 stays at tau_max = {o.tau_max}."
            )
        elif tau_0 <= o.tau_min:
            getLogger().warning(
                f"epoch {view.epoch}: tau_0 is at its lower bound tau_min = {o.tau_min}, because mu+ - mu is only "
                f"{view.gap:.4f}. The scores of positives and others no longer differ: lower the learning rate, or "
                "use tau_strategy=fixed."
            )
        return tau_0


@register_strategy("adaptive_user")
class AdaptiveUserTau(AdaptiveTau):
    """`adaptive_user` (Adap-tau): tau_0 as above and each user's own from the users' losses, by Lambert W.

    In the first epoch everybody has tau_0: untrained embeddings say nothing about users. Users without a training
    positive always have it.
    """

    class Settings(AdaptiveTau.Settings):
        user_beta: float = setting(
            1.0, "Pull of tau_u towards tau_0; the divisor inside Lambert W is 2 * user_beta.", ge=1e-6, le=1e6
        )
        user_threshold: Annotated[float, Field(gt=0.0, lt=1.0)] | Literal["mean"] = setting(
            "mean", "m_u, the loss of a user at tau_0: mean, or a quantile in (0, 1)."
        )
        user_loss_tau: Annotated[float, Field(ge=TAU_LEAST, le=TAU_MOST)] | Literal["tau_0"] = setting(
            1.0, "Common temperature at which users' losses are measured: a number, or tau_0."
        )
        user_loss_items: Literal["catalogue", "batch"] = setting(
            "catalogue",
            "What L(u) is measured against: catalogue when an epoch begins, or a batch's negatives in training, "
            "averaged over the epoch (the authors' code).",
        )

    tau_u: Tensor
    loss_sums: Tensor | None
    loss_counts: Tensor | None

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(n_users, embedding_size, settings)
        self.register_buffer("tau_u", torch.full((n_users,), self.tau_0.item()))
        observed = self.settings.user_loss_items == "batch"
        for name in ("loss_sums", "loss_counts"):
            self.register_buffer(name, torch.zeros(n_users, dtype=torch.float64) if observed else None)

    def begin_epoch(self, view: EpochView) -> None:
        super().begin_epoch(view)
        o = self.settings
        tau_0 = self.tau_0.item()
        self.tau_u.fill_(tau_0)
        if view.epoch == 0:
            return
        losses = self.user_losses(view, self._loss_tau())
        active = view.interactions.active_users
        threshold = losses.mean().item() if o.user_threshold == "mean" else quantile(losses, o.user_threshold)
        taus = user_taus(tau_0, losses.cpu().numpy(), threshold, o.user_beta, o.tau_min, o.tau_max)
        self.tau_u[active] = torch.from_numpy(taus).to(self.tau_u)

    def user_losses(self, view: EpochView, tau: float) -> Tensor:
        """L(u) at a common temperature. Shape: [active users], float64."""
        if self.loss_sums is None or self.loss_counts is None:
            return view.user_losses(tau)
        active = view.interactions.active_users
        sums, counts = self.loss_sums[active], self.loss_counts[active]
        for tally in self.tallies():
            tally.zero_()
        # A user that no batch had (its positives are held out, say) has the loss of the average row.
        return torch.where(counts > 0, sums / counts, sums.sum() / counts.sum())

    @torch.no_grad()
    def observe(self, users: Tensor, losses_at: Callable[[Tensor], Tensor]) -> None:
        if self.loss_sums is None or self.loss_counts is None:
            return
        losses = losses_at(self.tau_0.new_full(users.shape, self._loss_tau())).double()
        # A row without any negative has no loss to speak of.
        some = torch.isfinite(losses)
        self.loss_sums.index_add_(0, users[some], losses[some])
        self.loss_counts.index_add_(0, users[some], torch.ones_like(losses[some]))

    def tallies(self) -> tuple[Tensor, ...]:
        return () if self.loss_sums is None or self.loss_counts is None else (self.loss_sums, self.loss_counts)

    def _loss_tau(self) -> float:
        tau = self.settings.user_loss_tau
        return self.tau_0.item() if tau == "tau_0" else float(tau)

    def tau(self, users: Tensor, embeddings: Tensor) -> Tensor:
        return self.tau_u[users]
