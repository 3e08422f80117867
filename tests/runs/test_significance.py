"""The paired test against SciPy on one's own fingers, and each user's figures against RecBole's averages."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recbole_adaptau import run_recbole_adaptau
from recbole_adaptau.errors import DataError, OptionError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.runs.significance import USER_METRICS, compare, holm, paired, user_metric


def made(folder, seed, hits, positives=None, users=None):
    """A complete run with a given ranking."""
    run = RunFolder(folder)
    run.path.mkdir(parents=True)
    run.finish({"seed": seed})
    hits = np.asarray(hits, dtype=bool)
    positives = np.full(len(hits), hits.shape[1]) if positives is None else np.asarray(positives)
    run.write_tested(
        {
            "user": np.array(users or [f"u{number}" for number in range(len(hits))]),
            "hits": hits,
            "positives": positives,
            "positive_items": np.arange(positives.sum()),
            "item_counts": np.ones(9, dtype=int),
        }
    )
    return run


def test_the_mean_over_users_is_what_recbole_reports(board):
    settings = {**board, "epochs": 2, "metrics": ["Recall", "NDCG", "MRR", "Hit", "Precision", "MAP"]}
    for model in ("AdapTauMF", "BPR"):
        run = RunFolder(run_recbole_adaptau(model, "board", config_dict=dict(settings))["run_folder"])
        result = run.read_result()["test_result"]
        for metric in USER_METRICS:
            for k in (2, 5):
                assert user_metric(run, f"{metric}@{k}")[1].mean() == pytest.approx(result[f"{metric}@{k}"], abs=1e-4)
        assert run.read_result()["stopped_by"] == "epochs" and run.read_result()["parameters"] == 98 * 8
        assert 50 < run.read_result()["peak_memory_mb"] < 20_000


def test_users_are_paired_within_a_seed_and_averaged_over_seeds():
    # Recall@2 of three users: seed 1 gives 1, .5, 0 against .5, .5, .5; seed 2 gives 1, 1, 0 against 0, 0, 0.
    ours = [made("a1", 1, [[1, 1], [1, 0], [0, 0]]), made("a2", 2, [[1, 1], [1, 1], [0, 0]])]
    theirs = [made("b2", 2, [[0, 0]] * 3), made("b1", 1, [[0, 1], [1, 0], [1, 0]])]
    got = paired(ours, theirs, "recall@2")
    differences = np.array([(0.5 + 1) / 2, (0 + 1) / 2, (-0.5 + 0) / 2])
    assert (got.users, got.better, got.worse) == (3, 2, 1)
    assert got.difference == pytest.approx(differences.mean())
    spread = differences.std(ddof=1) / math.sqrt(3)
    assert got.p == pytest.approx(2 * stats.t.sf(abs(differences.mean() / spread), 2))
    assert got.low == pytest.approx(differences.mean() - stats.t.ppf(0.975, 2) * spread)
    back = paired(theirs, ours, "recall@2")
    assert back.difference == pytest.approx(-got.difference) and back.p == pytest.approx(got.p)


def test_what_cannot_be_compared_is_said():
    ours = made("a", 1, [[1, 0], [0, 1]])
    others = [made(f"b{seed}", seed, [[1, 0], [0, 1]]) for seed in (2, 3)]
    with pytest.raises(DataError, match=r"no seed in common \(seeds \[1\] and \[2, 3\]\)"):
        paired([ours], others, "recall@2")
    assert paired([ours], others[:1], "recall@2").users == 2  # one of each, tested on the same
    with pytest.raises(DataError, match="different interactions"):
        paired([ours], [made("c", 1, [[1, 0], [0, 1]], users=["u0", "x"])], "recall@2")
    with pytest.raises(DataError, match="a ranks 2 items, too few for ndcg@20"):
        paired([ours], [made("d", 1, [[1, 0], [0, 1]])], "ndcg@20")
    with pytest.raises(OptionError, match="must be one of recall, ndcg"):
        user_metric(ours, "gini@2")
    with pytest.raises(DataError, match="have the same seed 1"):
        paired([ours, made("e", 1, [[1, 0], [0, 1]])], [ours], "recall@2")
    ours.tested.write_bytes(b"not an archive")
    with pytest.raises(DataError, match=r"tested\.npz is damaged"):
        user_metric(ours, "ndcg@2")


def test_equal_models_do_not_differ():
    got = compare(np.zeros(5), "ndcg@20")
    assert got.p == got.p_wilcoxon == 1.0 and got.difference == got.better == got.worse == 0


@settings(max_examples=15, deadline=None)  # statsmodels collects garbage in every call
@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_monotone_and_between_p_and_bonferroni(p_values):
    adjusted = holm(p_values)
    for name, p in p_values.items():
        assert p <= adjusted[name] <= min(1.0, p * len(p_values)) or math.isclose(
            adjusted[name], max(adjusted.values())
        )
    ordered = sorted(p_values, key=lambda name: p_values[name])
    assert all(adjusted[a] <= adjusted[b] for a, b in pairwise(ordered))


def test_holm_by_hand():
    assert holm({}) == {}
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
