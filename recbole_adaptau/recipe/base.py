"""What a part of a recipe can add to the paper's method. The model loops over its parts and knows none by name."""

from abc import ABC, abstractmethod
from typing import Any

import scipy.sparse as sp
from torch import Tensor

from ..core.calibration import HeldOut
from ..core.component import Component, Registry
from ..core.epoch_view import EpochView
from ..core.interactions import Interactions


class PairScores(ABC):
    """Scores of user-item pairs that are linear in a user's training items: h(u, i) = Σ_j W[i, j] over its items j.

    Attributes:
        weights: W, [n_items, n_items], float32.
    """

    weights: sp.csr_array

    @abstractmethod
    def add_to(self, scores: Tensor, users: Tensor, scales: Tensor) -> None:
        """Add h of some users, times a scale of each, to their scores of all items, in place.

        Shape: scores [B, n_items], user ids [B], scales [B].
        """

    @abstractmethod
    def of_pairs(self, users: Tensor, items: Tensor) -> Tensor:
        """Shape: user ids [B], item ids [B] → [B]."""


class RecipePart(Component):
    """The contract. Every hook is optional: a part overrides those it needs.

    Args:
        interactions: The training positives.
        settings: Of the class's own `Settings`; None for the defaults.

    Attributes:
        held_out: Positives that `interactions` lacks, if the temperature strategy holds any out; the model sets it.
    """

    held_out: HeldOut | None
    meaning = ""  # one line: what the part adds to the paper's method
    needs_own_tables = False  # whether it is for models that make their embedding tables themselves

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(settings)
        self.interactions, self.held_out = interactions, None

    def start(self, users: Tensor, items: Tensor) -> None:
        """Change the tables' random start, in place. Shape: users [n_users, d], items [n_items, d]."""

    def calibrate(self, view: EpochView, tau_0: float) -> None:
        """When an epoch begins and tau_0 is known: set from positives held out (`view.held_out`) what it can."""

    def drop(self, embeddings: Tensor, users: Tensor) -> Tensor:
        """Dropout on a batch's user embeddings while training. Shape: embeddings [B, d], user ids [B] → [B, d]."""
        return embeddings

    def item_logits(self) -> Tensor | None:
        """[n_items] what is added to every logit of an item, in training and in ranking."""
        return None

    def row_weights(self) -> Tensor | None:
        """[n_users] what each of a user's rows counts in the loss."""
        return None

    def positive_weights(self) -> Tensor | None:
        """[n_users] what each of a user's positives counts in mu+."""
        return None

    def pair_scores(self) -> tuple[float, PairScores] | None:
        """A weight w and scores h: ranking adds w · h(u, i) to f(u, i), at the same temperature."""
        return None


PARTS: Registry[type[RecipePart]] = Registry("recipe")
register_part = PARTS.register
