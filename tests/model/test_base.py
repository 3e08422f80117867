"""The models: the loss against a naive loop, prediction, padding, and planted data that must be learned."""

import math

import numpy as np
import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.model import AdapTauLightGCN, AdapTauMF, AdapTauRecommender
from recbole_adaptau.model.registry import register
from recbole_adaptau.recipe import RecipePart
from recbole_adaptau.recipe.item_regression import neighbour_weights
from tests.helpers import build, trainer_of

MODELS = ["AdapTauMF", "AdapTauLightGCN"]
STRATEGIES = ["none", "fixed", "learned", "learned_user", "adaptive", "adaptive_user"]
# RecBole divides the batch by the number of negatives: 320 rows are 64 positives.
PER_ROW = {
    "negatives": "per_row",
    "train_neg_sample_args": {"distribution": "uniform", "sample_num": 5},
    "train_batch_size": 320,
}
NEGATIVES = {
    "shared": {"negatives": "shared", "num_negatives": 20},
    "popular": {"negatives": "shared", "num_negatives": 20, "negative_distribution": "popularity"},
    "in_batch": {"negatives": "in_batch"},
    "full": {"negatives": "full"},
    "masked": {"negatives": "full", "mask_hits": True},
    "per_row": PER_ROW,
}


def naive_loss(model, users, positives, negatives_of_row, tau, positive_tau):
    """Mean of -log(exp(pos / tau) / (exp(pos / tau) + Σ exp(neg / tau))), one row and one item at a time.

    Every logit has its item's prior added, where there is one.
    """
    all_users, all_items = (table.double() for table in model.encode())
    added = model._sum_of(RecipePart.item_logits)
    prior = [0.0] * model.n_items if added is None else added.double()
    total = 0.0
    for row, (user, positive) in enumerate(zip(users.tolist(), positives.tolist(), strict=True)):
        normal = model.normalize_users
        u = all_users[user] / (all_users[user].norm() if normal else 1.0)

        def score(item, u=u, normal=normal):
            return u @ (all_items[item] / (all_items[item].norm() if normal else 1.0))

        t = tau[row].double()
        pos = torch.exp(score(positive) / positive_tau[row].double() + prior[positive])
        neg = sum(torch.exp(score(item) / t + prior[item]) for item in negatives_of_row[row])
        inside = pos + neg if model.loss.settings.positive_in_denominator else neg
        total = total - torch.log(pos / inside)
    return total / len(users)


@pytest.mark.parametrize("mode", ["shared", "full", "per_row"])
@pytest.mark.parametrize("authors", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("recipe", ["none", "popularity_prior"])
def test_loss_and_gradient_equal_the_naive_loop(board, name, authors, mode, recipe):
    changes = {"positive_tau": "tau_0", "positive_in_denominator": False} if authors else {}
    changes["recipe"] = recipe
    built = build(name, {**board, **NEGATIVES[mode], **changes})
    model = built.model
    model.begin_epoch(0)
    model.strategy.tau_u.copy_(torch.linspace(0.2, 0.9, model.n_users))
    batch = next(iter(built.train))
    users, positives, negatives = model._rows(batch)
    torch.manual_seed(5)
    loss = model.calculate_loss(batch)
    torch.manual_seed(5)
    if mode == "per_row":
        rows = [row.tolist() for row in negatives]
    else:
        model.negatives.begin_epoch()  # the same shuffle again
        drawn = model.negatives.draw(users, positives)
        rows = [[item for item in drawn.items.tolist() if item != positive] for positive in positives.tolist()]
    tau = model.strategy.tau_u[users]
    positive_tau = model.strategy.tau_0.expand_as(tau) if authors else tau
    want = naive_loss(model, users, positives, rows, tau, positive_tau)
    assert loss.item() == pytest.approx(want.item(), rel=1e-5)
    tables = (model.user_embedding.weight, model.item_embedding.weight)
    for ours, naive in zip(torch.autograd.grad(loss, tables), torch.autograd.grad(want, tables), strict=True):
        ours = ours.to_dense()  # rows only, for a learner that updates rows
        assert torch.allclose(ours, naive.float(), atol=1e-5)
        assert (ours[0] == 0).all(), "padding gets no gradient"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategys_loss_and_gradient(board, strategy):
    """Of the embeddings, and of what the strategy itself learns, against the naive loop at the same temperatures."""
    built = build("AdapTauMF", {**board, "tau_strategy": strategy, "negatives": "full"})
    model, batch = built.model, next(iter(built.train))
    with torch.no_grad():
        for parameter in model.strategy.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    model.begin_epoch(0)
    loss = model.calculate_loss(batch)
    users, positives, _ = model._rows(batch)
    every = [[i for i in range(1, model.n_items) if i != p] for p in positives.tolist()]
    tau = model.strategy.tau(users, torch.nn.functional.normalize(model.user_embedding(users), dim=1))
    want = naive_loss(model, users, positives, every, tau, tau)
    assert loss.item() == pytest.approx(want.item(), rel=1e-5)
    parameters = list(model.parameters())
    assert len(parameters) == 2 + {"learned": 1, "learned_user": 5}.get(strategy, 0)
    for ours, naive in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(want, parameters), strict=True):
        assert ours.abs().sum() > 0 and torch.allclose(ours.to_dense(), naive.to_dense(), atol=1e-5)


def test_user_losses_are_the_mean_softmax_loss_at_the_common_temperature(board):
    """48 items are fewer than are drawn, so nothing is estimated."""
    model = build("AdapTauMF", {**board, "negatives": "full"}).model
    view = EpochView(1, model._training_embeddings, model.interactions)
    users, items = model.interactions.users, model.interactions.items
    active = model.interactions.active_users.tolist()
    for user, loss in list(zip(active, view.user_losses(0.5).tolist(), strict=True))[::5]:
        own = items[users == user]
        every = [[i for i in range(1, model.n_items) if i != p] for p in own.tolist()]
        tau = torch.full((len(own),), 0.5)
        want = naive_loss(model, torch.full_like(own, user), own, every, tau, tau)
        assert loss == pytest.approx(want.item(), rel=1e-5)


def test_l2_is_the_batchs_squares_over_twice_its_size(board):
    built = build("AdapTauLightGCN", {**board, "negatives": "full", "reg_weight": 0.3})
    model, batch = built.model, next(iter(built.train))
    users, positives, _ = model._rows(batch)
    u, i = model.user_embedding.weight, model.item_embedding.weight
    squares = sum(u[x].square().sum() for x in users) + sum(i[x].square().sum() for x in positives)
    plain = build("AdapTauLightGCN", {**board, "negatives": "full"}).model
    difference = model.calculate_loss(batch) - plain.calculate_loss(batch)
    assert difference.item() == pytest.approx(0.3 * squares.item() / (2 * len(users)), rel=1e-3)


@pytest.mark.parametrize("sides", ["Y-Y", "Y-N", "N-Y", "N-N"])
@pytest.mark.parametrize("score", ["auto", "cosine", "inner_product"])
@pytest.mark.parametrize("prior", [True, False])
@pytest.mark.parametrize("neighbours", [0, 5])
def test_predict_equals_full_sort_predict_and_the_asked_score(board, sides, score, prior, neighbours):
    settings = {**board, "tau_strategy": "fixed", "tau": 0.3, "normalization": sides, "test_score": score}
    settings["recipe"] = ["popularity_prior"] * prior + ["item_regression"] * (neighbours > 0)
    settings |= {"item_neighbours": neighbours, "regression_weight": 0.7} if neighbours else {}
    model = build("AdapTauLightGCN", settings).model
    model.eval()
    users = torch.arange(1, model.n_users)
    everything = model.full_sort_predict(Interaction({"user_id": users})).view(len(users), model.n_items)
    items = users % (model.n_items - 1) + 1
    pairs = model.predict(Interaction({"user_id": users, "item_id": items}))
    assert torch.allclose(pairs, everything[torch.arange(len(users)), items], atol=1e-6)
    u, i = model.encode()
    normal = {
        "auto": (sides[0] == "Y", sides[2] == "Y"),
        "cosine": (True, True),
        "inner_product": (False, False),
    }
    u = u / u.norm(dim=1, keepdim=True).clamp_min(1e-12) if normal[score][0] else u
    i = i / i.norm(dim=1, keepdim=True).clamp_min(1e-12) if normal[score][1] else i
    want = (u @ i.T)[users]
    if neighbours:
        pairs = model.interactions.matrix() @ neighbour_weights(model.interactions, neighbours).T
        assert pairs.nnz
        want = want + 0.7 * torch.from_numpy(pairs.toarray())[users]
    if prior:
        want = want / 0.3 + torch.log(1.0 + model.interactions.item_counts)
    assert torch.allclose(everything, want, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_scaling_an_embedding_changes_no_cosine_score(board, name):
    model = build(name, {**board, **({} if name == "AdapTauMF" else {"n_layers": 0})}).model.eval()
    users = Interaction({"user_id": torch.arange(1, model.n_users)})
    before = model.full_sort_predict(users)
    with torch.no_grad():
        model.user_embedding.weight[1] *= 7.0
        model.item_embedding.weight[2] *= 0.01
    assert torch.allclose(before, model.full_sort_predict(users), atol=1e-6)


def test_predictions_follow_the_weights_even_when_an_optimiser_hides_its_writes(board):
    built = build("AdapTauMF", {**board, "learner": "adam"})
    model = built.model
    users = Interaction({"user_id": torch.arange(1, model.n_users)})
    model.eval()
    before = model.full_sort_predict(users)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    model.train()
    model.begin_epoch(0)
    model.calculate_loss(next(iter(built.train))).backward()
    optimiser.step()
    model.eval()
    after = model.full_sort_predict(users)
    assert not torch.allclose(before, after)
    other = build("AdapTauMF", {**board, "seed": 7}).model
    model.load_state_dict(other.state_dict())
    assert torch.equal(model.full_sort_predict(users), other.eval().full_sort_predict(users))


def rank_of_test_items(built) -> np.ndarray:
    """How many unseen items rank above each user's held-out test item (validation items left out)."""
    model = built.model.eval()
    users = built.test.uid_list
    scores = model.full_sort_predict(Interaction({"user_id": users})).view(len(users), -1)
    scores[:, 0] = -torch.inf
    for row, user in enumerate(users.tolist()):
        scores[row, built.test.uid2history_item[user]] = -torch.inf
    held_out = torch.stack([built.test.uid2positive_item[user][0] for user in users.tolist()])
    return (scores > scores.gather(1, held_out[:, None])).sum(1).numpy()


@pytest.mark.parametrize("mode", list(NEGATIVES))
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_the_checkerboard_is_learned(board, name, strategy, mode):
    """A user's colour is plain from the rest, so the held-out item of that colour must come first."""
    if mode == "masked" and strategy.startswith("learned"):
        pytest.skip(reason="a learned temperature sinks without hits in the way, and memorises the few unseen items")
    settings = {
        **board, **NEGATIVES[mode], "tau_strategy": strategy, "learning_rate": 0.02, "epochs": 15,
        "eval_step": 15, "lr_schedule": "constant",
    }  # fmt: skip
    built = build(name, settings)
    trainer_of(built).fit(built.train, built.valid, saved=False)
    ranks = rank_of_test_items(built)
    assert (ranks == 0).mean() >= (0.8 if strategy.startswith("learned") else 0.9), ranks
    assert all(torch.isfinite(p).all() for p in built.model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_noisy_users_get_a_higher_temperature(tmp_path, board, name):
    """Half of the users get random items instead of those of their colour: their tau_u must be the higher."""
    from tests.conftest import checkerboard, write_inter

    rng = np.random.default_rng(3)
    train, valid, test = checkerboard(40, 60, 4)
    noisy = {f"u{user}" for user in range(0, 40, 2)}
    train = [(u, f"i{rng.integers(60)}" if u in noisy else i) for u, i in train]
    for part, pairs in zip(("train", "valid", "test"), (train, valid, test), strict=True):
        write_inter(tmp_path / "data", "noisy", pairs, part)
    built = build(name, {**board, "learning_rate": 0.02, "epochs": 25, "eval_step": 25}, "noisy")
    trainer_of(built).fit(built.train, built.valid, saved=False)
    built.model.begin_epoch(25)
    tokens = built.dataset.id2token("user_id", np.arange(1, built.model.n_users))
    tau = built.model.strategy.tau_u[1:].numpy()
    is_noisy = np.array([token in noisy for token in tokens])
    assert tau[is_noisy].mean() > tau[~is_noisy].mean() * 1.02
    assert tau[is_noisy].min() > np.median(tau[~is_noisy])


def test_lightgcn_without_layers_is_mf_and_layers_follow_recboles_lightgcn(board):
    mf, none = build("AdapTauMF", board).model, build("AdapTauLightGCN", {**board, "n_layers": 0}).model
    assert isinstance(mf, AdapTauMF) and isinstance(none, AdapTauLightGCN)
    for a, b in zip(mf.encode(), none.encode(), strict=True):
        assert torch.equal(a, b)
    ours = build("AdapTauLightGCN", {**board, "n_layers": 3}).model
    plain = {key: value for key, value in board.items() if key not in ("topk", "valid_metric")}
    theirs = build("LightGCN", {**plain, "n_layers": 3}).model
    theirs.load_state_dict(ours.state_dict(), strict=False)
    for a, b in zip(ours.encode(), theirs.forward(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_the_epoch_event_reports_what_the_paper_watches(board):
    model = build("AdapTauMF", board).model
    state = model.begin_epoch(0)
    assert set(state) == {"tau_0", "tau_u_min", "tau_u_mean", "tau_u_max", "gap", "gradient"}
    assert all(math.isfinite(value) for value in state.values())
    assert state["tau_0"] == pytest.approx(0.7 / math.log(48 * 48 / (2 * 48 * 10)), rel=1e-5)
    assert state["gradient"] > 0


def test_a_backbone_is_one_method_and_says_so_when_it_is_missing(board):
    @register
    class Shifted(AdapTauRecommender):
        def encode(self):
            return self.user_embedding.weight + 0.1, self.item_embedding.weight

    class Nothing(AdapTauRecommender):
        pass

    built = build("Shifted", {**board, "epochs": 2})
    trainer_of(built).fit(built.train, built.valid, saved=False)
    with pytest.raises(TypeError, match=r"abstract method '?encode"):
        Nothing(built.config, built.train._dataset)
