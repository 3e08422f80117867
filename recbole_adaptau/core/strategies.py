"""Six ways to set the temperature, by the paper's names. A strategy says how; the trainer says when.

All that a strategy remembers is in buffers or parameters, so checkpoints, resuming and `.to(device)` include it.
"""

import math
from logging import getLogger

import torch
from torch import Tensor, nn

from ..config.options import TAU_MOST, Options
from .closed_form import global_tau, user_taus
from .epoch_view import EpochView


class TemperatureStrategy(nn.Module):
    """The contract. This base is also the strategy with one constant temperature.

    Attributes:
        tau_0: [] the global temperature.
        tau_u: [n_users] each user's temperature, for strategies that have one, as of the last `begin_epoch`.
    """

    tau_0: Tensor
    tau_u: Tensor | None

    def __init__(self, options: Options, n_users: int):
        super().__init__()
        self.options = options
        self.register_buffer("tau_0", torch.tensor(options.tau))
        self.register_buffer("tau_u", None)

    def reset_parameters(self) -> None:
        """Start values of its own, called after the model has initialised all its modules."""

    def begin_epoch(self, view: EpochView) -> None:
        """Set the temperatures of the epoch about to begin."""

    def tau(self, users: Tensor, embeddings: Tensor) -> Tensor:
        """Shape: user ids [B], their scored embeddings [B, d] → temperatures [B]."""
        return self.tau_0.expand(len(users))

    def describe(self) -> str:
        """What sets the temperature, in a word or two for the log; the figures are the epoch event's."""
        return f"{self.options.tau_strategy}: tau_0 = {self.tau_0.item():.4f}"


class NoTemperature(TemperatureStrategy):
    """`none`: plain inner products, nothing normalised, tau = 1."""

    def __init__(self, options: Options, n_users: int):
        super().__init__(options, n_users)
        self.tau_0.fill_(1.0)


class FixedTau(TemperatureStrategy):
    """`fixed`: the value of `tau`, as a grid search sets it."""


def _bounded_exp(raw: Tensor) -> Tensor:
    """exp, which a step too long for float32 cannot make infinite: from there on the gradient would be NaN."""
    return torch.exp(raw.clamp_max(math.log(TAU_MOST)))


class LearnedTau(TemperatureStrategy):
    """`learned` (C-tau): one temperature learned by gradient descent, tau = tau_min + exp(raw)."""

    def __init__(self, options: Options, n_users: int):
        super().__init__(options, n_users)
        # The start must lie above the lower bound for the logarithm to exist.
        start = max(options.tau - options.tau_min, 1e-3)
        self.raw = nn.Parameter(torch.tensor(math.log(start)))

    @torch.no_grad()
    def begin_epoch(self, view: EpochView) -> None:
        self.tau_0.copy_(self._global())

    def tau(self, users: Tensor, embeddings: Tensor) -> Tensor:
        return self._global().expand(len(users))

    def _global(self) -> Tensor:
        return self.options.tau_min + _bounded_exp(self.raw)


class LearnedUserTau(LearnedTau):
    """`learned_user` (Cu-tau): a small network reads the user's embedding and scales the learned temperature.

    tau_u = tau_min + exp(raw + 3 tanh(net(e_u))), so a user's part is within e^±3 of the common one. The last
    layer starts at zero: everybody starts at `tau`. The embedding is read without gradient, so that the network
    sets temperatures but does not bend embeddings.
    """

    tau_u: Tensor
    HIDDEN = 32

    def __init__(self, options: Options, n_users: int):
        super().__init__(options, n_users)
        self.last_layer = nn.Linear(self.HIDDEN, 1)
        self.net = nn.Sequential(nn.Linear(options.embedding_size, self.HIDDEN), nn.ReLU(), self.last_layer)
        self.register_buffer("tau_u", torch.full((n_users,), options.tau))

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
        return self.options.tau_min + _bounded_exp(self.raw + personal)


class AdaptiveTau(TemperatureStrategy):
    """`adaptive` (Adap-tau_0): the closed form, computed anew from the embeddings at the start of every epoch.

    Start-up: before training, mu+ − mu is about zero and the closed form would fall to its lower bound. Until the
    measured gap has once passed `tau_startup_min_gap`, and at least for `tau_startup_epochs` epochs, the gap is
    taken to be `tau_startup_gap` (the authors assume 0.7 for their first hundred epochs). Once released, the
    measured gap counts for good; if it shrinks so far that tau_0 meets its lower bound, that is said in the log.
    """

    released: Tensor

    def __init__(self, options: Options, n_users: int):
        super().__init__(options, n_users)
        self.register_buffer("released", torch.tensor(False))

    def begin_epoch(self, view: EpochView) -> None:
        o = self.options
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
        self.tau_0.fill_(tau_0)


class AdaptiveUserTau(AdaptiveTau):
    """`adaptive_user` (Adap-tau): tau_0 as above and each user's own from the users' losses, by Lambert W.

    In the first epoch everybody has tau_0: untrained embeddings say nothing about users. Users without a training
    positive always have it.
    """

    tau_u: Tensor
    last_losses: Tensor | None

    def __init__(self, options: Options, n_users: int):
        super().__init__(options, n_users)
        self.register_buffer("tau_u", torch.full((n_users,), options.tau))
        unknown = torch.full((n_users,), torch.nan, dtype=torch.float64)
        self.register_buffer("last_losses", unknown if options.user_loss_average else None)

    def begin_epoch(self, view: EpochView) -> None:
        super().begin_epoch(view)
        o = self.options
        tau_0 = self.tau_0.item()
        self.tau_u.fill_(tau_0)
        if view.epoch == 0:
            return
        losses = view.user_losses(tau_0 if o.user_loss_tau == "tau_0" else float(o.user_loss_tau))
        active = view.interactions.active_users
        if self.last_losses is not None:
            before = self.last_losses[active]
            self.last_losses[active] = losses
            losses = torch.where(before.isnan(), losses, (before + losses) / 2)
        quantile = o.user_threshold_quantile
        threshold = losses.mean() if quantile is None else losses.quantile(quantile)
        taus = user_taus(tau_0, losses.cpu().numpy(), threshold.item(), o.user_beta, o.tau_min, o.tau_max)
        self.tau_u[active] = torch.from_numpy(taus).to(self.tau_u)

    def tau(self, users: Tensor, embeddings: Tensor) -> Tensor:
        return self.tau_u[users]


STRATEGIES: dict[str, type[TemperatureStrategy]] = {
    "none": NoTemperature,
    "fixed": FixedTau,
    "learned": LearnedTau,
    "learned_user": LearnedUserTau,
    "adaptive": AdaptiveTau,
    "adaptive_user": AdaptiveUserTau,
}
