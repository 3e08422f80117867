"""What a temperature strategy may look at when an epoch begins, computed only when asked for."""

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from ..interactions import Interactions
from .closed_form import all_pair_moments, expected_gradient, log_odds, positive_moments

# Users whose softmax over all items is computed for the logged gradient magnitude: spread evenly over the
# active users, so that the figure needs no random number and costs the same on every dataset.
GRADIENT_USERS = 256


class EpochView:
    """The state of the model at the start of an epoch, without gradients.

    Users without a training positive and the padding count nowhere; items without one stand in the softmax and
    so do count.

    Args:
        epoch: The epoch about to begin, from 0.
        embeddings: Gives (users [n_users, d], items [n_items, d]) as they are scored in training.
        interactions: The training positives.
        min_user_count: Only users with more positives than this count for mu, mu+ and the variances.
    """

    def __init__(
        self,
        epoch: int,
        embeddings: Callable[[], tuple[Tensor, Tensor]],
        interactions: Interactions,
        min_user_count: float = 0,
    ):
        self.epoch = epoch
        self.interactions = interactions
        self.min_user_count = min_user_count
        self._embeddings = embeddings

    @cached_property
    def embeddings(self) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            users, items = self._embeddings()
        return users.detach().float(), items.detach().float()

    @cached_property
    def log_ratio(self) -> float:
        """log(nm / 2|D|)."""
        data = self.interactions
        return log_odds(data.n_active_users, data.n_real_items, len(data))

    @cached_property
    def all_moments(self) -> tuple[float, float]:
        """mu and sigma² over all pairs."""
        users, items = self.embeddings
        return all_pair_moments(users[self._counted_users], items[1:])

    @cached_property
    def positive_moments(self) -> tuple[float, float]:
        """mu+ and sigma+² over the training positives."""
        data = self.interactions
        pair_users, pair_items = data.users, data.items
        if self.min_user_count > 0:
            counted = data.user_counts[pair_users] > self.min_user_count
            pair_users, pair_items = pair_users[counted], pair_items[counted]
        return positive_moments(*self.embeddings, pair_users, pair_items)

    @property
    def gap(self) -> float:
        """mu+ − mu."""
        return self.positive_moments[0] - self.all_moments[0]

    @property
    def variance_gap(self) -> float:
        """sigma+² − sigma²."""
        return self.positive_moments[1] - self.all_moments[1]

    def gradient_magnitude(self, tau: Callable[[Tensor, Tensor], Tensor]) -> float:
        """The paper's expected |dL/df| at the given temperatures, averaged over evenly spread users.

        Args:
            tau: (user ids [B], their embeddings [B, d]) → temperatures [B].
        """
        active = self.interactions.active_users
        step = max(len(active) // GRADIENT_USERS, 1)
        chosen = active[::step][:GRADIENT_USERS]
        users, items = self.embeddings
        with torch.no_grad():
            scores = users[chosen] @ items[1:].T
            positive = self.interactions.positive_mask(chosen)[:, 1:]
            return expected_gradient(scores, positive, tau(chosen, users[chosen])).mean().item()

    @cached_property
    def _counted_users(self) -> Tensor:
        data = self.interactions
        return torch.nonzero(data.user_counts > self.min_user_count).squeeze(1)
