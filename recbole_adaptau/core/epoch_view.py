"""What a temperature strategy may look at when an epoch begins, computed only when asked for."""

import math
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from .calibration import HeldOut
from .closed_form import all_pair_moments, expected_gradient, log_odds, positive_moments, positive_sums
from .interactions import Interactions
from .logsumexp import candidate_logsumexp

# Users whose softmax over all items is computed for the logged gradient magnitude: spread evenly over the
# active users, so that the figure needs no random number and costs the same on every dataset.
GRADIENT_USERS = 32
# Items drawn anew each epoch to stand for the catalogue in the users' losses. All users meet the same ones, so that
# the draw moves everybody's loss alike.
LOSS_ITEMS = 256
# Users whose losses are computed at once: with LOSS_ITEMS scores each, as many scores as a batch of training has.
LOSS_USERS = 8192
# Rows added up in float32, the parts' sums in float64.
SUM_ROWS = 2048


class EpochView:
    """The state of the model at the start of an epoch, without gradients.

    Users without a training positive and the padding count nowhere; items without one stand in the softmax and
    so do count.

    Args:
        epoch: The epoch about to begin, from 0.
        embeddings: Gives (users [n_users, d], items [n_items, d]) as they are scored in training.
        interactions: The training positives.
        min_user_count: Only users with more positives than this count for n, |D|, mu, mu+ and the variances.
        item_logits: [n_items] what is added to an item's logits beside f / tau, if anything.
        positive_weights: [n_users] what each of a user's positives counts in mu+; None for 1.
        held_out: Positives that are not trained on, if the strategy asked for any.
    """

    def __init__(
        self,
        epoch: int,
        embeddings: Callable[[], tuple[Tensor, Tensor]],
        interactions: Interactions,
        min_user_count: float = 0,
        item_logits: Tensor | None = None,
        positive_weights: Tensor | None = None,
        held_out: HeldOut | None = None,
    ):
        self.epoch = epoch
        self.interactions = interactions
        self.min_user_count = min_user_count
        self.item_logits = item_logits
        self.positive_weights = positive_weights
        self.held_out = held_out
        self._embeddings = embeddings

    @cached_property
    def embeddings(self) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            users, items = self._embeddings()
        return users.detach().float(), items.detach().float()

    @cached_property
    def log_ratio(self) -> float:
        """log(nm / 2|D|), n and D of the users that count."""
        counts = self.interactions.user_counts[self._counted_users]
        return log_odds(len(counts), self.interactions.n_real_items, int(counts.sum()))

    @cached_property
    def added_gap(self) -> float:
        """The difference of the mean added logit over the training positives and over the catalogue."""
        if self.item_logits is None:
            return 0.0
        counts, added = self.interactions.item_counts, self.item_logits.double()
        return ((counts * added).sum() / counts.sum() - added[1:].mean()).item()

    @property
    def log_ratio_left(self) -> float:
        """What of log(nm / 2|D|) is left to the scores where something is added to the logits.

        A positive's logit is f / tau + added, so that (mu+ − mu) / tau + added_gap takes the place of (mu+ − mu) / tau
        in the closed form. What is added counts for half at most: on small dense data it would leave nothing.
        """
        return max(self.log_ratio - self.added_gap, self.log_ratio / 2)

    @cached_property
    def positive_sums(self) -> Tensor:
        """[n_users] each user's sum of scores over its training positives."""
        users, items = self.embeddings
        return positive_sums(users, items, self.interactions.indptr, self.interactions.items)

    def mean_positive(self, users: Tensor) -> Tensor:
        """The mean score of each user's training positives. Shape: user ids [B] → [B], float64."""
        return self.positive_sums[users] / self.interactions.user_counts[users]

    @cached_property
    def gap(self) -> float:
        """mu+ − mu, the difference of the mean scores over the training positives and over all pairs."""
        users, items = self.embeddings
        counted = self._counted_users
        inside = (self.interactions.user_counts > self.min_user_count).float()
        mu = _sum_rows(users, inside) / len(counted) @ (_sum_rows(items[1:]) / (len(items) - 1))
        sums, counts = self.positive_sums[counted], self.interactions.user_counts[counted]
        if self.positive_weights is not None:
            weights = self.positive_weights[counted].double()
            sums, counts = weights * sums, weights * counts
        return (sums.sum() / counts.sum() - mu).item()

    @torch.no_grad()
    def user_losses(self, tau: float) -> Tensor:
        """L(u): the mean softmax loss over a user's positives against the catalogue, at one temperature for all.

        log Σ_j exp(f(u, j) / tau) over all m items, estimated from `LOSS_ITEMS` of them, minus the mean of
        f(u, i) / tau over the user's positives. Shape: [active users], float64.
        """
        users, items = self.embeddings
        active, number = self.interactions.active_users, len(items) - 1
        drawn = torch.randperm(number, device=items.device)[:LOSS_ITEMS] + 1
        candidates = items[drawn]
        largest = (users.norm(dim=1).max() * candidates.norm(dim=1).max()).item() / tau
        sums = [
            candidate_logsumexp(users[part], candidates, users.new_full(part.shape, tau), max_logit=largest)
            for part in active.split(LOSS_USERS)
        ]
        return torch.cat(sums).double() + math.log(number / len(drawn)) - self.mean_positive(active) / tau

    @cached_property
    def variance_gap(self) -> float:
        """sigma+² − sigma², likewise of the variances."""
        users, items = self.embeddings
        data = self.interactions
        counted = data.user_counts[data.users] > self.min_user_count
        _, positive = positive_moments(users, items, data.users[counted], data.items[counted])
        _, everything = all_pair_moments(users[self._counted_users], items[1:])
        return positive - everything

    @torch.no_grad()
    def gradient_magnitude(self, tau: Callable[[Tensor, Tensor], Tensor]) -> float:
        """The paper's expected |dL/df| at the given temperatures, averaged over evenly spread users.

        Args:
            tau: (user ids [B], their embeddings [B, d]) → temperatures [B].
        """
        active = self.interactions.active_users
        places = torch.linspace(0, len(active) - 1, min(GRADIENT_USERS, len(active)), device=active.device)
        chosen = active[places.long()]
        temperatures = tau(chosen, self.embeddings[0][chosen])
        mass = self.positive_mass(chosen, temperatures)
        return expected_gradient(mass, temperatures, self.interactions.n_real_items).mean().item()

    @torch.no_grad()
    def positive_mass(self, chosen: Tensor, temperatures: Tensor) -> Tensor:
        """The share of the softmax over all items that each user's training positives hold.

        Shape: user ids [B], temperatures [B] → [B].
        """
        users, items = self.embeddings
        added = items.new_zeros(len(items)) if self.item_logits is None else self.item_logits.to(items)
        everything = candidate_logsumexp(users[chosen], items[1:], temperatures, added[1:])
        rows, positives = self.interactions.positives_of(chosen)
        scores = (users[chosen[rows]] * items[positives]).sum(1)
        shares = torch.exp(scores / temperatures[rows] + added[positives] - everything[rows])
        # At most 1, whatever the rounding of scores without bound (nothing normalised) makes of the difference.
        return torch.zeros_like(temperatures).index_add(0, rows, shares).clamp_max(1.0)

    @cached_property
    def _counted_users(self) -> Tensor:
        data = self.interactions
        return torch.nonzero(data.user_counts > self.min_user_count).squeeze(1)


def _sum_rows(table: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ w_r row_r in float64, added up in float32 within parts alone. Shape: table [n, d], weights [n] → [d]."""
    weights = table.new_ones(len(table)) if weights is None else weights
    parts = zip(weights.split(SUM_ROWS), table.split(SUM_ROWS), strict=True)
    return torch.stack([w @ rows for w, rows in parts]).sum(0, dtype=torch.float64)
