"""tau_0 from positives that are not trained on; not the paper's. Derivation and figures: docs/method.md."""

import math
from logging import getLogger
from typing import Any

import torch
from torch import Tensor

from ..calibration import Calibration, HeldOut, calibration, transfer_slope
from ..closed_form import global_tau
from ..epoch_view import EpochView
from ..interactions import Interactions
from ..settings import SettingsModel, setting
from .paper import AdaptiveTau, AdaptiveUserTau, register_strategy


class _HeldOutSettings(SettingsModel):
    held_out_share: float = setting(
        0.02, "Share of the training positives that is kept out of training to measure tau_0.", gt=0.0, le=0.5
    )
    held_out_most: int = setting(1024, "How many positives that are at most.", ge=1)
    held_out_until: float = setting(
        0.4, "Share of the epochs after which they are trained on too; tau_0 stays from then on.", ge=0.0, le=1.0
    )


@register_strategy("calibrated")
class CalibratedTau(AdaptiveTau):
    """`calibrated`: tau_0 from held-out positives.

    tau_0 ← sqrt(tau_0 · c · B). B minimises the softmax NLL of the held-out positives over the whole catalogue. c² is
    the median score of training positives divided by that of held-out ones of the same users, within 1 and 2
    (`Calibration`). In the first epoch, whose embeddings are untrained, tau_0 is the closed form's at its assumed gap.
    After `held_out_until` of the epochs the held-out positives are trained on and tau_0 stays.

    It assumes that held-out positives are like those to be predicted, and that the data has at least
    `LEAST_POSITIVES` of them to spare; with fewer the closed form is used, and the log says so.
    """

    class Settings(AdaptiveTau.Settings, _HeldOutSettings):
        pass

    closed_form = False
    # A `Calibration`, as last measured.
    calibrated: Tensor

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(n_users, embedding_size, settings)
        self.register_buffer("calibrated", torch.ones(2, dtype=torch.float64))

    def hold_out(self, interactions: Interactions, seed: int) -> tuple[Interactions, HeldOut | None]:
        return HeldOut.split(interactions, self.settings.held_out_share, self.settings.held_out_most, seed)

    def trains_held_out(self, epoch: int, epochs: int) -> bool:
        return epoch >= self.settings.held_out_until * epochs

    def global_tau(self, view: EpochView) -> float:
        o = self.settings
        if view.held_out is None:
            if view.epoch == 0:
                getLogger().warning(
                    f"tau_strategy = {self.name}: too few training positives to hold some out; tau_0 is computed by "
                    "the closed form of adaptive."
                )
            return super().global_tau(view)
        if view.epoch == 0:
            tau_0 = global_tau(o.tau_startup_gap, view.log_ratio_left, o.tau_min, o.tau_max)
            self.calibrated[0] = tau_0
            return tau_0
        if view.held_out.returned:
            return self.tau_0.item()
        found = calibration(
            view.embeddings,
            (view.held_out.users, view.held_out.items),
            view.mean_positive(view.held_out.users),
            view.item_logits,
            start=self.calibrated[0].item(),
            steps=2 if view.epoch < 4 else 1,  # once scores change slowly, a step an epoch is enough
        )
        self.calibrated.copy_(torch.tensor(found))
        return min(max(math.sqrt(self.tau_0.item() * found.advised), o.tau_min), o.tau_max)

    def describe(self) -> str:
        found = Calibration(*self.calibrated.tolist())
        return f"{super().describe()}, held-out positives calibrated at {found.new:.4f}, margin {found.margin:.3f}"


@register_strategy("calibrated_user")
class CalibratedUserTau(CalibratedTau, AdaptiveUserTau):
    """`calibrated_user`: that tau_0, and each user's own around it from losses that held-out positives confirm.

    tau_u is the closed form of `adaptive_user` at m + rho (L(u) − m), m the mean of the users' losses L(u). rho is the
    slope, within 0 and 1, of held-out losses regressed on training losses of the same users: what a model knows by
    heart does not set temperatures.
    """

    class Settings(AdaptiveUserTau.Settings, _HeldOutSettings):
        pass

    transfer: Tensor

    def __init__(self, n_users: int, embedding_size: int, settings: Any = None):
        super().__init__(n_users, embedding_size, settings)
        self.register_buffer("transfer", torch.tensor(1.0, dtype=torch.float64))

    def user_losses(self, view: EpochView, tau: float) -> Tensor:
        losses = super().user_losses(view, tau)
        if view.held_out is None:
            return losses
        if not view.held_out.returned:
            self.transfer.fill_(_transfer(view, losses, tau))
        return losses.mean() + self.transfer * (losses - losses.mean())

    def describe(self) -> str:
        return f"{super().describe()}, rho = {self.transfer.item():.3f}"


@torch.no_grad()
def _transfer(view: EpochView, losses: Tensor, tau: float) -> float:
    """rho, from the users' training losses at tau. Shape: losses [active users]."""
    assert view.held_out is not None
    users, items = view.embeddings
    who, what = view.held_out.users, view.held_out.items
    by_user = losses.new_zeros(len(users))
    by_user[view.interactions.active_users] = losses
    held_out = by_user[who] + (view.mean_positive(who) - (users[who] * items[what]).sum(1)) / tau
    return transfer_slope(by_user[who], held_out)
