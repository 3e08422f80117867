"""The paired test against SciPy on one's own fingers, and each user's figures against RecBole's averages."""

import gc
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
from recbole_adaptau.runs.significance import USER_METRICS, against, compare, holm, paired, user_metric


def made(folder, seed, hits, positives=None, users=None, items=None):
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
            "positive_items": np.arange(positives.sum()) if items is None else np.asarray(items),
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
    for different in ({"positives": [3, 1]}, {"items": [0, 1, 2, 4]}):
        with pytest.raises(DataError, match="different interactions"):
            paired([ours], [made(f"c{different}", 1, [[1, 0], [0, 1]], **different)], "recall@2")
    for metric in ("recall", "recall@", "recall@0", "recall@x"):
        with pytest.raises(OptionError, match="must be one of recall, ndcg"):
            user_metric(ours, metric)
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


@settings(max_examples=15)
@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_monotone_and_between_p_and_bonferroni(p_values):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "collect", lambda *_: 0)  # statsmodels does so in every call, for seconds in all
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


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=25).filter(lambda x: len(set(x)) > 1))
def test_mean_interval_and_both_p_values_are_those_of_the_definitions(differences):
    """The t-test and its interval from its formula; Wilcoxon's of the differences that are not zero."""
    x = np.array(differences) / 4
    got = compare(x, "recall@20")
    mean, error = x.mean(), x.std(ddof=1) / math.sqrt(len(x))
    reach = stats.t.ppf(0.975, len(x) - 1) * error
    assert (got.difference, got.low, got.high) == pytest.approx((mean, mean - reach, mean + reach))
    assert got.p == pytest.approx(2 * stats.t.sf(abs(mean) / error, len(x) - 1))
    assert got.p_wilcoxon == pytest.approx(stats.wilcoxon(x[x != 0]).pvalue)
    assert (got.better, got.worse, got.users) == ((x > 0).sum(), (x < 0).sum(), len(x))
    assert got.metric == "recall@20"


def test_wilcoxon_ranks_the_differences():
    """All of five differences positive: of the 2^5 choices of signs, two are as extreme."""
    got = compare(np.array([0.1, 0.2, 0.3, 0.4, 0.0, 5.0]), "ndcg@20")
    assert got.p_wilcoxon == pytest.approx(2 / 2**5) and got.p > 0.1


def test_too_few_users_are_refused():
    for differences in (np.zeros(1), np.zeros((3, 2)), np.zeros(0)):
        with pytest.raises(DataError, match="at least two users in common"):
            compare(differences, "ndcg@20")
    assert compare(np.array([0.0, 1.0]), "ndcg@20").users == 2


def test_every_other_model_against_the_best_with_holms_correction():
    runs = {
        "best": [made("best", 1, [[1, 1], [1, 1], [1, 1], [1, 0]])],
        "worse": [made("worse", 1, [[0, 0], [0, 1], [0, 1], [0, 0]])],
        "worst": [made("worst", 1, [[0, 0], [0, 0], [0, 0], [0, 1]])],
        "other data": [made("other", 1, [[0, 0]] * 3)],
    }
    found = against("best", runs, "recall@2")
    assert set(found) == {"worse", "worst", "other data"}
    assert "different interactions" in found["other data"]["error"] and "p_holm" not in found["other data"]
    assert found["worse"]["difference"] == pytest.approx(-0.625) and found["worse"]["worse"] == 4
    p = {name: found[name]["p"] for name in ("worse", "worst")}
    assert {name: found[name]["p_holm"] for name in p} == holm(p) and p["worse"] != p["worst"]


def test_the_metric_may_be_written_in_any_case_and_cut_anywhere():
    run = made("a", 1, [[0, 1, 1], [1, 0, 0]])
    assert user_metric(run, "HIT@1")[1].tolist() == [0, 1] and user_metric(run, "recall@2")[
        1
    ].tolist() == pytest.approx([1 / 3, 1 / 3])
    users, values = user_metric(run, "mrr@3")
    assert users.tolist() == ["u0", "u1"] and values.tolist() == [0.5, 1.0]
