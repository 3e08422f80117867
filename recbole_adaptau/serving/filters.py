"""Which items may be recommended to whom."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.interactions import Interactions
from .ids import Ids, id_list, pair_lists

FILTERS = ("allow", "deny", "exclude", "candidates")
Report = Callable[[str, list[str]], None]


@dataclass(frozen=True)
class Filters:
    """What to leave out of the ranking, by places.

    Attributes:
        seen: What each user has seen; None to rank that, too.
        blocked: [n_items] items that nobody is recommended; None for none.
        excluded: Further items of single users.
        candidates: The only items of each user; a user without any is recommended nothing.
    """

    seen: Interactions | None = None
    blocked: Tensor | None = None
    excluded: Interactions | None = None
    candidates: Interactions | None = None

    @classmethod
    def of(
        cls,
        users: Ids,
        items: Ids,
        seen: Interactions | None,
        report: Report,
        allow: Any = None,
        deny: Any = None,
        exclude: Any = None,
        candidates: Any = None,
    ) -> "Filters":
        """From ids, as `Recommender.recommend` takes them; `report` hears of unknown ones."""
        blocked = None
        if allow is not None or deny is not None:
            blocked = torch.full((len(items),), allow is not None)
            if allow is not None:
                blocked[_known(items, id_list(allow, "allow"), "items to allow", report)] = False
            if deny is not None:
                blocked[_known(items, id_list(deny, "deny"), "items to deny", report)] = True
        pairs = [
            None if given is None else _pairs(users, items, given, what, report)
            for given, what in ((exclude, "exclude"), (candidates, "candidates"))
        ]
        return cls(seen, blocked, *pairs)

    def apply(self, scores: Tensor, users: Tensor) -> Tensor:
        """Set what is not to be recommended, and the padding, to -inf. Shape: [B, n_items], [B] → [B, n_items]."""
        if self.candidates is not None:
            places = self.candidates.positives_of(users)
            kept = torch.full_like(scores, -torch.inf)
            kept[places] = scores[places]
            scores = kept
        scores[:, 0] = -torch.inf
        if self.blocked is not None:
            scores[:, self.blocked.to(scores.device)] = -torch.inf
        for pairs in (self.seen, self.excluded):
            if pairs is not None:
                scores[pairs.positives_of(users)] = -torch.inf
        return scores


def _known(ids: Ids, names: list[str], what: str, report: Report) -> np.ndarray:
    places = ids.places(names)
    report(what, [name for name, place in zip(names, places, strict=True) if not place])
    return places[places > 0]


def _pairs(users: Ids, items: Ids, given: Any, what: str, report: Report) -> Interactions:
    names, others = pair_lists(given, what)
    own, theirs = users.places(names), items.places(others)
    for kind, places, asked in (("users", own, names), ("items", theirs, others)):
        report(f"{kind} of {what}", list(dict.fromkeys(_zeros(asked, places))))
    known = (own > 0) & (theirs > 0)
    return Interactions(own[known], theirs[known], len(users), len(items))


def _zeros(names: Iterable[str], places: np.ndarray) -> Iterable[str]:
    return (name for name, place in zip(names, places, strict=True) if not place)
