"""What every mode of negatives keeps to; one that is registered is tested here by itself."""

import pytest
import torch

from recbole_adaptau.core.negatives import NEGATIVES
from tests.helpers import build, interactions

MATRIX = (torch.rand(12, 40, generator=torch.Generator().manual_seed(0)) < 0.3).numpy()
ROWS, SIZE = 7, 5


def drawn(name: str):
    """A mode's negatives of a batch, its users and positives, and made-up embeddings of both sides."""
    torch.manual_seed(3)
    data = interactions(MATRIX)
    mode = NEGATIVES[name](data)
    mode.begin_epoch()
    order = torch.randperm(len(data))[:ROWS]
    users, positives = data.users[order], data.items[order]
    found = mode.draw(users, positives, torch.randint(1, data.n_items, (ROWS, 4)) if mode.takes_sampled else None)
    return found, positives, torch.randn(ROWS, SIZE), torch.randn(found.items.numel(), SIZE)


@pytest.mark.parametrize("name", NEGATIVES)
class TestEveryMode:
    def test_the_padding_is_never_a_negative(self, name):
        found, *_ = drawn(name)
        assert (found.items > 0).all() and (found.items <= MATRIX.shape[1]).all()

    def test_the_log_sum_exp_is_that_of_the_scores(self, name):
        found, _, users, items = drawn(name)
        added = torch.linspace(-1, 1, found.items.numel()).view(found.items.shape)
        tau = torch.linspace(0.5, 2.0, ROWS)
        scores, weight = found.scores(users, items, added)
        logits = scores / tau.unsqueeze(1) + (0.0 if weight is None else weight)
        got = found.logsumexp(users, items, added)(tau)
        torch.testing.assert_close(got, torch.logsumexp(logits, 1), rtol=1e-4, atol=1e-4)

    def test_a_rows_own_positive_is_not_its_negative(self, name):
        found, positives, users, items = drawn(name)
        if found.items.dim() == 2:
            pytest.skip(reason="negatives that come with the batch are RecBole's, which leaves positives out")
        scores, _ = found.scores(users, items, None)
        for row, positive in enumerate(positives.tolist()):
            assert torch.isneginf(scores[row, found.items == positive]).all()

    def test_an_epoch_depends_on_its_random_state_alone(self, name, board):
        sampled = {"distribution": "uniform", "sample_num": 3}
        changes = {"train_neg_sample_args": sampled} if NEGATIVES[name].takes_sampled else {}
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
