"""What every mode of negatives keeps to; one that is registered is tested here by itself."""

import pytest
import torch

from recbole_adaptau.core.negatives import NEGATIVES
from tests.helpers import build, interactions

MATRIX = (torch.rand(12, 40, generator=torch.Generator().manual_seed(0)) < 0.3).numpy()
ROWS, SIZE = 7, 5
# Every mode as it is, and forms of one that settings make.
FORMS = {
    **{name: (name, {}) for name in NEGATIVES},
    "shared by groups": ("shared", {"negative_groups": 3, "num_negatives": 9}),
    "shared by groups, popular": (
        "shared",
        {"negative_groups": 3, "num_negatives": 9, "negative_distribution": "popularity", "logq_correction": True},
    ),
}


def drawn(form: str):
    """A mode's negatives of a batch, its users and positives, and made-up embeddings of both sides."""
    torch.manual_seed(3)
    data = interactions(MATRIX)
    name, changes = FORMS[form]
    settings = NEGATIVES[name].Settings
    mode = NEGATIVES[name](data, settings.read({**settings.defaults(), **changes}))
    mode.begin_epoch()
    order = torch.randperm(len(data))[:ROWS]
    users, positives = data.users[order], data.items[order]
    found = mode.draw(users, positives, torch.randint(1, data.n_items, (ROWS, 4)) if mode.takes_sampled else None)
    return found, positives, torch.randn(ROWS, SIZE), torch.randn(found.items.numel(), SIZE)


@pytest.mark.parametrize("form", FORMS)
class TestEveryMode:
    def test_the_padding_is_never_a_negative(self, form):
        found, *_ = drawn(form)
        assert (found.items > 0).all() and (found.items <= MATRIX.shape[1]).all()

    def test_the_log_sum_exp_is_that_of_the_scores(self, form):
        found, _, users, items = drawn(form)
        added = torch.linspace(-1, 1, found.items.numel()).view(found.items.shape)
        tau = torch.linspace(0.5, 2.0, ROWS)
        scores, weight = found.scores(users, items, added)
        logits = scores / tau.unsqueeze(1) + (0.0 if weight is None else weight)
        got = found.logsumexp(users, items, added)(tau)
        torch.testing.assert_close(got, torch.logsumexp(logits, 1), rtol=1e-4, atol=1e-4)

    def test_the_means_over_negatives_are_those_of_the_scores(self, form):
        """Of a function of the differences to the positive, with the weights of the negatives."""
        found, _, users, items = drawn(form)
        added = torch.linspace(-1, 1, found.items.numel()).view(found.items.shape)
        means = found.pair_means(users, items, added)
        if means is None:
            pytest.skip(reason="each row has negatives of its own, and all scores stand at once")
        positive, tau = torch.linspace(-1, 1, ROWS), torch.linspace(0.5, 2.0, ROWS)
        scores, weight = found.scores(users, items, added)
        share = torch.where(torch.isneginf(scores), 0.0, torch.exp(weight).expand_as(scores))
        squares = torch.where(torch.isneginf(scores), 0.0, scores - positive[:, None]).square()
        got, log_weight = means(positive, tau, lambda d, tau: (d * d, 2 * d * tau))
        torch.testing.assert_close(got, (share * squares).sum(1) / share.sum(1), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(log_weight, share.sum(1).log(), rtol=1e-4, atol=1e-4)

    def test_a_rows_own_positive_is_not_its_negative(self, form):
        found, positives, *_ = drawn(form)
        if found.items.dim() == 2:
            pytest.skip(reason="negatives that come with the batch are RecBole's, which leaves positives out")
        # One item counts at a time: what its embedding adds to a row's sum shows whose negative it is.
        for item in set(positives.tolist()):
            with_it = found.logsumexp(torch.ones(ROWS, 1), 50.0 * (found.items == item).float()[:, None], None)
            assert (with_it(torch.ones(ROWS))[positives == item] < 25).all()

    def test_an_epoch_depends_on_its_random_state_alone(self, form, board):
        name, changes = FORMS[form]
        sampled = {"distribution": "uniform", "sample_num": 3}
        changes = {**changes, **({"train_neg_sample_args": sampled} if NEGATIVES[name].takes_sampled else {})}
        if "num_negatives" in NEGATIVES[name].Settings.model_fields:
            changes["num_negatives"] = 9  # less than the catalogue
        built = build("AdapTauMF", {**board, "negatives": name, **changes})
        batch = next(iter(built.train))
        losses = []
        for _ in range(2):
            torch.manual_seed(5)
            built.model.begin_epoch(0)
            losses.append(built.model.calculate_loss(batch).item())
        assert losses[0] == losses[1]
