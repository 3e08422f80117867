"""Popularity and diversity metrics against their definitions, computed by brute force."""

from collections import Counter
from math import log
from time import process_time

import numpy as np
import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.evaluator import metrics
from recbole.model.general_recommender import BPR
from recbole.trainer import Trainer

METRICS = ["ItemCoverage", "GiniIndex", "AveragePopularity", "TailPercentage", "ShannonEntropy"]


def run(board, **given):
    """An untrained BPR evaluated by RecBole: results, top lists by its own scores, training counts."""
    config = Config(
        model="BPR",
        dataset="board",
        config_dict=board | {"metrics": METRICS, "valid_metric": "ItemCoverage@5", "metric_decimal_place": 12} | given,
    )
    torch.manual_seed(0)
    train, _, test = data_preparation(config, create_dataset(config))
    model = BPR(config, train._dataset)
    trainer = Trainer(config, model)
    trainer.eval_collector.data_collect(train)
    result = trainer.evaluate(test, load_best_model=False)
    tops = []
    for user in test.uid_list:
        scores = (model.user_embedding.weight[user] @ model.item_embedding.weight.T).tolist()
        history = set(test.uid2history_item[user].tolist())
        allowed = [item for item in range(1, len(scores)) if item not in history]
        tops.append(sorted(allowed, key=lambda item: -scores[item])[: max(config["topk"])])
    return result, tops, Counter(train.dataset.inter_feat["item_id"].tolist()), len(scores) - 1


@pytest.mark.parametrize("tail_ratio", [None, 0.3, 4])
def test_each_metric_equals_its_definition(board, tail_ratio):
    result, tops, counts, items = run(board, tail_ratio=tail_ratio)
    assert items == 24
    if tail_ratio == 4:
        tail = {item for item, count in counts.items() if count <= 4}
    else:
        rare = sorted((count, item) for item, count in counts.items())
        tail = {item for _, item in rare[: max(int(len(rare) * (tail_ratio or 0.1)), 1)]}
    assert tail
    for k in (2, 5):
        shown = [item for top in tops for item in top[:k]]
        times = Counter(shown)
        ordered = sorted(times.get(item, 0) for item in range(1, items + 1))
        entropy = -sum(count / len(shown) * log(count / len(shown)) for count in times.values())
        expected = {
            "itemcoverage": len(times) / items,
            "giniindex": sum((2 * i - items - 1) * p for i, p in enumerate(ordered, 1)) / (items * len(shown)),
            "averagepopularity": sum(counts[item] for item in shown) / len(shown),
            "tailpercentage": sum(item in tail for item in shown) / len(shown),
            "shannonentropy": entropy / len(times),
        }
        for name, value in expected.items():
            assert result[f"{name}@{k}"] == pytest.approx(value, abs=1e-10), name


def test_all_items_recommended_is_full_coverage(board):
    """With the padding item among them, coverage could never reach one."""
    result, _, _, items = run(board, topk=[19], valid_metric="ItemCoverage@19")
    assert result["itemcoverage@19"] == 1.0 and items == 24


def test_second_evaluation_is_not_mixed_with_the_first(board):
    config = Config(
        model="BPR",
        dataset="board",
        config_dict=board | {"metrics": METRICS, "valid_metric": "ItemCoverage@5"},
    )
    train, _, test = data_preparation(config, create_dataset(config))
    trainer = Trainer(config, BPR(config, train._dataset))
    trainer.eval_collector.data_collect(train)
    first = trainer.evaluate(test, load_best_model=False)
    assert trainer.evaluate(test, load_best_model=False) == first


def test_lookups_use_no_loop_over_the_matrix():
    """Two million entries: RecBole's loops take some ten seconds, a lookup a tenth of one."""
    config = {"metric_decimal_place": 4, "topk": [10], "tail_ratio": 0.1}
    matrix = np.random.default_rng(0).integers(1, 5000, (200_000, 10))
    counts = {item: item % 7 for item in range(1, 4000)}
    start = process_time()
    popular = metrics.AveragePopularity(config).get_pop(matrix, counts)
    tail = metrics.TailPercentage(config).get_tail(matrix, counts)
    assert process_time() - start < 2
    for row, column in [(0, 0), (199_999, 9), (5, 3)]:
        assert popular[row, column] == counts.get(matrix[row, column], 0)
    rarest = set(sorted(counts, key=lambda item: (counts[item], item))[:399])
    assert tail.sum() == sum(count for item, count in Counter(matrix.ravel().tolist()).items() if item in rarest)
