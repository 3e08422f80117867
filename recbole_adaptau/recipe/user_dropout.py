"""Dropout that falls with what is known of a user."""

from typing import Any

import torch
from torch import Tensor

from ..core.interactions import Interactions
from ..core.settings import SettingsModel, setting
from .base import RecipePart, register_part

# A draw has this many values.
VALUES = 2**16


@register_part("user_dropout")
class UserDropout(RecipePart):
    """`user_dropout`: dropout of c / (c + number of positives) on a user's embedding."""

    meaning = "dropout of c / (c + positives) on a user's embedding"

    class Settings(SettingsModel):
        user_dropout_count: float = setting(3.0, "c, in numbers of positives.", gt=0.0, le=1e6)

    steps: Tensor

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(interactions, settings)
        count = self.settings.user_dropout_count
        share = count / (count + interactions.user_counts.clamp_min(1).double())
        self.register_buffer("steps", (share * VALUES).round().clamp_max(VALUES - 1), persistent=False)

    def drop(self, embeddings: Tensor, users: Tensor) -> Tensor:
        rows, width = embeddings.shape
        steps = self.steps[users].unsqueeze(1)
        # Four draws of 16 bits from each number: a draw for every entry would be a tenth of AdapTauMF's epoch.
        numbers = torch.empty(rows, -(-width // 4), dtype=torch.int64, device=embeddings.device).random_(-(2**63), None)
        kept = numbers.view(torch.int16)[:, :width] >= (steps - VALUES // 2).to(torch.int16)
        return embeddings * (kept * (VALUES / (VALUES - steps)).to(embeddings.dtype))
