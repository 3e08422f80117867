"""The scores of all items for some users, from any number of threads."""

from copy import copy
from threading import Lock
from typing import Any

import scipy.sparse as sp
import torch
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.utils import ModelType
from torch import Tensor

from ..core.interactions import Interactions
from ..errors import OptionError
from .embeddings import Embeddings, embeddings_of


class Scorer:
    """A trained model's scores.

    Where they are inner products of embeddings, these are computed once and only read from then on. Other models are
    asked one thread at a time.
    """

    def __init__(self, model: Any, active_users: Tensor):
        refuse_what_cannot_rank(type(model))
        self.model, self._lock = model.eval(), Lock()
        self.n_users, self.n_items = model.n_users, model.n_items
        self.device = next(model.parameters(), torch.empty(0)).device
        self._embeddings: Embeddings | None = None
        self._why_none = ""
        # What is kept here outlives whoever asks, who may be inside torch.inference_mode.
        with torch.inference_mode(False), torch.no_grad():
            try:
                self._embeddings = embeddings_of(model, active_users.to(self.device))
            except OptionError as error:
                self._why_none = str(error)

    @property
    def embeddings(self) -> Embeddings:
        """The vectors whose inner products are the scores, and what is added to them."""
        if self._embeddings is None:
            raise OptionError(self._why_none)
        return self._embeddings

    def for_new_users(self) -> "Scorer":
        """The same, with nobody whom the model was trained on."""
        made = copy(self)
        made.n_users = 1
        return made

    def memory(self, users: int) -> Tensor | None:
        """For the scores of so many users; None where the model brings its own."""
        kept = self._embeddings
        return None if kept is None else kept.items.new_empty(users * self.n_items)

    @torch.inference_mode()
    def scores(self, users: Tensor, seen: Interactions, memory: Tensor | None = None) -> Tensor:
        """Of users by place; those whom the model was not trained on are folded in from what they have seen.

        Args:
            memory: What `memory` gave: fresh pages cost as much as the product itself.

        Shape: users [B] → [B, n_items].
        """
        new = users >= self.n_users
        if not new.any():
            return self._of_trained(users, memory)
        found = self.embeddings.scores_for(histories(seen, users[new]))
        if new.all():
            return found
        scores = found.new_empty((len(users), self.n_items))
        scores[new], scores[~new] = found, self._of_trained(users[~new], None)
        return scores

    def _of_trained(self, users: Tensor, memory: Tensor | None) -> Tensor:
        kept = self._embeddings
        if kept is None:
            with self._lock:
                found = self.model.full_sort_predict(Interaction({self.model.USER_ID: users}))
                return found.view(len(users), self.n_items).clone()
        size = len(users) * self.n_items
        out = None if memory is None else memory[:size].view(len(users), self.n_items)
        scores = torch.mm(kept.users[users], kept.items.T, out=out)
        for part in kept.added:
            part.pairs.add_to(scores, users, part.scales[users])
        return scores


def histories(seen: Interactions, users: Tensor) -> sp.csr_array:
    """The items of some users as rows of 0 and 1. Shape: users [B] → [B, n_items]."""
    rows, items = (part.cpu().numpy() for part in seen.positives_of(users))
    ones = torch.ones(len(rows)).numpy()
    return sp.csr_array((ones, (rows, items)), (len(users), seen.n_items))


def refuse_what_cannot_rank(model: Any) -> None:
    """Refuse a class of models whose recommendations would need more than a user's id."""
    name = model.__name__
    if getattr(model, "type", None) in (ModelType.SEQUENTIAL, ModelType.CONTEXT):
        raise OptionError(
            f"{name} is a {model.type.name.lower()} model, which needs more than a user's id to rank items; "
            "recommendations are for models that rank by user alone."
        )
    if getattr(model, "full_sort_predict", None) is AbstractRecommender.full_sort_predict:
        raise OptionError(f"{name} has no full_sort_predict: it cannot rank all items at once.")
