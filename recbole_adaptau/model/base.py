"""Everything our models share. A backbone adds `encode` and nothing else."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.model.init import xavier_uniform_initialization
from recbole.utils import InputType
from torch import Tensor, nn

from ..config.recipes import check_recipe
from ..core.candidates import BatchNegatives, rows_of_negatives
from ..core.component import Registry, versions
from ..core.cosine import unit_rows
from ..core.epoch_view import EpochView
from ..core.losses import LOSSES, ScoredBatch
from ..core.negatives import NEGATIVES
from ..core.settings import SettingsModel, setting
from ..core.strategies import STRATEGIES
from ..data.check import check_topk
from ..data.positives import training_positives
from ..errors import OptionError, did_you_mean
from ..recipe import PARTS, PairScores, RecipePart


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """No dropout inside, whatever mode the module is in; not by `eval()`, as `train()` may do more than set a mode.

    RecBole's SGL draws new graphs there, and a run that is resumed would draw once more than one that went through.
    """
    modes = [(part, part.training) for part in module.modules()]
    for part, _ in modes:
        part.training = False
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _known(registry: Registry[Any]) -> BeforeValidator:
    """A name that a registry has."""

    def check(name: Any) -> Any:
        if name is None:
            raise ValueError
        if not isinstance(name, str) or name not in registry:
            hint = did_you_mean(name, registry) if isinstance(name, str) else ""
            raise OptionError(f"{registry.key} = {name!r} is not one of {', '.join(registry)}.{hint}")
        return name

    return BeforeValidator(check)


class AdapTauRecommender(GeneralRecommender, ABC):
    """Softmax over (normalised) embeddings with a temperature set by a strategy.

    A backbone implements `encode`; here are scoring, loss, negatives, temperatures and prediction. The tables
    `user_embedding` and `item_embedding` are made here, Xavier uniform, row 0 (padding) zero. A backbone with settings
    of its own declares them in a class `Settings` derived from this one's, and finds them as `self.settings`.
    """

    class Settings(SettingsModel):
        tau_strategy: Annotated[str, _known(STRATEGIES)] = setting(
            "adaptive_user", f"How the temperature is set: {', '.join(STRATEGIES)}."
        )
        loss: Annotated[str, _known(LOSSES)] = setting("softmax", f"The ranking loss: {', '.join(LOSSES)}.")
        negatives: Annotated[str, _known(NEGATIVES)] = setting(
            "shared", f"What a positive is compared with: {', '.join(NEGATIVES)} (RecBole's train_neg_sample_args)."
        )
        recipe: Annotated[str | list, BeforeValidator(check_recipe)] = setting(
            "none", f"What is added to the paper's method: none, plus, or a list of the parts {', '.join(PARTS)}."
        )
        embedding_size: int = setting(64, "The embedding size of users and items.", ge=1, le=1 << 16)
        normalization: Literal["auto", "Y-Y", "Y-N", "N-Y", "N-N"] = setting(
            "auto", "Users-items: Y-Y, Y-N, N-Y, N-N; auto is Y-Y, and N-N for tau_strategy none."
        )
        test_score: Literal["auto", "cosine", "inner_product"] = setting(
            "auto", "Score at test time: auto (as trained), cosine or inner_product."
        )
        embedding_dropout: float = setting(0.0, "Dropout on the batch's user embeddings.", ge=0.0, lt=1.0)
        reg_weight: float = setting(
            0.0, "L2 on the batch's embeddings: weight * sum of squares / (2 * batch size).", ge=0.0, le=1e6
        )
        reg_negatives: bool = setting(False, "Whether each row's negatives count in that L2 too.")

    input_type = InputType.PAIRWISE
    makes_tables = True  # whether the two embedding tables are made here

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        """Raise OptionError for settings that contradict each other; called before data is loaded."""
        if str(values["learner"]).lower() == "row_adam":
            if values["weight_decay"]:
                raise OptionError(
                    f"weight_decay = {values['weight_decay']} shrinks all rows in every batch, but learner = row_adam "
                    "updates only a batch's own: use reg_weight, or learner=adam."
                )
            if values["clip_grad_norm"]:
                raise OptionError("clip_grad_norm needs gradients of whole tables: set learner=adam with it.")

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        self.settings: Any = self.Settings.read(config)
        self._scored: tuple[Any, tuple[Tensor, Tensor, Tensor]] | None = None
        self.interactions = training_positives(dataset)
        check_topk(config, self.interactions.n_real_items)
        sides = self.settings.normalization
        if sides == "auto":
            sides = "N-N" if self.settings.tau_strategy == "none" else "Y-Y"
        self.normalize_users, self.normalize_items = sides[0] == "Y", sides[2] == "Y"
        self.make_strategy(config, self.settings.embedding_size)
        self.interactions, self.held_out = self.strategy.hold_out(self.interactions, config["seed"])
        self._epochs = config["epochs"]
        loss, negatives = LOSSES[self.settings.loss], NEGATIVES[self.settings.negatives]
        self.loss = loss(loss.Settings.read(config))
        self.negatives = negatives(self.interactions, negatives.Settings.read(config))
        self._sample_num = config["train_neg_sample_args"]["sample_num"]
        # What |f / tau| cannot exceed; a little more, because a length of 1 is rounded.
        unit = self.normalize_users and self.normalize_items
        self._max_logit = 1.05 / config["tau_min"] if unit else math.inf
        # With row-wise updates, gradients of tables that are used as they are hold only a batch's own rows.
        self._by_rows = config["learner"].lower() == "row_adam"
        named = [PARTS[name] for name in config["recipe_parts"]]
        parts = [part(self.interactions, part.Settings.read(config)) for part in named]
        for made in parts:
            made.held_out = self.held_out
        self.parts: Any = nn.ModuleList(parts)
        self.build(config, dataset)

    def make_strategy(self, config: Any, embedding_size: int) -> None:
        """Make the temperature strategy for embeddings of a size."""
        strategy = STRATEGIES[self.settings.tau_strategy]
        self.strategy = strategy(self.n_users, embedding_size, strategy.Settings.read(config))

    def build(self, config: Any, dataset: Any) -> None:
        """Make and initialise all parameters: here the two tables."""
        size = self.settings.embedding_size
        self.user_embedding = nn.Embedding(self.n_users, size, sparse=self._by_rows)
        self.item_embedding = nn.Embedding(self.n_items, size, sparse=self._by_rows)
        self.apply(xavier_uniform_initialization)
        self.strategy.reset_parameters()
        tables = self.user_embedding.weight, self.item_embedding.weight
        with torch.no_grad():
            for part in self.parts:
                part.start(*tables)
            for table in tables:
                table[0].zero_()

    @abstractmethod
    def encode(self) -> tuple[Tensor, Tensor]:
        """The embeddings of all users and items, before normalisation.

        Shape: users [n_users, d], items [n_items, d]; index 0 is RecBole's padding in both.
        """

    def view(self, epoch: int = 0) -> EpochView:
        """The model as it stands, as a temperature strategy sees it."""
        return EpochView(
            epoch,
            self._training_embeddings,
            self.interactions,
            self.strategy.min_user_count(self.interactions),
            self._sum_of(RecipePart.item_logits),
            self._product_of(RecipePart.positive_weights),
            self.held_out,
        )

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        """Let the strategy set the temperatures of this epoch.

        Returns:
            What is worth logging: tau_0, tau_u_min/mean/max (over users with a training positive), the gap
            mu+ − mu and the mean gradient magnitude E|dL/df|.
        """
        if self.held_out is not None:
            self.held_out.returned = self.strategy.trains_held_out(epoch, self._epochs)
        view = self.view(epoch)
        self.strategy.begin_epoch(view)
        for part in self.parts:
            part.calibrate(view, self.strategy.tau_0.item())
        self.loss.begin_epoch(view)
        self.negatives.begin_epoch()
        active = self.interactions.active_users
        with torch.no_grad():
            tau = self._temperatures(view.embeddings[0])[active]
        return {
            "tau_0": self.strategy.tau_0.item(),
            "tau_u_min": tau.min().item(),
            "tau_u_mean": tau.mean().item(),
            "tau_u_max": tau.max().item(),
            "gap": view.gap,
            "gradient": view.gradient_magnitude(self.strategy.tau),
        }

    @torch.no_grad()
    def user_temperatures(self) -> Tensor:
        """[n_users] the temperature of every user as the strategy has it now."""
        return self._temperatures(self._training_embeddings()[0])

    def _temperatures(self, users: Tensor) -> Tensor:
        """Shape: all users' scored embeddings [n_users, d] → [n_users]."""
        return self.strategy.tau(torch.arange(self.n_users, device=users.device), users)

    def auxiliary_losses(self, users: Tensor, positives: Tensor) -> tuple[Tensor, ...]:
        """A backbone's further losses of a batch (contrastive terms, say), added to the ranking loss as they are.

        Called right after the batch's `encode`. Shape: user ids [B], item ids [B] → any number of losses [].
        """
        return ()

    def ego_embeddings(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the tables that L2 is on. Shape: ids [B], [K] → [B, d], [K, d]."""
        return self.user_embedding(users), self.item_embedding(items)

    def calculate_loss(self, interaction: Any) -> Tensor | tuple[Tensor, ...]:
        """Mean softmax loss of the batch plus L2 on its embeddings; a tuple with the auxiliary ones, if there are any.

        Shape: []. RecBole's trainer adds up a tuple and logs each part.
        """
        users, positives, sampled = self._trained_rows(*self._rows(interaction))
        negatives = self.negatives.draw(users, positives, sampled)
        all_users, all_items = self.encode()
        u = self._score_users(self._dropped(self._take(all_users, users), users))
        # One gather for positives and negatives, so that backward fills one gradient of the whole table, not two.
        together = torch.cat([positives, negatives.items.reshape(-1)])
        items = self._score_items(self._take(all_items, together))
        p, n = items.split([len(positives), negatives.items.numel()])
        added = self._sum_of(RecipePart.item_logits)
        of_negatives = None if added is None else added[negatives.items]
        batch = ScoredBatch(
            positive=(u * p).sum(1),
            positive_logit=None if added is None else added[positives],
            tau=self.strategy.tau(users, u),
            tau_0=self.strategy.tau_0,
            logsumexp=negatives.logsumexp(u, n, of_negatives, self._max_logit),
            scores=lambda: negatives.scores(u, n, of_negatives),
            users=users,
            pair_means=negatives.pair_means(u, n, of_negatives),
        )
        if self.training:
            self.strategy.observe(users, lambda tau: batch.logsumexp(tau) - batch.positive_at(tau))
        losses = self.loss(batch)
        weights = self._product_of(RecipePart.row_weights)
        if weights is not None:
            losses = losses * weights[users]
        ranking = losses.mean() + self._regularisation(users, positives, negatives)
        further = self.auxiliary_losses(users, positives)
        return (ranking, *further) if further else ranking

    def _dropped(self, embeddings: Tensor, users: Tensor) -> Tensor:
        """The batch's user embeddings after dropout, the same share for all and what the parts of the recipe drop."""
        embeddings = F.dropout(embeddings, self.settings.embedding_dropout, self.training)
        for part in self.parts if self.training else ():
            embeddings = part.drop(embeddings, users)
        return embeddings

    def _sum_of(self, hook: Any) -> Tensor | None:
        """The sum of what a hook of the parts gives, or None where none gives anything."""
        given = [value for part in self.parts if (value := getattr(part, hook.__name__)()) is not None]
        return sum(given[1:], given[0]) if given else None

    def _product_of(self, hook: Any) -> Tensor | None:
        """Likewise the product."""
        given = [value for part in self.parts if (value := getattr(part, hook.__name__)()) is not None]
        return math.prod(given[1:], start=given[0]) if given else None

    def predict(self, interaction: Any) -> Tensor:
        """Shape: [B] scores of the given pairs."""
        users, items = interaction[self.USER_ID], interaction[self.ITEM_ID]
        all_users, all_items = self.test_embeddings()
        scores = (all_users[users] * all_items[items]).sum(1)
        for weight, pairs in self.pair_scores():
            scores = scores + weight * self.pair_scales()[users] * pairs.of_pairs(users, items)
        return scores

    def full_sort_predict(self, interaction: Any) -> Tensor:
        """Shape: [B · n_items] scores of all items for the given users."""
        return self.score_items(interaction[self.USER_ID]).view(-1)

    @torch.no_grad()
    def score_items(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        """The scores of all items for some users, written to `out` if given. Shape: users [B] → [B, n_items]."""
        all_users, items = self.test_embeddings()
        scores = torch.mm(all_users[users], items.T, out=out)
        for weight, pairs in self.pair_scores():
            pairs.add_to(scores, users, weight * self.pair_scales()[users])
        return scores

    def pair_scores(self) -> list[tuple[float, PairScores]]:
        """What ranking adds to the products of embeddings, each with its weight beside f(u, i)."""
        return [found for part in self.parts if (found := part.pair_scores()) is not None]

    def _rows(self, interaction: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Users [B], positives [B] and negatives [B, M] that came with the batch, if the mode takes them."""
        users, positives = interaction[self.USER_ID], interaction[self.ITEM_ID]
        if not self.negatives.takes_sampled:
            return users, positives, None
        # RecBole repeats the B positives once for each of the M negatives.
        negatives = interaction[self.NEG_ITEM_ID]
        rows = len(negatives) // self._sample_num
        return users[:rows], positives[:rows], rows_of_negatives(negatives, rows)

    def _trained_rows(
        self, users: Tensor, positives: Tensor, sampled: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The rows of a batch without the held-out positives. Shape: [B], [B], [B, M] → [K], [K], [K, M].

        If no row were left, the first would be: with a training positive of its user in place of the held-out one.
        """
        if self.held_out is None or self.held_out.returned:
            return users, positives, sampled
        trained = ~self.held_out.contains(users, positives)
        if not trained.any():
            positives = self.interactions.items[self.interactions.indptr[users]]
            trained[0] = True
        return users[trained], positives[trained], None if sampled is None else sampled[trained]

    def _take(self, table: Tensor, rows: Tensor) -> Tensor:
        """Some rows of a table. Shape: table [n, d], rows [K] → [K, d]."""
        if self._by_rows and table.is_leaf:
            return F.embedding(rows, table, sparse=True)
        return table.index_select(0, rows)

    def _score_users(self, embeddings: Tensor) -> Tensor:
        return unit_rows(embeddings) if self.normalize_users else embeddings

    def _score_items(self, embeddings: Tensor) -> Tensor:
        return unit_rows(embeddings) if self.normalize_items else embeddings

    def _regularisation(self, users: Tensor, positives: Tensor, negatives: BatchNegatives) -> Tensor | float:
        """reg_weight · (sum of squares of the batch's own embeddings) / 2B, as the authors have it."""
        if self.settings.reg_weight == 0:
            return 0.0
        user, positive = self.ego_embeddings(users, positives)
        squares = user.square().sum() + positive.square().sum()
        if self.settings.reg_negatives:
            # Negatives that rows share count once for every row, as a row's own would on average.
            times = len(users) / negatives.draws
            squares = squares + times * self.ego_embeddings(users, negatives.items.reshape(-1))[1].square().sum()
        return self.settings.reg_weight * squares / (2 * len(users))

    @torch.no_grad()
    def _evaluated(self) -> tuple[Tensor, Tensor]:
        """`encode` without dropout, whatever mode the model is in."""
        with evaluating(self):
            return self.encode()

    def _training_embeddings(self) -> tuple[Tensor, Tensor]:
        users, items = self._evaluated()
        return self._score_users(users), self._score_items(items)

    def train(self, mode: bool = True) -> "AdapTauRecommender":
        """Also the moment to forget the embeddings kept for prediction: every evaluation starts with `eval()`."""
        self._scored = None
        return super().train(mode)

    def test_embeddings(self) -> tuple[Tensor, Tensor]:
        """What predictions are products of, but for the parts' `pair_scores`.

        Shape: users [n_users, d], items [n_items, d]. Where a part adds logits of items, users are divided by their
        temperatures, and the logits are one column more, with a 1 for users.
        """
        return self._for_scores()[:2]

    def pair_scales(self) -> Tensor:
        """[n_users] what f(u, i) is multiplied by in a user's scores, and so what is added to it."""
        return self._for_scores()[2]

    @torch.inference_mode(False)  # a tensor made there could not be used in training later
    @torch.no_grad()
    def _for_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """`test_embeddings` and `pair_scales`, in evaluation once for as long as no parameter and no buffer changes."""
        # Versions catch weights and temperatures set since; a fused optimiser does not count them up, but trains.
        version = versions(self)
        if self.training or self._scored is None or self._scored[0] != version:
            users, items = self._evaluated()
            scored = self._score_users(users)
            if self.settings.test_score == "cosine":
                users, items = unit_rows(users), unit_rows(items)
            elif self.settings.test_score == "auto":
                users, items = scored, self._score_items(items)
            scale, added = users.new_ones(self.n_users), self._sum_of(RecipePart.item_logits)
            if added is not None:
                # f / tau_u + added is itself an inner product, of one dimension more.
                tau = self._temperatures(scored)
                users = torch.cat([users / tau.unsqueeze(1), torch.ones_like(users[:, :1])], dim=1)
                items = torch.cat([items, added.unsqueeze(1).to(items)], dim=1)
                scale = scale / tau
            self._scored = version, (users, items, scale)
        return self._scored[1]
