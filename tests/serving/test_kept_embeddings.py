"""Which vectors are taken for those behind a model's scores, with models made up for the purpose."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from recbole_adaptau.errors import OptionError
from recbole_adaptau.serving import Embeddings, embeddings_of
from recbole_adaptau.serving.embeddings import CHECKED_USERS, AddedScores

USERS, ITEMS, SIZE = 40, 12, 3
ACTIVE = torch.arange(5, USERS)


class Kept(torch.nn.Module):
    """RecBole's kind of model: two tables, and scores that are their products times a factor plus a difference."""

    USER_ID = "user_id"

    def __init__(self, factor: float = 1.0, more: float = 0.0, sparse_rows: bool = False):
        super().__init__()
        self.n_users, self.n_items, self.factor, self.more = USERS, ITEMS, factor, more
        self.user_embedding, self.item_embedding = torch.nn.Embedding(USERS, SIZE), torch.nn.Embedding(ITEMS, SIZE)
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for table in (self.user_embedding.weight, self.item_embedding.weight):
                table.copy_(torch.randint(1, 5, table.shape, generator=draw))
            self.user_embedding.weight.mul_(torch.arange(USERS).unsqueeze(1))
            if sparse_rows:
                self.user_embedding.weight.zero_()
        self.asked: list[int] = []

    def full_sort_predict(self, interaction):
        users = self.user_embedding.weight[interaction["user_id"]]
        self.asked.append(len(users))
        scores = users @ self.item_embedding.weight.T * self.factor + self.more
        return scores.detach().flatten()


def test_a_few_users_are_compared_and_the_length_is_the_mean_over_all_active_ones():
    model = Kept()
    found = embeddings_of(model, ACTIVE)
    assert model.asked == [CHECKED_USERS]
    assert torch.equal(found.users, model.user_embedding.weight) and not found.has_bias and not found.added
    lengths = [np.linalg.norm(model.user_embedding.weight[user].detach().numpy()) for user in ACTIVE]
    assert found.user_length == pytest.approx(np.mean(lengths), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "alike"),
    [
        ({"factor": 1 + 0.8e-4}, True),
        ({"factor": 1 + 1.5e-4}, False),
        ({"sparse_rows": True, "more": 0.9e-5}, True),
        ({"sparse_rows": True, "more": 1.1e-5}, False),
    ],
)
def test_scores_may_differ_by_rounding_alone(changes, alike):
    if alike:
        assert embeddings_of(Kept(**changes), ACTIVE).users.shape == (USERS, SIZE)
    else:
        with pytest.raises(OptionError, match="scores of Kept are not inner products"):
            embeddings_of(Kept(**changes), ACTIVE)


@pytest.mark.parametrize("missing", ["user_embedding", "item_embedding"])
def test_one_table_is_not_enough(missing):
    model = Kept()
    table = getattr(model, missing)
    delattr(model, missing)
    model.full_sort_predict = lambda interaction: torch.zeros(CHECKED_USERS * ITEMS)
    assert table is not None
    with pytest.raises(OptionError, match="are not inner products"):
        embeddings_of(model, ACTIVE)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_all_that_is_added_can_be_written_as_one_matrix(number):
    """s[u] Σ_j W[i, j] over the user's items j is the sum of every part's own, for scales in one proportion."""
    rng = np.random.default_rng(number)
    scales = torch.from_numpy(rng.random(USERS) + 0.5)
    weights = [sp.random(ITEMS, ITEMS, 0.4, format="csr", random_state=place) for place in range(number)]
    factors = rng.random(number) + 0.5

    class Pairs:
        def __init__(self, weights):
            self.weights = sp.csr_array(weights)

    added = tuple(
        AddedScores(Pairs(part), scales * factor, 2.0 * factor) for part, factor in zip(weights, factors, strict=True)
    )
    found = Embeddings(torch.zeros(USERS, SIZE), torch.zeros(ITEMS, SIZE), False, 1.0, added)
    own = scales[:, None] * sum(factor * torch.from_numpy(part.toarray()).sum(1)
                                for part, factor in zip(weights, factors, strict=True))  # fmt: skip
    first, matrix = found.item_weights
    torch.testing.assert_close(first[:, None] * torch.from_numpy(matrix.toarray()).sum(1), own)
    liked = sp.csr_array(np.ones((1, ITEMS), np.float32))
    torch.testing.assert_close(found.scores_for(liked)[0].double(), 2 * own[0] / scales[0], rtol=1e-5, atol=1e-6)
