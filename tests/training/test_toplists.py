"""Top lists and popularity groups against loops over users, and against RecBole's own metrics."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from recbole.data.interaction import Interaction

from recbole_adaptau.training.toplists import (
    TopLists,
    group_norms,
    group_statistics,
    popularity_groups,
    top_lists,
)

from ..helpers import build, trainer_of


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(any), st.integers(1, 12))
def test_groups_rise_with_popularity_and_hold_equally_many_interactions(counts, number):
    groups = popularity_groups(torch.tensor([0, *counts]), number)
    assert groups[0] == -1 and groups[1:].min() >= 0 and groups.max() < number
    mine = groups[1:].tolist()
    for first in range(len(counts)):
        for second in range(len(counts)):
            if (counts[first], first) <= (counts[second], second):
                assert mine[first] <= mine[second]
    # A group reaches over either of its bounds by at most half of one item.
    for group in range(number):
        held = sum(count for count, owner in zip(counts, mine, strict=True) if owner == group)
        assert held <= sum(counts) / number + max(counts)
    for item, count in enumerate(counts):
        if count == 0:
            assert mine[item] == 0


def test_equal_items_make_equal_groups():
    assert popularity_groups(torch.tensor([0] + [3] * 20), 10).tolist() == [-1] + [i // 2 for i in range(20)]


@pytest.fixture
def built(board):
    return build("AdapTauMF", {**board, "metrics": ["Recall", "NDCG"], "metric_decimal_place": 12})


@pytest.mark.parametrize("part", ["valid", "test"])
def test_lists_give_recboles_figures(built, part):
    loader = getattr(built, part)
    built.model.eval()
    lists = top_lists(built.model, loader, 5)
    trainer = trainer_of(built)
    trainer.eval_collector.data_collect(built.train)
    result = trainer.evaluate(loader, load_best_model=False)
    assert lists.recall().mean() == pytest.approx(result["recall@5"], abs=1e-9)
    assert lists.ndcg().mean() == pytest.approx(result["ndcg@5"], abs=1e-9)
    groups = popularity_groups(built.model.interactions.item_counts)
    assert lists.recall_by_group(groups).sum() == pytest.approx(lists.recall().mean())


def test_recall_by_group_is_a_loop_over_users(built):
    built.model.eval()
    lists = top_lists(built.model, built.test, 5)
    groups = popularity_groups(built.model.interactions.item_counts, 4)
    expected = np.zeros(4)
    for user, items in zip(lists.users.tolist(), lists.items.tolist(), strict=True):
        wanted = set(built.test.uid2positive_item[user].tolist())
        for item in set(items) & wanted:
            expected[groups[item]] += 1 / len(wanted) / len(lists.users)
    assert expected.sum() > 0
    assert lists.recall_by_group(groups, 4) == pytest.approx(expected)


def test_group_statistics_of_a_model(built):
    built.model.eval()
    found = group_statistics(built.model, built.valid, 5)
    data, tau = built.model.interactions, built.model.strategy.tau_0.item()
    users, items = built.model.user_embedding.weight, built.model.item_embedding.weight
    cosines = torch.cosine_similarity(users[data.users], items[data.items])
    assert found["positive_score"] == pytest.approx((cosines / tau).mean().item(), rel=1e-4)
    groups = popularity_groups(data.item_counts)
    for group, norm in enumerate(found["norms"]):
        own = [items[item].norm().item() for item in range(1, len(items)) if groups[item] == group]
        assert norm == pytest.approx(sum(own) / len(own), rel=1e-5)
    assert sum(found["recall"]) == pytest.approx(top_lists(built.model, built.valid, 5).recall().mean())


def test_an_empty_group_has_no_norm():
    norms = group_norms(torch.tensor([[9.0], [3.0], [4.0]]), torch.tensor([-1, 0, 2]), 4)
    assert norms[0] == 3 and math.isnan(norms[1]) and norms[2] == 4 and math.isnan(norms[3])


def test_an_epochs_record_holds_the_groups(board, tmp_path):
    from recbole_adaptau import run_recbole_adaptau
    from recbole_adaptau.runs.folder import RunFolder

    more = {"record_groups": True, "epochs": 2, "run_folder": str(tmp_path / "run")}
    run_recbole_adaptau("AdapTauMF", "board", config_dict={**board, **more})
    for record in RunFolder(tmp_path / "run").read_epochs():
        assert len(record["groups"]["norms"]) == 10
        assert sum(record["groups"]["recall"]) == pytest.approx(record["valid_result"]["recall@5"], abs=1e-6)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40).filter(any), st.integers(1, 12))
def test_an_item_belongs_where_the_middle_of_its_interactions_falls(counts, number):
    groups = popularity_groups(torch.tensor([0, *counts]), number)
    before, total = 0, sum(counts)
    for count, item in sorted((count, item) for item, count in enumerate(counts, 1)):
        assert groups[item] == min((2 * before + count) * number // (2 * total), number - 1)
        before += count


@given(st.integers(0, 1000), st.integers(1, 6))
def test_recall_and_ndcg_of_users_with_several_positives_are_loops(seed, k):
    rng = np.random.default_rng(seed)
    hits = rng.random((5, k)) < 0.5
    positives = hits.sum(1) + rng.integers(1, 4, 5)
    lists = TopLists(torch.arange(5), torch.zeros(5, k).long(), torch.tensor(hits), torch.tensor(positives))
    for user in range(5):
        gain = sum(1 / math.log2(place + 2) for place in range(k) if hits[user, place])
        ideal = sum(1 / math.log2(place + 2) for place in range(min(k, positives[user])))
        assert lists.ndcg()[user] == pytest.approx(gain / ideal)
        assert lists.recall()[user] == pytest.approx(hits[user].sum() / positives[user], rel=1e-6)


def test_what_users_have_had_and_the_padding_are_not_recommended(built):
    """Each batch of users by itself, scores of a brute force."""
    built.model.eval()
    lists = top_lists(built.model, built.test, 40)
    for user, items, hits in zip(lists.users.tolist(), lists.items.tolist(), lists.hits.tolist(), strict=True):
        seen, wanted = (
            set(part[user].tolist()) for part in (built.test.uid2history_item, built.test.uid2positive_item)
        )
        unseen = items[: 48 - len(seen)]
        assert not {0, *seen} & set(unseen) and [item in wanted for item in unseen] == hits[: len(unseen)]
        assert any(hits)


@given(st.integers(0, 1000), st.integers(1, 6))
def test_recall_by_group_of_lists_that_reach_into_what_is_left_out_is_a_loop(seed, k):
    """The padding stands at the end of a list where fewer than k items are left; it is in no group, and no hit."""
    rng = np.random.default_rng(seed)
    items, groups = rng.integers(0, 9, (5, k)), torch.tensor([-1, *rng.integers(0, 3, 8)])
    hits = (rng.random((5, k)) < 0.5) & (items > 0)
    positives = hits.sum(1) + rng.integers(1, 4, 5)
    lists = TopLists(*map(torch.tensor, (np.arange(5), items, hits, positives)))
    expected = np.zeros(4)
    for user, place in zip(*np.nonzero(hits), strict=True):
        expected[groups[items[user, place]]] += 1 / positives[user] / 5
    found = lists.recall_by_group(groups, 4)
    assert found == pytest.approx(expected) and found.dtype == lists.recall().dtype == lists.ndcg().dtype == np.float64


def test_a_user_without_positives_at_the_end_of_a_batch_has_none():
    model = SimpleNamespace(
        device=torch.device("cpu"), USER_ID="u", full_sort_predict=lambda _: torch.arange(8.0).repeat(2)
    )
    batch = Interaction({"u": torch.tensor([3, 5])}), (torch.tensor([1]), torch.tensor([7])), *torch.tensor([[0], [6]])
    lists = top_lists(model, [batch], 2)
    assert lists.users.tolist() == [3, 5] and lists.positives.tolist() == [1, 0]
    assert lists.items.tolist() == [[7, 6], [6, 5]] and lists.hits.tolist() == [[False, True], [False, False]]


def test_a_positives_logit_has_the_temperature_that_a_network_gives_to_its_user(board):
    built = build("AdapTauMF", {**board, "tau_strategy": "learned_user"})
    model, data = built.model.eval(), built.model.interactions
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.strategy.net.parameters():
            parameter.add_(torch.randn(parameter.shape))
        users, items = (torch.nn.functional.normalize(table, dim=1) for table in model.encode())
        tau = model.strategy.tau(torch.arange(49), users)
    assert tau[1:].std() > 0.01
    logits = (users[data.users] * items[data.items]).sum(1) / tau[data.users]
    assert group_statistics(model, built.valid, 5)["positive_score"] == pytest.approx(logits.mean().item(), rel=1e-4)
