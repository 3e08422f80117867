"""What every loss keeps to; one that is registered is tested here by itself."""

import dataclasses

import pytest
import torch

from recbole_adaptau.core.logsumexp import row_logsumexp
from recbole_adaptau.core.losses import LOSSES, ScoredBatch
from tests.helpers import build, trainer_of

ROWS, NEGATIVES = 6, 15


def batch(positive: torch.Tensor, negatives: torch.Tensor, tau: float = 0.3) -> ScoredBatch:
    taus = torch.full((len(positive),), tau, dtype=positive.dtype)
    return ScoredBatch(
        positive=positive,
        positive_logit=None,
        tau=taus,
        tau_0=torch.tensor(tau, dtype=positive.dtype),
        logsumexp=lambda at: row_logsumexp(negatives, at),
        scores=lambda: (negatives, None),
    )


def scores(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    cosines = 2 * torch.rand(ROWS, NEGATIVES + 1, generator=generator, dtype=torch.float64) - 1
    return cosines[:, 0], cosines[:, 1:]


@pytest.mark.parametrize("name", LOSSES)
class TestEveryLoss:
    def test_a_loss_for_every_row_and_no_reduction(self, name):
        positive, negatives = scores()
        losses = LOSSES[name]()(batch(positive, negatives))
        assert losses.shape == (ROWS,) and torch.isfinite(losses).all()
        alone = torch.cat([LOSSES[name]()(batch(positive[r : r + 1], negatives[r : r + 1])) for r in range(ROWS)])
        torch.testing.assert_close(losses, alone)

    def test_it_falls_as_the_positive_rises_and_rises_with_a_negative(self, name):
        positive, negatives = scores()
        loss = LOSSES[name]()
        before = loss(batch(positive, negatives))
        after = loss(batch(positive + 0.1, negatives))
        assert (after <= before).all() and (after < before).any()
        higher = negatives.clone()
        higher[:, 3] += 0.5
        assert (loss(batch(positive, higher)) >= before).all() and (loss(batch(positive, higher)) > before).any()

    def test_the_order_of_the_negatives_does_not_matter(self, name):
        positive, negatives = scores()
        loss = LOSSES[name]()
        torch.testing.assert_close(loss(batch(positive, negatives)), loss(batch(positive, negatives.flip(1))))

    def test_the_gradient_is_that_of_finite_differences(self, name):
        positive, negatives = (x.clone().requires_grad_() for x in scores(3))
        assert torch.autograd.gradcheck(lambda p, n: LOSSES[name]()(batch(p, n)), (positive, negatives))

    def test_an_added_logit_of_the_positive_lowers_it(self, name):
        """What a recipe part adds to the positive counts: a loss that reads the bare score alone would miss it."""
        plain = batch(*scores())
        added = dataclasses.replace(plain, positive_logit=torch.full((ROWS,), 0.5).double())
        before, after = LOSSES[name]()(plain), LOSSES[name]()(added)
        assert (after <= before).all() and (after < before).any()

    def test_a_row_without_negatives_costs_nothing(self, name):
        positive, negatives = scores()
        negatives = torch.cat([negatives[:1] * 0 - torch.inf, negatives[1:]])
        positive = positive.clone().requires_grad_()
        losses = LOSSES[name]()(batch(positive, negatives))
        (gradient,) = torch.autograd.grad(losses.sum(), positive)
        assert losses[0] == 0 and torch.isfinite(losses).all() and torch.isfinite(gradient).all()

    def test_a_model_trains_with_it(self, name, board):
        strategy = "none" if name == "bpr" else "adaptive_user"
        built = build("AdapTauMF", {**board, "loss": name, "epochs": 2, "slatk_k": 5, "tau_strategy": strategy})
        trainer_of(built).fit(built.train, built.valid, saved=False)
        assert all(torch.isfinite(parameter).all() for parameter in built.model.parameters())
