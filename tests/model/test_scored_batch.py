"""What a model hands to its loss: a batch whose parts agree with each other and with the tables."""

import pytest
import torch
import torch.nn.functional as F

from tests.model.test_heart import PER_ROW, made

MODES = {
    "shared": {},
    "in batch": {"negatives": "in_batch"},
    "full": {"negatives": "full"},
    "per row": PER_ROW,
}


def handed_over(settings: dict):
    """The model, the rows of a batch and the ScoredBatch that its loss was given."""
    built = made(settings)
    model = built.model.train()
    model.begin_epoch(0)
    rows = next(iter(built.train))
    seen = []
    handle = model.loss.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    loss = model.calculate_loss(rows)
    handle.remove()
    return model, rows, seen[0], loss


@pytest.mark.parametrize("mode", MODES)
def test_all_forms_of_the_negatives_are_the_same_scores(mode, uneven):
    """Their log-sum-exp, the scores at once and the means of pairs; the means are missing for negatives by row."""
    model, rows, batch, _ = handed_over({**uneven, **MODES[mode], "recipe": ["popularity_prior"]})
    own = len(rows) // (3 if mode == "per row" else 1)  # per_row has each row once for each of its negatives
    rows = {name: rows[name][:own] for name in ("user_id", "item_id")}
    assert torch.equal(batch.users, rows["user_id"])
    users = F.normalize(model.user_embedding.weight, dim=1)[rows["user_id"]]
    items = F.normalize(model.item_embedding.weight, dim=1)[rows["item_id"]]
    torch.testing.assert_close(batch.positive, (users * items).sum(1))
    scores, log_weight = batch.scores()
    log_weight = torch.zeros(1) if log_weight is None else log_weight
    logits = scores / batch.tau.unsqueeze(1) + log_weight
    torch.testing.assert_close(batch.logsumexp(batch.tau), torch.logsumexp(logits, 1))
    if mode == "per row":
        assert batch.pair_means is None
        return
    means, total = batch.pair_means(batch.positive, batch.tau, lambda d, tau: (d * 1, tau * torch.ones_like(d)))
    weights = torch.where(torch.isneginf(scores), 0.0, log_weight.expand_as(scores).exp())
    differences = torch.where(torch.isneginf(scores), 0.0, scores) - batch.positive.unsqueeze(1)
    torch.testing.assert_close(means, (weights * differences).sum(1) / weights.sum(1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(total, weights.sum(1).log())


def test_slatk_weighs_each_row_by_its_users_own_quantile(uneven):
    settings = {**uneven, "loss": "slatk", "slatk_k": 3, "slatk_tau": 0.5}
    model, rows, batch, loss = handed_over(settings)
    users, items = (F.normalize(t.weight.double(), dim=1) for t in (model.user_embedding, model.item_embedding))
    third = (users @ items[1:].T).sort(dim=1, descending=True).values[:, 2]
    above = batch.positive.double() - third[rows["user_id"]]
    softmax = F.softplus(batch.logsumexp(batch.tau) - batch.positive / batch.tau)
    torch.testing.assert_close(loss.double(), (softmax.double() / (1 + torch.exp(-above / 0.5))).mean())
    assert above.std() > 0.1
