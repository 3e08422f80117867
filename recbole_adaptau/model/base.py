"""Everything our models share. A backbone adds `encode` and nothing else."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.model.init import xavier_uniform_initialization
from recbole.utils import InputType
from torch import Tensor, nn

from ..config.options import Options
from ..core.epoch_view import EpochView
from ..core.interactions import Interactions
from ..core.losses import candidate_logsumexp, row_logsumexp, softmax_loss, unit_rows
from ..core.negatives import SharedNegatives, rows_of_negatives
from ..core.strategies import STRATEGIES
from ..errors import DataError
from ..recipe.item_regression import ItemNeighbours
from ..recipe.spectral_start import spectral_rows, start_from


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


class AdapTauRecommender(GeneralRecommender, ABC):
    """Softmax over (normalised) embeddings with a temperature set by a strategy.

    A backbone implements `encode`; here are scoring, loss, negatives, temperatures and prediction. The tables
    `user_embedding` and `item_embedding` are made here, spectral or Xavier uniform, row 0 (padding) zero.
    """

    input_type = InputType.PAIRWISE
    prior: Tensor | None
    dropout_steps: Tensor | None
    loss_weights: Tensor | None

    @classmethod
    def check(cls, config: Any) -> Options:
        """Refuse a configuration that makes no sense; called as soon as it is built, before data is loaded."""
        return Options.from_config(config)

    def __init__(self, config: Any, dataset: Any):
        options = self.check(config)
        super().__init__(config, dataset)
        self._scored: tuple[Any, tuple[Tensor, Tensor, Tensor]] | None = None
        self._neighbours: ItemNeighbours | None = None
        self.options = options
        self.interactions = Interactions.from_dataset(dataset)
        if max(config["topk"]) > self.interactions.n_real_items:
            raise DataError(
                f"topk = {config['topk']}, but '{config['dataset']}' has only {self.interactions.n_real_items} items: "
                f"set --topk and --valid_metric to a smaller k."
            )
        self.strategy = STRATEGIES[options.tau_strategy](options, self.n_users)
        self._sample_num = config["train_neg_sample_args"]["sample_num"]
        self.shared_negatives = None
        if options.negatives != "per_row":
            self.shared_negatives = SharedNegatives(
                self.interactions,
                options.negatives,
                options.num_negatives,
                options.negative_distribution,
                options.negative_alpha,
                options.mask_hits,
                options.logq_correction,
            )
        # What |f / tau| cannot exceed; a little more, because a length of 1 is rounded.
        unit = options.normalize_users and options.normalize_items
        self._max_logit = 1.05 / options.tau_min if unit else math.inf
        # With row-wise updates, gradients of tables that are used as they are hold only a batch's own rows.
        self._by_rows = config["learner"].lower() == "row_adam"
        self.build(config, dataset)
        prior = torch.log1p(self.interactions.item_counts.float()) if options.popularity_prior else None
        self.register_buffer("prior", prior, persistent=False)
        count = options.user_dropout_count
        share = count / (count + self.interactions.user_counts.clamp_min(1).double())
        steps = (share * 2**16).round().clamp_max(2**16 - 1) if count else None  # of the 65,536 values a draw can have
        self.register_buffer("dropout_steps", steps, persistent=False)
        balance = options.loss_user_balance
        weights = self.interactions.user_weights(balance) if balance else None
        self.register_buffer("loss_weights", weights, persistent=False)
        quantile = options.tau_user_quantile
        counts = self.interactions.user_counts[self.interactions.active_users].float()
        least = counts.quantile(quantile).item() if quantile > 0 else 0.0
        # Where all have as many, nobody has more: then all count.
        self._min_user_count = least if (counts > least).any() else 0.0

    def build(self, config: Any, dataset: Any) -> None:
        """Make and initialise all parameters: here the two tables."""
        self.user_embedding = nn.Embedding(self.n_users, self.options.embedding_size, sparse=self._by_rows)
        self.item_embedding = nn.Embedding(self.n_items, self.options.embedding_size, sparse=self._by_rows)
        self.apply(xavier_uniform_initialization)
        self.strategy.reset_parameters()
        tables = self.user_embedding.weight, self.item_embedding.weight
        with torch.no_grad():
            if self.options.initial_embeddings == "spectral":
                directions = spectral_rows(self.interactions, tables[0].shape[1], seed=int(torch.randint(2**31, ())))
                for table, rows in zip(tables, directions, strict=True):
                    start_from(table, rows)
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
            self._min_user_count,
            self.prior,
            self.options.tau_user_balance,
        )

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        """Let the strategy set the temperatures of this epoch.

        Returns:
            What is worth logging: tau_0, tau_u_min/mean/max (over users with a training positive), the gap
            mu+ − mu and the mean gradient magnitude E|dL/df|.
        """
        view = self.view(epoch)
        self.strategy.begin_epoch(view)
        if self.shared_negatives is not None:
            self.shared_negatives.begin_epoch()
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
        users, positives, negatives = self._rows(interaction)
        drawn = None
        if self.shared_negatives is not None:
            drawn = self.shared_negatives.draw(users, positives)
            negatives = drawn.items
        all_users, all_items = self.encode()
        u = self._score_users(self._dropped(self._take(all_users, users), users))
        # One gather for positives and negatives, so that backward fills one gradient of the whole table, not two.
        together = torch.cat([positives, negatives.reshape(-1)])
        items = self._score_items(self._take(all_items, together))
        p, n = items.split([len(positives), negatives.numel()])
        tau = self.strategy.tau(users, u)
        positive_tau = tau if self.options.positive_tau == "tau_u" else self.strategy.tau_0.expand_as(tau)
        positive, weight = (u * p).sum(1) / positive_tau, None if drawn is None else drawn.log_weight
        if self.prior is not None:
            positive = positive + self.prior[positives]
            weight = self.prior[negatives] if weight is None else weight + self.prior[negatives]
        if drawn is None:
            neg_lse = row_logsumexp(torch.einsum("bd,bmd->bm", u, n.view(*negatives.shape, -1)), tau, weight)
        else:
            neg_lse = candidate_logsumexp(u, n, tau, weight, drawn.hits, self._max_logit)
        losses = softmax_loss(positive, neg_lse, self.options.positive_in_denominator)
        if self.loss_weights is not None:
            losses = losses * self.loss_weights[users]
        ranking = losses.mean() + self._regularisation(users, positives, negatives)
        further = self.auxiliary_losses(users, positives)
        return (ranking, *further) if further else ranking

    def _dropped(self, embeddings: Tensor, users: Tensor) -> Tensor:
        """The batch's user embeddings after dropout, the same share for all and one of each user's own."""
        embeddings = F.dropout(embeddings, self.options.embedding_dropout, self.training)
        if self.dropout_steps is None or not self.training:
            return embeddings
        rows, width = embeddings.shape
        steps = self.dropout_steps[users].unsqueeze(1)
        # Four draws of 16 bits from each number: a draw for every entry would be a tenth of AdapTauMF's epoch.
        numbers = torch.empty(rows, -(-width // 4), dtype=torch.int64, device=embeddings.device).random_(-(2**63), None)
        kept = numbers.view(torch.int16)[:, :width] >= (steps - 2**15).to(torch.int16)
        return embeddings * (kept * (2**16 / (2**16 - steps)).to(embeddings.dtype))

    def predict(self, interaction: Any) -> Tensor:
        """Shape: [B] scores of the given pairs."""
        users, items = interaction[self.USER_ID], interaction[self.ITEM_ID]
        all_users, all_items = self.test_embeddings()
        scores = (all_users[users] * all_items[items]).sum(1)
        if self.neighbours is not None:
            scores = scores + self.neighbour_scales()[users] * self.neighbours.of_pairs(users, items)
        return scores

    def full_sort_predict(self, interaction: Any) -> Tensor:
        """Shape: [B · n_items] scores of all items for the given users."""
        return self.score_items(interaction[self.USER_ID]).view(-1)

    @torch.no_grad()
    def score_items(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        """The scores of all items for some users, written to `out` if given. Shape: users [B] → [B, n_items]."""
        all_users, items = self.test_embeddings()
        scores = torch.mm(all_users[users], items.T, out=out)
        if self.neighbours is not None:
            self.neighbours.add_to(scores, users, self.neighbour_scales()[users])
        return scores

    @property
    def neighbours(self) -> ItemNeighbours | None:
        """What items say of each other, made when it is first asked for; None without."""
        if self._neighbours is None and self.options.item_neighbours:
            self._neighbours = ItemNeighbours(self.interactions, self.options.item_neighbours)
        return self._neighbours

    def _rows(self, interaction: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Users [B], positives [B] and, in mode per_row, negatives [B, M] of a batch."""
        users, positives = interaction[self.USER_ID], interaction[self.ITEM_ID]
        if self.shared_negatives is not None:
            return users, positives, positives
        # RecBole repeats the B positives once for each of the M negatives.
        negatives = interaction[self.NEG_ITEM_ID]
        rows = len(negatives) // self._sample_num
        return users[:rows], positives[:rows], rows_of_negatives(negatives, rows)

    def _take(self, table: Tensor, rows: Tensor) -> Tensor:
        """Some rows of a table. Shape: table [n, d], rows [K] → [K, d]."""
        if self._by_rows and table.is_leaf:
            return F.embedding(rows, table, sparse=True)
        return table.index_select(0, rows)

    def _score_users(self, embeddings: Tensor) -> Tensor:
        return unit_rows(embeddings) if self.options.normalize_users else embeddings

    def _score_items(self, embeddings: Tensor) -> Tensor:
        return unit_rows(embeddings) if self.options.normalize_items else embeddings

    def _regularisation(self, users: Tensor, positives: Tensor, negatives: Tensor) -> Tensor | float:
        """reg_weight · (sum of squares of the batch's own embeddings) / 2B, as the authors have it."""
        if self.options.reg_weight == 0:
            return 0.0
        user, positive = self.ego_embeddings(users, positives)
        squares = user.square().sum() + positive.square().sum()
        if self.options.reg_negatives:
            squares = squares + self.ego_embeddings(users, negatives)[1].square().sum()
        return self.options.reg_weight * squares / (2 * len(users))

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
        """What predictions are products of, but for the neighbours' part.

        Shape: users [n_users, d], items [n_items, d]; with the popularity prior one column more, which is 1 for users
        and the prior for items.
        """
        return self._for_scores()[:2]

    def neighbour_scales(self) -> Tensor:
        """[n_users] what the neighbours' part of a user's scores is multiplied by."""
        return self._for_scores()[2]

    @torch.no_grad()
    def _for_scores(self) -> tuple[Tensor, Tensor, Tensor]:
        """`test_embeddings` and `neighbour_scales`, computed once for as long as no parameter changes."""
        # Versions catch weights loaded since; a fused optimiser does not count them up, but trains in between.
        version = tuple((p.data_ptr(), p._version) for p in self.parameters())
        if self._scored is None or self._scored[0] != version:
            users, items = self._evaluated()
            scored = self._score_users(users)
            if self.options.test_score == "cosine":
                users, items = unit_rows(users), unit_rows(items)
            elif self.options.test_score == "auto":
                users, items = scored, self._score_items(items)
            scale = users.new_full((self.n_users,), self.options.neighbour_weight)
            if self.prior is not None:
                # f / tau_u + prior is itself an inner product, of one dimension more.
                tau = self._temperatures(scored)
                users = torch.cat([users / tau.unsqueeze(1), torch.ones_like(users[:, :1])], dim=1)
                items = torch.cat([items, self.prior.unsqueeze(1).to(items)], dim=1)
                scale = scale / tau
            self._scored = version, (users, items, scale)
        return self._scored[1]
