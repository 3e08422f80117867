"""A training step, its temperatures and the scores, against a naive model in float64 that reads the same settings.

The data is small and uneven: users with one positive and with many, one user and one item without any.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from recbole.data.interaction import Interaction
from scipy.special import lambertw

from recbole_adaptau.core.component import versions
from recbole_adaptau.errors import DataError, OptionError
from recbole_adaptau.model.base import evaluating
from recbole_adaptau.recipe import RecipePart
from tests.helpers import build
from tests.model.conftest import SMALL, USERS

POPULAR = {"negative_distribution": "popularity", "negative_alpha": 0.5}
PER_ROW = {"negatives": "per_row", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 3}}
PARTS = ["popularity_prior", "user_weighting"]
CASES = {
    "shared": {},
    "L2": {"reg_weight": 0.3},
    "L2 of weight 1": {"reg_weight": 1.0},
    "L2 with negatives": {"reg_weight": 0.3, "reg_negatives": True},
    "L2 with negatives, per row": {"reg_weight": 0.3, "reg_negatives": True, **PER_ROW},
    "popular": POPULAR,
    "popular, corrected": {**POPULAR, "logq_correction": True},
    "in batch, corrected": {"negatives": "in_batch", "logq_correction": True},
    "own positives": {**POPULAR, "own_positive": True},
    "own positives in batch": {"negatives": "in_batch", "own_positive": True, "recipe": ["popularity_prior"]},
    "masked": {"negatives": "full", "mask_hits": True},
    "authors' softmax": {"positive_tau": "tau_0", "positive_in_denominator": False},
    "active users": {"tau_user_quantile": 0.5},
    "variances": {"tau_form": "with_variances"},
    "variances of active users": {"tau_form": "with_variances", "tau_user_quantile": 0.5},
    "losses at tau_0": {"user_loss_tau": "tau_0", "user_threshold": 0.3, "user_beta": 0.4},
    "prior": {"recipe": ["popularity_prior"]},
    "weights": {"recipe": ["user_weighting"], "loss_user_balance": 0.7, "tau_user_balance": 1.5},
    "all": {
        "recipe": PARTS, "reg_weight": 0.1, "reg_negatives": True, "tau_user_quantile": 0.3, "mask_hits": True,
        "logq_correction": True, **POPULAR,
    },
}  # fmt: skip


def made(settings: dict, name: str = "AdapTauMF", spread: float = 1.0):
    """A model with embeddings as if trained: users near their own items, at lengths of all kinds."""
    built = build(name, settings, "uneven")
    model = built.model
    g = torch.Generator().manual_seed(1)
    users, items = (torch.randn(n, SMALL["embedding_size"], generator=g) for n in (model.n_users, model.n_items))
    data = built.train._dataset.inter_feat
    users.index_add_(0, data["user_id"], spread * items[data["item_id"]])
    with torch.no_grad():
        for table, rows in ((model.user_embedding.weight, users), (model.item_embedding.weight, items)):
            table[1:] = rows[1:]
    return built


class Naive:
    """Adap-tau, one pair at a time, from the tables, the training pairs and the values of a configuration."""

    def __init__(self, built):
        self.config, model = built.config, built.model
        feat = built.train._dataset.inter_feat
        self.pairs = sorted(set(zip(feat["user_id"].tolist(), feat["item_id"].tolist(), strict=True)))
        self.n, self.m = model.n_users, model.n_items
        self.tables = [t.weight.detach().double() for t in (model.user_embedding, model.item_embedding)]
        users, items = (F.normalize(table, dim=1).numpy() for table in self.tables)
        self.f = users @ items.T
        self.own = {u: [i for v, i in self.pairs if v == u] for u in range(self.n)}
        self.counts = np.array([len(self.own[u]) for u in range(self.n)])
        self.item_counts = np.bincount([i for _, i in self.pairs], minlength=self.m)
        parts = self.config["recipe"] if isinstance(self.config["recipe"], list) else []
        self.added = np.log(1 + self.item_counts) if "popularity_prior" in parts else np.zeros(self.m)
        weighs = "user_weighting" in parts
        self.in_loss = self.weights(self.config["loss_user_balance"] if weighs else 0.0)
        self.in_mean = self.weights(self.config["tau_user_balance"] if weighs else 0.0)

    def weights(self, balance: float) -> list[float]:
        raw = [count**-balance if count else 0.0 for count in self.counts]
        return [w * len(self.pairs) / sum(raw[u] for u, _ in self.pairs) for w in raw]

    def tau_0(self, released: bool = True) -> float:
        c = self.config
        least = np.quantile(self.counts[self.counts > 0], c["tau_user_quantile"]) if c["tau_user_quantile"] else 0
        inside = [u for u in range(self.n) if self.counts[u] > least]
        positive = [(u, i) for u, i in self.pairs if u in inside]
        mean = sum(self.in_mean[u] * self.f[u, i] for u, i in positive) / sum(self.in_mean[u] for u, _ in positive)
        every = self.f[np.ix_(inside, range(1, self.m))]
        ratio = math.log(len(inside) * (self.m - 1) / (2 * len(positive)))
        shift = np.mean([self.added[i] for _, i in self.pairs]) - self.added[1:].mean()
        ratio = max(ratio - shift, ratio / 2)
        gap = mean - every.mean() if released else c["tau_startup_gap"]
        if c["tau_form"] == "with_variances" and released:
            change = np.var([self.f[u, i] for u, i in positive]) - every.var()
            return (gap + math.sqrt(gap**2 + 2 * change * ratio)) / (2 * ratio)
        return gap / ratio

    def tau_u(self) -> np.ndarray:
        c, tau_0 = self.config, self.tau_0()
        at = tau_0 if c["user_loss_tau"] == "tau_0" else c["user_loss_tau"]
        active = [u for u in range(self.n) if self.counts[u]]
        losses = np.array(
            [
                np.log(np.exp(self.f[u, 1:] / at).sum()) - np.mean([self.f[u, i] / at for i in self.own[u]])
                for u in active
            ]
        )
        middle = losses.mean() if c["user_threshold"] == "mean" else np.quantile(losses, c["user_threshold"])
        inside = np.maximum((losses - middle) / (2 * c["user_beta"]), -1 / math.e)
        taus = np.full(self.n, tau_0)
        w = np.where(inside <= -1 / math.e, -1.0, lambertw(inside).real)
        taus[active] = np.clip(tau_0 * np.exp(w), c["tau_min"], c["tau_max"])
        return taus

    def loss(self, users, positives, negatives, taus) -> float:
        """Mean over the rows, plus L2; `negatives` are (item, how often it was drawn), a list for each row."""
        c, total = self.config, 0.0
        q = np.where(self.item_counts > 0, self.item_counts.astype(float), 0.0)
        if c["negatives"] == "shared":
            q = np.where(q > 0, q ** c["negative_alpha"], 0.0)
        q = q / q.sum()
        corrected = c["logq_correction"] and (
            c["negatives"] == "in_batch" or c["negative_distribution"] == "popularity"
        )
        for user, positive, row in zip(users, positives, negatives, strict=True):
            at = self.tau_0() if c["positive_tau"] == "tau_0" else taus[user]
            wanted = math.exp(self.f[user, positive] / at + self.added[positive])
            left_out = {positive, *(self.own[user] if c["mask_hits"] else ())} if row.shared else set()
            if c["own_positive"]:
                left_out = set()
            others = 0.0
            for item, drawn in row.items:
                # In the batch, a row's own positive counts as often as other rows have it.
                times = drawn - (c["negatives"] == "in_batch" and item == positive and c["own_positive"])
                if item not in left_out:
                    weight = times / (q[item] * (self.m - 1)) if corrected else times
                    others += weight * math.exp(self.f[user, item] / taus[user] + self.added[item])
            inside = wanted + others if c["positive_in_denominator"] else others
            total += self.in_loss[user] * -math.log(wanted / inside)
        squares = sum(float(self.tables[0][u].square().sum()) for u in users)
        squares += sum(float(self.tables[1][i].square().sum()) for i in positives)
        if c["reg_negatives"]:
            squares += sum(float(self.tables[1][i].square().sum()) for row in negatives for i, _ in row.items)
        return total / len(users) + c["reg_weight"] * squares / (2 * len(users))


class Row:
    def __init__(self, items, shared: bool):
        self.items, self.shared = items, shared


@pytest.mark.parametrize("case", CASES)
def test_temperatures_and_loss_are_the_naive_models(uneven, case):
    built = made({**uneven, **CASES[case]})
    model, naive = built.model, Naive(built)
    state = model.begin_epoch(1)
    assert bool(model.strategy.released)
    taus = naive.tau_u()
    assert state["tau_0"] == pytest.approx(naive.tau_0(), rel=1e-5)
    assert model.strategy.tau_u[1:].tolist() == pytest.approx(taus[1:], rel=1e-4)
    active = taus[naive.counts > 0]
    assert [state[f"tau_u_{x}"] for x in ("min", "mean", "max")] == pytest.approx(
        [active.min(), active.mean(), active.max()], rel=1e-4
    )
    assert len(set(active)) > 4, "or it would show nothing"
    for batch in list(built.train)[:2]:
        # The first draw of an epoch, and one that follows another.
        before = torch.get_rng_state()
        order, place = getattr(model.negatives, "_order", None), getattr(model.negatives, "_place", None)
        loss = model.calculate_loss(batch)
        torch.set_rng_state(before)
        if order is not None:
            model.negatives._order, model.negatives._place = order, place
        users, positives, sampled = model._rows(batch)
        if sampled is not None:
            rows = [Row([(i, 1) for i in row], False) for row in sampled.tolist()]
        else:
            items, repeats = model.negatives.candidates(positives)
            times = [1] * len(items) if repeats is None else repeats.tolist()
            rows = [Row(list(zip(items.tolist(), times, strict=True)), True)] * len(users)
            assert 0 not in items
        want = naive.loss(users.tolist(), positives.tolist(), rows, taus)
        assert loss.item() == pytest.approx(want, rel=1e-4)


def test_the_variances_count_only_once_the_gap_is_measured(uneven):
    built = made({**uneven, "tau_form": "with_variances", "tau_startup_epochs": 3})
    naive = Naive(built)
    for epoch in range(4):
        assert built.model.begin_epoch(epoch)["tau_0"] == pytest.approx(naive.tau_0(released=epoch == 3), rel=1e-5)


@pytest.mark.parametrize("name", ["AdapTauMF", "AdapTauLightGCN"])
def test_temperatures_are_measured_without_dropout(uneven, name):
    """In training mode, in which an epoch begins: the same as of a model that has none."""
    dropout = {"embedding_dropout": 0.5}
    dropout |= {"message_dropout": 0.5, "edge_dropout": 0.5} if name == "AdapTauLightGCN" else {}
    dropping, plain = (made({**uneven, **more}, name).model.train() for more in (dropout, {}))
    for epoch in (0, 1):
        assert dropping.begin_epoch(epoch) == pytest.approx(plain.begin_epoch(epoch), rel=1e-5)
    torch.testing.assert_close(dropping.user_temperatures(), plain.user_temperatures())
    assert all(module.training for module in dropping.modules()), "and training goes on with dropout"


def test_embedding_dropout_drops_its_share_of_the_users_in_training_alone(uneven):
    built = made({**uneven, "embedding_dropout": 0.25, "negatives": "full"})
    model, batch = built.model, next(iter(built.train))
    model.begin_epoch(0)
    torch.manual_seed(0)
    dropped = model._dropped(torch.ones(500, 40), torch.ones(500, dtype=torch.long))
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert dropped.max().item() == pytest.approx(1 / 0.75)
    assert len({model.calculate_loss(batch).item() for _ in range(3)}) == 3, "drawn anew for each batch"
    model.eval()
    assert len({model.calculate_loss(batch).item() for _ in range(2)}) == 1


EVERYBODY = Interaction({"user_id": torch.arange(1, USERS)})


def settings_of(name: str, uneven: dict) -> dict:
    """Without what only our models read, for others; MF with negatives that leave no trace in a buffer."""
    if name == "SimGCL":
        return {key: value for key, value in uneven.items() if key != "num_negatives"}
    return {**uneven, **PER_ROW} if name == "AdapTauMF" else uneven


@pytest.mark.parametrize("name", ["AdapTauMF", "AdapTauLightGCN", "SimGCL"])
def test_scores_follow_whatever_has_changed_since(uneven, name):
    """Weights by an optimiser that hides its writes, in training mode too, and weights that are loaded."""
    settings = settings_of(name, uneven)
    built, other = build(name, settings, "uneven"), build(name, {**settings, "seed": 9}, "uneven")
    model, batch = built.model.train(), next(iter(built.train))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    scores = [model.full_sort_predict(EVERYBODY).clone()]
    for _ in range(2):
        optimiser.zero_grad()
        loss = model.calculate_loss(batch)
        loss.backward()
        for parameter in model.parameters():
            parameter.grad = parameter.grad.to_dense() if parameter.grad is not None else None
        optimiser.step()
        scores.append(model.full_sort_predict(EVERYBODY).clone())
    assert not torch.allclose(scores[0], scores[1]) and not torch.allclose(scores[1], scores[2])
    model.eval()
    assert torch.equal(model.full_sort_predict(EVERYBODY), scores[2])
    model.load_state_dict(other.model.state_dict())
    assert torch.equal(model.full_sort_predict(EVERYBODY), other.model.eval().full_sort_predict(EVERYBODY))


def test_scores_follow_temperatures_and_calibrated_weights(uneven):
    """With a prior, scores are divided by the users' temperatures; a part's weight is a buffer too."""
    model = made({**uneven, "recipe": ["popularity_prior", "item_regression"]}).model.eval()
    model.begin_epoch(0)
    first = model.full_sort_predict(EVERYBODY).clone()
    model.begin_epoch(1)
    second = model.full_sort_predict(EVERYBODY).clone()
    model.parts[0].weight.fill_(3.0)
    third = model.full_sort_predict(EVERYBODY).clone()
    assert not torch.allclose(first, second) and not torch.allclose(second, third)
    before = versions(model)
    assert model._for_scores() is model._for_scores() and versions(model) == before, "kept while nothing changes"
    model.train()
    assert torch.equal(model.full_sort_predict(EVERYBODY), third)


@pytest.mark.parametrize("name", ["AdapTauMF", "AdapTauLightGCN", "SimGCL"])
def test_a_model_built_in_inference_mode_predicts(uneven, name):
    settings = settings_of(name, uneven)
    want = build(name, settings, "uneven").model.eval().full_sort_predict(EVERYBODY)
    with torch.inference_mode():
        model = build(name, settings, "uneven").model.eval()
        inside = model.full_sort_predict(EVERYBODY)
    assert torch.equal(inside, want) and torch.equal(model.full_sort_predict(EVERYBODY), want)
    pair = Interaction({"user_id": torch.tensor([1]), "item_id": torch.tensor([2])})
    assert model.predict(pair).item() == pytest.approx(want.view(USERS - 1, -1)[0, 2].item(), abs=1e-6)


def test_training_goes_on_after_an_evaluation_in_inference_mode(uneven):
    built = made({**uneven, "recipe": ["item_regression"]}, "AdapTauLightGCN")
    model, batch = built.model, next(iter(built.train))
    with torch.inference_mode():
        model.eval().full_sort_predict(EVERYBODY)
        model.begin_epoch(1)
        model.calculate_loss(batch)
    model.train()
    model.begin_epoch(1)
    model.calculate_loss(batch).backward()
    assert torch.isfinite(model.full_sort_predict(EVERYBODY)).all()


@pytest.mark.parametrize(
    ("changes", "scale"),
    [
        ({"tau_strategy": "fixed", "tau": 0.01, "tau_min": 0.01}, 1.0),
        ({"tau_strategy": "fixed", "tau": 0.5, "normalization": "Y-N"}, 300.0),
        ({"tau_strategy": "fixed", "tau": 0.5, "normalization": "N-Y"}, 300.0),
        ({"tau_strategy": "none"}, 30.0),
    ],
)
def test_the_largest_logits_do_not_overflow(uneven, changes, scale):
    """Cosines at the least temperature, and products of long embeddings: logits of 100 and more, in float64 beside."""
    built = made({**uneven, **changes, "negatives": "full"}, spread=50.0)
    model, batch = built.model, next(iter(built.train))
    tables = model.user_embedding.weight, model.item_embedding.weight
    with torch.no_grad():
        for table in tables:
            table *= scale
    users, items = (table.detach().double() for table in tables)
    sides = {"auto": "N-N" if changes["tau_strategy"] == "none" else "Y-Y"}.get(
        built.config["normalization"], built.config["normalization"]
    )
    users, items = (
        F.normalize(table, dim=1) if side == "Y" else table
        for table, side in zip((users, items), sides[::2], strict=True)
    )
    logits = users[batch["user_id"]] @ items[1:].T / changes.get("tau", 1.0)
    assert logits.max() > 90
    want = F.cross_entropy(logits, batch["item_id"] - 1)
    loss = model.calculate_loss(batch)
    assert loss.item() == pytest.approx(want.item(), rel=1e-4)
    loss.backward()
    assert all(torch.isfinite(table.grad.to_dense()).all() for table in tables)


def test_evaluating_changes_the_mode_alone_and_gives_it_back_after_an_error(uneven):
    model = build("AdapTauLightGCN", {**uneven, "message_dropout": 0.5}, "uneven").model.train()
    model.loss.eval()
    modes = [part.training for part in model.modules()]
    with pytest.raises(ZeroDivisionError), evaluating(model):
        assert not any(part.training for part in model.modules())
        raise ZeroDivisionError
    assert [part.training for part in model.modules()] == modes and not all(modes)


def test_more_recommendations_than_items_are_refused(uneven):
    items = build("AdapTauMF", uneven, "uneven").model.n_items - 1
    assert build("AdapTauMF", {**uneven, "topk": [items], "valid_metric": f"NDCG@{items}"}, "uneven").model
    with pytest.raises(DataError, match=f"has only {items} items"):
        build("AdapTauMF", {**uneven, "topk": [2, items + 1], "valid_metric": "NDCG@2"}, "uneven")


@pytest.mark.parametrize("learner", ["adam", "row_adam"])
def test_a_new_model_has_rows_of_zeros_for_the_padding_alone_and_the_start_of_its_parts(uneven, learner):
    plain, started = (
        build("AdapTauMF", {**uneven, "learner": learner, "recipe": recipe}, "uneven").model
        for recipe in ("none", ["spectral_start"])
    )
    for name in ("user_embedding", "item_embedding"):
        tables = [getattr(model, name) for model in (plain, started)]
        assert all(table.sparse == (learner == "row_adam") for table in tables)
        assert all(not table.weight[0].any() and table.weight[1:].any(1).all() for table in tables)
        assert not torch.allclose(*(table.weight for table in tables))


@pytest.mark.parametrize("name", ["AdapTauMF", "AdapTauLightGCN"])
def test_a_new_model_is_xavier_uniform_and_every_user_starts_at_the_setting(uneven, name):
    model = build(name, {**uneven, "tau_strategy": "learned_user", "tau": 0.3}, "uneven").model
    for table in (model.user_embedding.weight, model.item_embedding.weight):
        bound = (6 / sum(table.shape)) ** 0.5
        assert 0.9 * bound < table.abs().max() <= bound
    torch.testing.assert_close(model.user_temperatures(), torch.full((model.n_users,), 0.3))


def test_a_learned_temperature_is_read_off_the_users_embedding(uneven):
    model = made({**uneven, "tau_strategy": "learned_user"}).model
    with torch.no_grad():
        model.strategy.last_layer.weight.normal_(generator=torch.Generator().manual_seed(2))
    users = F.normalize(model.user_embedding.weight, dim=1)
    want = model.strategy.tau(torch.arange(model.n_users), users).detach()
    torch.testing.assert_close(model.user_temperatures(), want)
    seen = model.begin_epoch(0)
    of_active = want[model.interactions.active_users]
    assert [seen[f"tau_u_{kind}"] for kind in ("min", "mean", "max")] == pytest.approx(
        [of_active.min().item(), of_active.mean().item(), of_active.max().item()]
    )
    assert of_active.min() < 0.9 * of_active.max()


def test_an_epoch_begins_for_the_loss_and_the_negatives_too(uneven, monkeypatch):
    model = made(uneven).model
    told = []
    monkeypatch.setattr(model.loss, "begin_epoch", lambda view: told.append(("loss", view.epoch)))
    monkeypatch.setattr(model.negatives, "begin_epoch", lambda: told.append("negatives"))
    model.begin_epoch(3)
    assert sorted(map(str, told)) == ["('loss', 3)", "negatives"]


def test_what_several_parts_give_is_added_up_or_multiplied(uneven):
    model = made({**uneven, "recipe": PARTS, "loss_user_balance": 0.7}).model
    prior, weighting = model.parts
    model.parts = torch.nn.ModuleList([prior, weighting, prior, weighting, prior, weighting])
    torch.testing.assert_close(model._sum_of(RecipePart.item_logits), 3 * prior.item_logits())
    torch.testing.assert_close(model._product_of(RecipePart.row_weights), weighting.row_weights() ** 3)


def test_scores_are_written_where_they_are_asked_for(uneven):
    model = made(uneven).model.eval()
    users = torch.tensor([2, 5])
    out = torch.empty(2, model.n_items)
    assert model.score_items(users, out) is out and torch.equal(out, model.score_items(users))


def test_gradients_hold_a_batchs_rows_alone_where_the_learner_updates_those(uneven):
    for learner, sparse in (("adam", False), ("row_adam", True), ("Row_Adam", True)):
        built = made({**uneven, "learner": learner})
        built.model.begin_epoch(0)
        built.model.train().calculate_loss(next(iter(built.train))).backward()
        assert built.model.user_embedding.weight.grad.is_sparse == sparse
        assert built.model.item_embedding.weight.grad.is_sparse == sparse


def test_an_evaluation_after_training_sees_weights_that_were_changed_unseen(uneven):
    """A fused optimiser writes without counting up a tensor's version."""
    model = made(uneven).model.eval()
    before = model.score_items(torch.tensor([3]))
    model.train()
    model.user_embedding.weight.data.neg_()
    torch.testing.assert_close(model.eval().score_items(torch.tensor([3])), -before)


@pytest.mark.parametrize("learner", ["row_adam", "ROW_ADAM"])
def test_what_needs_whole_tables_is_refused_with_rows_alone(uneven, learner):
    for setting, message in (
        ({"weight_decay": 0.1}, "weight_decay = 0.1 shrinks all rows"),
        ({"clip_grad_norm": {"max_norm": 5.0}}, "clip_grad_norm needs gradients of whole tables"),
    ):
        with pytest.raises(OptionError, match=message):
            build("AdapTauMF", {**uneven, **setting, "learner": learner}, "uneven")
        assert build("AdapTauMF", {**uneven, **setting, "learner": "adam"}, "uneven").model
