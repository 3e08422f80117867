"""Our evaluation gives RecBole's batches, RecBole's metrics, to the last digit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.data.interaction import Interaction
from recbole.evaluator import Collector, Evaluator

from recbole_adaptau.training.evaluation import (
    EvalBatches,
    ScoreBuffer,
    TopkCollector,
    _rows,
    _totals,
    top_items,
)
from tests.helpers import build, trainer_of

POPULARITY = ["ItemCoverage", "GiniIndex", "AveragePopularity", "TailPercentage", "ShannonEntropy"]


@pytest.mark.parametrize("part", ["valid", "test"])
def test_batches_are_recboles(board, part):
    loader = getattr(build("AdapTauMF", {**board, "eval_batch_size": 300}), part)
    assert EvalBatches.fits(loader)
    fast = EvalBatches(loader)
    batches = list(zip(loader, fast, strict=True))
    assert len(batches) == len(fast) > 3
    for theirs, ours in batches:
        assert torch.equal(theirs[0]["user_id"], ours[0]["user_id"])
        for a, b in (
            (theirs[1][0], ours[1][0]),
            (theirs[1][1], ours[1][1]),
            (theirs[2], ours[2]),
            (theirs[3], ours[3]),
        ):
            assert torch.equal(a, b)


@pytest.mark.parametrize(
    "metrics", [["Recall", "NDCG", "MRR", "Hit", "Precision", "MAP"], POPULARITY, ["GAUC", "Recall"]]
)
def test_every_metric_equals_recboles(board, metrics):
    settings = {
        **board,
        "metrics": metrics,
        "topk": [2, 5],
        "valid_metric": metrics[0] + ("" if "GAUC" in metrics else "@5"),
    }
    built = build("AdapTauMF", settings)
    results = []
    for kind in (Collector, TopkCollector):
        torch.manual_seed(0)
        collector = kind(built.config)
        collector.data_collect(built.train)
        for users, history, positive_u, positive_i in built.test:
            # Few different values, so that ties are common.
            scores = torch.randint(0, 6, (len(users), built.dataset.item_num)).float()
            scores[:, 0] = -torch.inf
            scores[history] = -torch.inf
            collector.eval_batch_collect(scores, users, positive_u, positive_i)
        results.append(Evaluator(built.config).evaluate(collector.get_data_struct()))
    assert results[0] == results[1] and len(results[0]) >= 2


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10_000), st.integers(1, 12), st.integers(20, 700), st.sampled_from([3, 50, 1 << 30]), st.booleans()
)
def test_top_items_are_topks_whatever_the_width_and_the_ties(seed, k, width, different, masked):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(0, different, (9, width), generator=generator).double()
    if masked:
        scores[torch.rand(9, width, generator=generator) < 0.97] = -torch.inf
    assert torch.equal(top_items(scores, k), torch.topk(scores, k).indices)


def test_users_without_positives_in_the_batch_count_zero(board):
    collector = TopkCollector(build("AdapTauMF", {**board, "topk": [1], "valid_metric": "NDCG@1"}).config)
    collector.eval_batch_collect(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), None, torch.tensor([1]), torch.tensor([0]))
    assert collector.data_struct.get("rec.topk").tolist() == [[0, 0], [1, 1]]


def test_the_last_positive_of_a_batch_is_found(board):
    collector = TopkCollector(build("AdapTauMF", {**board, "topk": [1], "valid_metric": "NDCG@1"}).config)
    positives = torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2])
    collector.eval_batch_collect(torch.tensor([[0.0, 1.0, 0.5], [0.0, 1.0, 2.0]]), None, *positives)
    assert collector.data_struct.get("rec.topk").tolist() == [[1, 1], [1, 2]]


def test_the_trainer_uses_it_and_encodes_once_per_evaluation(board):
    built = build("AdapTauLightGCN", {**board, "eval_batch_size": 300})
    trainer = trainer_of(built)
    assert isinstance(trainer.eval_collector, TopkCollector)
    calls = []
    encode = built.model.encode
    built.model.encode = lambda: calls.append(1) or encode()
    first = trainer.evaluate(built.test, load_best_model=False)
    second = trainer.evaluate(built.test, load_best_model=False)
    assert first == second and len(calls) == 2 and len(built.test) > 3
    users = Interaction({"user_id": torch.tensor([1])})
    built.model.full_sort_predict(users)
    assert len(calls) == 2


def test_scores_share_memory_between_batches_but_not_with_predictions(board):
    built = build("AdapTauMF", {**board, "eval_batch_size": 300})
    trainer = trainer_of(built)
    batches = list(EvalBatches(built.test))
    users = batches[0][0]
    kept = built.model.full_sort_predict(users)
    before = kept.clone()
    places = {trainer._full_sort_batch_eval(batch)[1].data_ptr() for batch in batches}
    assert len(places) == 1 and torch.equal(kept, before)


def test_positives_in_any_order_and_users_without_any_at_the_end(board):
    """Hits of a brute force; the last user of the batch has no positive."""
    collector = TopkCollector(build("AdapTauMF", {**board, "topk": [2], "valid_metric": "NDCG@2"}).config)
    torch.manual_seed(0)
    scores = torch.rand(4, 9)
    who, what = torch.tensor([2, 0, 2, 1, 0, 2]), torch.tensor([7, 8, 1, 3, 2, 4])
    scores[[2, 0, 1], [1, 2, 3]] += 1.0
    collector.eval_batch_collect(scores, None, who, what)
    top = torch.topk(scores, 2).indices.tolist()
    pairs = set(zip(who.tolist(), what.tolist(), strict=True))
    want = [[int((u, i) in pairs) for i in top[u]] + [who.tolist().count(u)] for u in range(4)]
    assert collector.data_struct.get("rec.topk").tolist() == want and sum(sum(row[:2]) for row in want) > 0


def test_a_later_and_larger_batch_gets_scores_of_its_own_size(board):
    built = build("AdapTauMF", board)
    model = built.model.eval()
    scores = ScoreBuffer()
    for users in (torch.tensor([3]), torch.arange(1, 20), torch.tensor([5, 4])):
        seen = torch.zeros(len(users), dtype=torch.long), torch.full((len(users),), 7)
        want = model.full_sort_predict(Interaction({"user_id": users})).view(len(users), -1).clone()
        want[:, 0] = want[0, 7] = -torch.inf
        assert torch.equal(scores.scores(model, users, seen), want)
    with torch.inference_mode():
        ScoreBuffer.scores(scores, model, torch.arange(1, 40), None)
    assert torch.isneginf(scores.scores(model, torch.arange(1, 40), None)[:, 0]).all(), "memory made in that mode"


def test_history_and_positives_of_users_with_none_at_either_end():
    assert _rows(torch.tensor([0, 2, 0, 1, 0])).tolist() == [1, 1, 3]
    assert _totals(torch.tensor([1, 2, 3, 4, 5]), 2) == [3, 7, 5]


def test_a_loader_without_users_is_left_to_recbole():
    loader = FullSortEvalDataLoader.__new__(FullSortEvalDataLoader)
    vars(loader).update(is_sequential=False, num_workers=0, uid_list=torch.arange(0))
    assert not EvalBatches.fits(loader)
    vars(loader).update(uid_list=torch.arange(3))
    assert EvalBatches.fits(loader)
    for other in ({"is_sequential": True}, {"num_workers": 2}):
        vars(loader).update(is_sequential=False, num_workers=0)
        vars(loader).update(other)
        assert not EvalBatches.fits(loader)
