"""Adap-tau on any RecBole general recommender that yields user and item embeddings; the base model is not copied."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import AutoEncoderMixin
from recbole.model.init import xavier_uniform_initialization
from recbole.utils import ModelType
from torch import Tensor, nn

from ..errors import OptionError
from .base import AdapTauRecommender, evaluating

# How many users and items the base model's own scores are compared for.
_SAMPLE = 16


class Adapted(AdapTauRecommender):
    """A base model inside ours: its embeddings, dropout, graphs and auxiliary losses; our ranking loss and scores.

    The embeddings are, in this order, what the base's `encode()` returns, if its class has one; the first two results
    of its `forward()`, if that needs no argument; its tables `user_embedding` and `item_embedding`. In the last two
    cases its own scores must be products of them, or the base would silently become another model.

    The base is built from the whole training data. Positives that a strategy holds out are not in the batches, but they
    are edges of a graph that the base makes, so that a temperature measured on them is somewhat low.
    """

    base_class: type
    base_name: str  # by which RecBole knows the base's properties and trainer; for a class derived from its model, that
    tables = ("user_embedding", "item_embedding")
    makes_tables = False

    def build(self, config: Any, dataset: Any) -> None:
        name = self.base_class.__name__
        # Some bases put their graph on the device at once and their tables only later.
        self.base = self.base_class(config, dataset).to(config["device"])
        with torch.no_grad():
            users, items = self._evaluated()
            if _own(self.base, "encode") is None and not self._scores_are_products(users, items):
                raise OptionError(
                    f"{name} cannot be adapted: its scores are not products of its user and item embeddings, so "
                    "ranking by those would be another model. A class of yours can say with a method encode() which "
                    "embeddings to rank by."
                )
        self.make_strategy(config, users.shape[1])
        self.strategy.apply(xavier_uniform_initialization)
        self.strategy.reset_parameters()
        if self.settings.reg_weight > 0 and self._ego_tables() is None:
            raise OptionError(
                f"reg_weight = {self.settings.reg_weight} is on the tables {' and '.join(self.tables)}, which {name} "
                "does not have: leave reg_weight out."
            )

    def encode(self) -> tuple[Tensor, Tensor]:
        found: Any = None
        own = _own(self.base, "encode")
        if own is not None:
            found = own()
        elif _needs_nothing(self.base.forward):
            found = self.base.forward()
        elif self._ego_tables() is not None:
            found = tuple(table.weight for table in self._ego_tables() or ())
        return self._embeddings(found)

    def auxiliary_losses(self, users: Tensor, positives: Tensor) -> tuple[Tensor, ...]:
        own = _own(self.base, "auxiliary_losses")
        return () if own is None else tuple(own(users, positives))

    def ego_embeddings(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        tables = self._ego_tables()
        assert tables is not None  # `build` has refused reg_weight without them
        return tables[0](users), tables[1](items)

    def _ego_tables(self) -> tuple[nn.Embedding, nn.Embedding] | None:
        user, item = (getattr(self.base, name, None) for name in self.tables)
        return (user, item) if isinstance(user, nn.Embedding) and isinstance(item, nn.Embedding) else None

    def _embeddings(self, found: Any) -> tuple[Tensor, Tensor]:
        """The first two of what the base gave, if they are the embeddings of all users and all items."""
        pair = tuple(found[:2]) if isinstance(found, Sequence) else ()
        rows = [len(part) for part in pair if isinstance(part, Tensor) and part.dim() == 2]
        if rows != [self.n_users, self.n_items] or pair[0].shape[1] != pair[1].shape[1]:
            raise OptionError(
                f"{self.base_class.__name__} cannot be adapted: it yields no embeddings of all users and all items "
                f"([{self.n_users}, d] and [{self.n_items}, d]), neither by encode(), nor by forward() without "
                f"arguments, nor as tables {' and '.join(self.tables)}. A class of yours can have a method encode() "
                "that returns them."
            )
        return pair[0], pair[1]

    def _scores_are_products(self, users: Tensor, items: Tensor) -> bool:
        """Whether the base, too, scores by inner products (or their sigmoid), or by cosines."""
        u = torch.arange(1, min(_SAMPLE, self.n_users), device=users.device)
        i = torch.arange(1, min(_SAMPLE, self.n_items), device=users.device)
        pairs = torch.cartesian_prod(u, i)
        kept = self.base.other_parameter()  # some bases keep the embeddings they predicted from
        with evaluating(self.base):
            theirs = self.base.predict(Interaction({self.USER_ID: pairs[:, 0], self.ITEM_ID: pairs[:, 1]})).flatten()
        self.base.load_other_parameter(kept)
        u, i = users[pairs[:, 0]].double(), items[pairs[:, 1]].double()
        inner = (u * i).sum(1)
        return any(
            _vary_alike(theirs.double(), ours) for ours in (inner, torch.sigmoid(inner), F.cosine_similarity(u, i))
        )


def _vary_alike(a: Tensor, b: Tensor) -> bool:
    """Whether two lists of scores differ by no more than a constant; a level of 0.5 must not hide the differences."""
    a, b = a - a.mean(), b - b.mean()
    return bool((a - b).norm() < 0.02 * b.norm())


def adapted_class(base: type, kinds: dict[str, type[Adapted]], name: str | None = None) -> type[Adapted]:
    """The class that `adapt` makes known; `kinds` are the models, by name, that need more than is general."""
    refuse_unfit(base)
    kind = next((kinds[parent.__name__] for parent in base.__mro__ if parent.__name__ in kinds), Adapted)
    theirs = (parent.__name__ for parent in base.__mro__ if parent.__module__.startswith("recbole.model."))
    document = f"Adap-tau on {base.__module__}.{base.__name__}."
    return type(
        name or f"AdapTau{base.__name__}",
        (kind,),
        {
            "base_class": base,
            "base_name": next(theirs, base.__name__),
            "__module__": __name__,
            "__doc__": document,
        },
    )


def refuse_unfit(base: Any) -> None:
    """Raise for a class of which it is plain, before it is built, that it cannot be adapted, and say why."""
    name = getattr(base, "__name__", repr(base))
    reason, kind = None, getattr(base, "type", None)
    if not isinstance(base, type) or not isinstance(kind, ModelType):
        reason = "it is not a model class of RecBole's kind"
    elif issubclass(base, AdapTauRecommender):
        reason = "it is an Adap-tau model already"
    elif issubclass(base, AutoEncoderMixin):
        reason = "it is an autoencoder, which reads a user's whole row of items and has no embeddings to compare"
    elif kind != ModelType.GENERAL:
        reason = (
            f"it is a {kind.name.lower()} recommender, and the method is for general ones: embeddings of all users and "
            "items"
        )
    elif any(parent.__name__ == "LINE" for parent in base.__mro__):
        reason = "its second-order loss, which trains its context tables, needs sampled negatives of its own"
    if reason:
        raise OptionError(f"{name} cannot be adapted: {reason}.")


def _own(base: nn.Module, method: str) -> Any:
    """A method that the base's own class may define, or None."""
    return getattr(base, method, None) if callable(getattr(type(base), method, None)) else None


def _needs_nothing(function: Any) -> bool:
    return all(
        parameter.default is not parameter.empty for parameter in inspect.signature(function).parameters.values()
    )
