"""The vectors whose inner products are a model's scores, for our models and RecBole's, and what ours add to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.losses import unit_rows
from ..errors import OptionError
from ..model import AdapTauRecommender
from ..recipe.item_regression import ItemNeighbours
from ..training.evaluation import ScoreBuffer

CHECKED_USERS = 8


@dataclass(frozen=True)
class NeighbourPart:
    """What is added to the inner products: `scales[u]` times h(u, i) of the neighbours.

    Attributes:
        neighbours: Gives h.
        scales: [n_users].
        new_scale: The scale of somebody the model was not trained on.
    """

    neighbours: ItemNeighbours
    scales: Tensor
    new_scale: float


@dataclass(frozen=True)
class Embeddings:
    """score(u, i) = users[u] · items[i], plus what the item's neighbours say; row 0 is RecBole's padding in both.

    Attributes:
        users: [n_users, d].
        items: [n_items, d].
        has_prior: Whether the last column is the popularity prior's: 1 for users, log(1 + count) for items.
        user_length: How long a user's vector is (without that column) for somebody the model was not trained on.
        added: The other part of the scores, or None where they are the inner products alone.
    """

    users: Tensor
    items: Tensor
    has_prior: bool
    user_length: float
    added: NeighbourPart | None = None

    @property
    def item_directions(self) -> Tensor:
        """Unit vectors of what the items are like, popularity left out. Shape: [n_items, d] or [n_items, d - 1]."""
        return unit_rows(self.items[:, :-1] if self.has_prior else self.items)

    def scores_for(self, liked: Tensor) -> Tensor:
        """The scores of all items for a user known only by the items they like. Shape: item ids [L] → [n_items]."""
        scores = self.items @ self.fold_in(liked)
        if self.added is not None:
            scores = scores + self.added.new_scale * self.added.neighbours.of_liked(liked)
        return scores

    def fold_in(self, liked: Tensor) -> Tensor:
        """A user known only by the items they like, as one more row of `users`.

        The direction is the mean of the liked items' unit vectors. The length is a trained user's at tau_0, the
        temperature of users without a training positive, so that taste and popularity weigh as they do for others.

        Shape: item ids [L] → [d].
        """
        mean = self.item_directions[liked].mean(0, keepdim=True)
        user = unit_rows(mean).squeeze(0) * self.user_length
        return torch.cat([user, user.new_ones(1)]) if self.has_prior else user


@torch.no_grad()
def embeddings_of(model: Any, active_users: Tensor) -> Embeddings:
    """The embeddings behind the scores of a model, ours or RecBole's.

    Args:
        model: A trained model.
        active_users: Ids of users with interactions.

    Raises:
        OptionError: the model's scores are no inner products of embeddings that it keeps.
    """
    if isinstance(model, AdapTauRecommender):
        users, items = model.test_embeddings()
        # The rows are e_u / tau_u with the prior, e_u without; somebody new has tau_0.
        tau, tau_0, rows = torch.ones(()).to(users), 1.0, users[active_users]
        if model.prior is not None:
            tau, tau_0, rows = model.user_temperatures()[active_users], model.strategy.tau_0.item(), rows[:, :-1]
        length = (rows.norm(dim=1) * tau).mean().item() / tau_0
        added = None
        if model.neighbours is not None:
            new_scale = model.options.neighbour_weight / tau_0
            added = NeighbourPart(model.neighbours, model.neighbour_scales(), new_scale)
        return Embeddings(users, items, model.prior is not None, length, added)
    some = active_users[:CHECKED_USERS]
    scores = ScoreBuffer().scores(model, some, None)
    for users, items in _kept(model):
        product = users[some] @ items.T
        # The padding's scores are -inf by now.
        if product.shape == scores.shape and torch.allclose(product[:, 1:], scores[:, 1:], rtol=1e-4, atol=1e-5):
            return Embeddings(users, items, False, users[active_users].norm(dim=1).mean().item())
    raise OptionError(
        f"the scores of {type(model).__name__} are not inner products of user and item embeddings that it keeps, so "
        "there is nothing to export or to fold a new user into. Recommendations for its own users work."
    )


def _kept(model: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Where RecBole's models keep embeddings: propagated ones as restore_*, tables as *_embedding."""
    for names in (("restore_user_e", "restore_item_e"), ("user_embedding", "item_embedding")):
        users, items = (_table(getattr(model, name, None)) for name in names)
        if users is not None and items is not None:
            yield users, items


def _table(kept: Any) -> Tensor | None:
    """A matrix, or the weights of an embedding layer."""
    weights = getattr(kept, "weight", kept)
    return weights.detach() if isinstance(weights, Tensor) and weights.dim() == 2 else None
