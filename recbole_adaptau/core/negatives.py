"""Where the negatives of a batch come from, by name.

Three modes share their candidates over the batch (`shared`, `in_batch`, `full`) and become one matrix product;
`per_row` takes the negatives that came with the batch, M for each positive. A row's positive is never its own
negative, unless `own_positive` says so. Item 0, the padding, is never a candidate.
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from ..errors import OptionError
from .candidates import BatchNegatives, CandidateGroups, Candidates, RowNegatives, sum_of
from .component import Component, Registry
from .interactions import Interactions
from .settings import SettingsModel, setting


class Negatives(Component):
    """The contract: the negatives of a batch.

    Args:
        interactions: The training positives.
        settings: Of the class's own `Settings`; None for the defaults.
    """

    takes_sampled = False  # whether negatives come with the batch, sampled by RecBole

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(settings)
        self.interactions = interactions

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        sampled = values["train_neg_sample_args"]
        if sampled["distribution"] != "none":
            raise OptionError(
                f"negatives = {cls.name} draws its own negatives, but train_neg_sample_args = {sampled} is set: remove "
                "it, or choose negatives=per_row."
            )

    def begin_epoch(self) -> None:
        """An epoch depends on nothing but its random state: forget what an epoch before has left."""

    def draw(self, users: Tensor, positives: Tensor, sampled: Tensor | None = None) -> BatchNegatives:
        """Shape: users [B], positives [B] (item ids), sampled [B, M] negatives that came with the batch."""
        raise TypeError(f"{type(self).__name__} has no draw(users, positives, sampled).")


NEGATIVES: Registry[type[Negatives]] = Registry("negatives")
register_negatives = NEGATIVES.register


class CandidateNegatives(Negatives):
    """Candidates shared by all rows: `candidates` says which, and `probabilities` how likely each was."""

    class Settings(SettingsModel):
        mask_hits: bool = setting(False, "Leave out candidates that are training positives of the row's user.")
        own_positive: bool = setting(
            False, "Whether a row's positive, drawn again, is one of its negatives too (the authors' code)."
        )

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        super().refuse(values)
        if values["mask_hits"] and values["own_positive"]:
            raise OptionError(
                "mask_hits = True leaves out every positive of the row's user, own_positive = True keeps one: set one "
                "of them to False."
            )

    draws_positives = False  # whether a row's positive is among the candidates because of the row itself

    everything: Tensor
    column_of: Tensor
    log_correction: Tensor | None

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(interactions, settings)
        self.register_buffer("everything", torch.arange(1, interactions.n_items), persistent=False)
        self.register_buffer("column_of", torch.full((interactions.n_items,), -1), persistent=False)
        q = self.probabilities()
        correction = None
        if q is not None and getattr(self.settings, "logq_correction", False):
            # An item without a training positive can stand in a batch (one that was held out): it is like the rarest.
            correction = -torch.log(q.clamp_min(q[q > 0].min()) * interactions.n_real_items).float()
        self.register_buffer("log_correction", correction, persistent=False)

    def draw(self, users: Tensor, positives: Tensor, sampled: Tensor | None = None) -> Candidates | CandidateGroups:
        return self.draw_for(users, positives)

    def draw_for(self, users: Tensor, positives: Tensor) -> Candidates:
        """Candidates that all these rows share. Shape: users [B], positives [B]."""
        items, repeats = self.candidates(positives)
        log_weight = None if repeats is None else torch.log(repeats.float())
        if self.log_correction is not None:
            log_weight = sum_of(log_weight, self.log_correction[items])
        hits = self._hits(users, positives, items)
        return Candidates(items, log_weight, hits, self.again(repeats, log_weight, hits))

    def candidates(self, positives: Tensor) -> tuple[Tensor, Tensor | None]:
        """Different item ids, and how often each was drawn (None: once each)."""
        return self.everything, None

    def again(self, repeats: Tensor | None, log_weight: Tensor | None, hits: tuple[Tensor, Tensor]) -> Tensor | None:
        """As `Candidates.again`; None, too, where `own_positive` means that there are no hits."""
        return None

    def probabilities(self) -> Tensor | None:
        """[n_items] how likely each item is in a draw, where that differs between items."""
        return None

    def _hits(self, users: Tensor, positives: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        self.column_of[items] = torch.arange(len(items), device=items.device)
        if self.settings.own_positive and not self.draws_positives:
            users, positives = users[:0], positives[:0]
        if self.settings.mask_hits:
            rows, hit_items = self.interactions.positives_of(users)
        else:
            rows, hit_items = torch.arange(len(users), device=users.device), positives
        columns = self.column_of[hit_items]
        self.column_of[items] = -1
        found = columns >= 0
        return rows[found], columns[found]

    def _shares(self, alpha: float) -> Tensor:
        """[n_items] training counts to a power, scaled to a sum of 1; 0 for items without any."""
        counts = self.interactions.item_counts.double()
        q = torch.where(counts > 0, counts.pow(alpha), 0.0)
        return q / q.sum()


LOGQ_CORRECTION: Any = setting(False, "Correct logits for the drawing probability (popularity and in_batch).")


@register_negatives("shared")
class SharedNegatives(CandidateNegatives):
    """`shared`: items drawn for the batch, uniformly (the catalogue shuffled and dealt out) or by popularity.

    A uniform draw of as many items as the catalogue has is the whole catalogue.
    """

    class Settings(CandidateNegatives.Settings):
        num_negatives: int = setting(
            1024,
            "Items that `shared` draws for a batch; the whole catalogue if that is smaller.",
            ge=1,
            le=10**8,
        )
        negative_distribution: Literal["uniform", "popularity"] = setting(
            "uniform", "How `shared` draws: uniform, or popularity (training counts only)."
        )
        negative_groups: int = setting(
            1,
            "Groups of a batch's rows that `shared` draws num_negatives for, each its own. More groups are nearer to "
            "negatives of each row's own, and slower.",
            ge=1,
            le=10**6,
        )
        negative_alpha: float = setting(1.0, "Power of the training counts for popularity.", ge=0.0, le=10.0)
        logq_correction: bool = LOGQ_CORRECTION

    cumulative: Tensor | None

    def __init__(self, interactions: Interactions, settings: Any = None):
        super().__init__(interactions, settings)
        q = self.probabilities()
        self.register_buffer("cumulative", None if q is None else q.cumsum(0), persistent=False)
        self.begin_epoch()

    @classmethod
    def unread(cls, values: Mapping[str, Any]) -> dict[str, str]:
        if values["negative_distribution"] == "popularity":
            return {}
        return dict.fromkeys(("negative_alpha", "logq_correction"), "negative_distribution = uniform")

    def begin_epoch(self) -> None:
        self._order, self._place = self.everything[:0], 0

    def draw(self, users: Tensor, positives: Tensor, sampled: Tensor | None = None) -> Candidates | CandidateGroups:
        size = -(-len(users) // self.settings.negative_groups)
        if size >= len(users):
            return self.draw_for(users, positives)
        pairs = list(zip(users.split(size), positives.split(size), strict=True))
        return CandidateGroups([self.draw_for(*pair) for pair in pairs], [len(rows) for rows, _ in pairs])

    def candidates(self, positives: Tensor) -> tuple[Tensor, Tensor | None]:
        number = self.settings.num_negatives
        if self.cumulative is not None:
            points = torch.rand(number, dtype=self.cumulative.dtype, device=positives.device)
            drawn = torch.searchsorted(self.cumulative, points, right=True)
            return torch.unique(drawn.clamp_max(self.interactions.n_items - 1), return_counts=True)
        if number >= len(self.everything):
            return self.everything, None
        if self._place + number > len(self._order):
            self._order, self._place = torch.randperm(len(self.everything), device=positives.device) + 1, 0
        self._place += number
        return self._order[self._place - number : self._place], None

    def probabilities(self) -> Tensor | None:
        popular = self.settings.negative_distribution == "popularity"
        return self._shares(self.settings.negative_alpha) if popular else None


@register_negatives("in_batch")
class InBatchNegatives(CandidateNegatives):
    """`in_batch`: the positives of the other rows."""

    class Settings(CandidateNegatives.Settings):
        logq_correction: bool = LOGQ_CORRECTION

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        super().refuse(values)
        if values["train_batch_size"] < 2:
            raise OptionError("negatives = in_batch needs train_batch_size of at least 2: a lone row has no negatives.")

    draws_positives = True

    def candidates(self, positives: Tensor) -> tuple[Tensor, Tensor | None]:
        return torch.unique(positives, return_counts=True)

    def again(self, repeats: Tensor | None, log_weight: Tensor | None, hits: tuple[Tensor, Tensor]) -> Tensor | None:
        if not self.settings.own_positive or repeats is None or log_weight is None:
            return None
        others = torch.log((repeats[hits[1]] - 1).float())  # the other rows that have the same positive
        return others if self.log_correction is None else log_weight[hits[1]] - torch.log(repeats[hits[1]]) + others

    def probabilities(self) -> Tensor | None:
        return self._shares(1.0)


@register_negatives("full")
class FullNegatives(CandidateNegatives):
    """`full`: the whole catalogue."""


@register_negatives("per_row")
class PerRowNegatives(Negatives):
    """`per_row`: RecBole's own sampled negatives, M for each positive."""

    takes_sampled = True

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        if values["train_neg_sample_args"]["distribution"] == "none":
            raise OptionError(
                "negatives = per_row takes RecBole's sampled negatives, but train_neg_sample_args is None: set e.g. "
                "--train_neg_sample_args=\"{'distribution': 'uniform', 'sample_num': 64}\"."
            )

    def draw(self, users: Tensor, positives: Tensor, sampled: Tensor | None = None) -> RowNegatives:
        if sampled is None:
            raise OptionError("negatives = per_row needs negatives with the batch, [B, M], and there are none.")
        return RowNegatives(sampled)
