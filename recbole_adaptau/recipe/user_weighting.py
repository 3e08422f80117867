"""Users with many positives count for less than their number says, in the loss and in mu+."""

from typing import Any

from torch import Tensor

from ..core.interactions import Interactions
from ..core.settings import SettingsModel, setting
from .base import RecipePart, register_part


@register_part("user_weighting")
class UserWeighting(RecipePart):
    """`user_weighting`: a positive of a user with c of them counts c ** -balance, scaled to a mean of 1."""

    meaning = "a positive counts (its user's number of positives) ** -balance, in the loss and in mu+"

    class Settings(SettingsModel):
        loss_user_balance: float = setting(
            0.25, "The power in the loss: 0 all positives alike, 1 all users.", ge=0.0, le=10.0
        )
        tau_user_balance: float = setting(0.5, "The power in mu+: 0 all positives alike, 1 all users.", ge=0.0, le=10.0)

    in_loss: Tensor
    in_mean: Tensor

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(interactions, settings)
        for name, balance in (
            ("in_loss", self.settings.loss_user_balance),
            ("in_mean", self.settings.tau_user_balance),
        ):
            self.register_buffer(name, interactions.user_weights(balance), persistent=False)

    def row_weights(self) -> Tensor:
        return self.in_loss

    def positive_weights(self) -> Tensor:
        return self.in_mean
