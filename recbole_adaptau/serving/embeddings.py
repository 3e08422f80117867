"""The vectors whose inner products are a model's scores, for our models and RecBole's, and what ours add to them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from ..core.cosine import unit_rows
from ..errors import OptionError
from ..model import AdapTauRecommender
from ..recipe import PairScores
from ..training.evaluation import ScoreBuffer

CHECKED_USERS = 8


@dataclass(frozen=True)
class AddedScores:
    """What is added to the inner products: `scales[u]` times h(u, i).

    Attributes:
        pairs: Gives h.
        scales: [n_users].
        new_scale: The scale of a user the model was not trained on.
    """

    pairs: PairScores
    scales: Tensor
    new_scale: float


@dataclass(frozen=True)
class Embeddings:
    """score(u, i) = users[u] · items[i], plus what a recipe adds; row 0 is RecBole's padding in both.

    Attributes:
        users: [n_users, d].
        items: [n_items, d].
        has_bias: Whether the last column is a logit of the item alone (popularity): 1 for users.
        user_length: How long a user's vector is (without that column) for somebody the model was not trained on.
        added: The other parts of the scores; empty where they are the inner products alone.
    """

    users: Tensor
    items: Tensor
    has_bias: bool
    user_length: float
    added: tuple[AddedScores, ...] = ()

    @cached_property
    def item_directions(self) -> Tensor:
        """Unit vectors of what the items are like, popularity left out. Shape: [n_items, d] or [n_items, d - 1]."""
        return unit_rows(self.items[:, :-1] if self.has_bias else self.items)

    @cached_property
    def user_directions(self) -> Tensor:
        """Unit vectors of the users' tastes. Shape: [n_users, d] or [n_users, d - 1]."""
        return unit_rows(self.users[:, :-1] if self.has_bias else self.users)

    @cached_property
    def item_weights(self) -> tuple[Tensor, sp.csr_array] | None:
        """All that is added as one: scales s [n_users] and W [n_items, n_items], as s[u] Σ_j W[i, j] over u's items."""
        if not self.added:
            return None
        first = self.added[0]
        weights = [part.new_scale / first.new_scale * part.pairs.weights for part in self.added]
        return first.scales, sum(weights[1:], weights[0]).tocsr()

    def scores_for(self, liked: sp.csr_array) -> Tensor:
        """The scores of all items for users known only by the items they like, 1 each; [B, n_items] → [B, n_items]."""
        scores = self.fold_in(liked) @ self.items.T
        for part in self.added:
            found = (liked @ part.pairs.weights.T).toarray()
            scores += part.new_scale * torch.from_numpy(found).to(scores)
        return scores

    def fold_in(self, liked: sp.csr_array) -> Tensor:
        """Users known only by the items they like, as further rows of `users`.

        The direction is the mean of the liked items' unit vectors. The length is a trained user's at tau_0, the
        temperature of users without a training positive, so that taste and popularity weigh as they do for others.

        Shape: [B, n_items] → [B, d].
        """
        means = torch.from_numpy(liked @ self.item_directions.cpu().numpy()).to(self.items)
        users = unit_rows(means) * self.user_length
        return torch.cat([users, torch.ones_like(users[:, :1])], dim=1) if self.has_bias else users


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
        # With logits of items the rows are e_u / tau_u, without e_u; a new user has tau_0.
        scales, has_bias = model.pair_scales(), items.shape[1] > model.encode()[1].shape[1]
        rows = users[active_users, :-1] if has_bias else users[active_users]
        new_scale = 1.0 / model.strategy.tau_0.item() if has_bias else 1.0
        length = (rows.norm(dim=1) / scales[active_users]).mean().item() * new_scale
        users, items, scales = map(_exact, (users, items, scales))
        added = [AddedScores(pairs, weight * scales, weight * new_scale) for weight, pairs in model.pair_scores()]
        return Embeddings(users, items, has_bias, length, tuple(added))
    some = active_users[:CHECKED_USERS]
    scores = ScoreBuffer().scores(model, some, None)
    for users, items in _kept(model):
        product = users[some] @ items.T
        # The padding's scores are -inf by now.
        if product.shape == scores.shape and torch.allclose(product[:, 1:], scores[:, 1:], rtol=1e-4, atol=1e-5):
            users, items = _exact(users), _exact(items)
            return Embeddings(users, items, False, users[active_users].norm(dim=1).mean().item())
    raise OptionError(
        f"the scores of {type(model).__name__} are not inner products of user and item embeddings that it keeps, so "
        "there is nothing to export or to fold a new user into. Recommendations for its own users work."
    )


def _exact(numbers: Tensor) -> Tensor:
    """At least in float32: half precision makes equal scores of different ones, and NumPy has no bfloat16."""
    return numbers if numbers.dtype == torch.float64 else numbers.float()


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
