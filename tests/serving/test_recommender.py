"""Recommendations by external ids: who gets which, from any thread, with any filter."""

import sys
import threading
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.utils import get_model
from tqdm import tqdm

from recbole_adaptau.errors import AdapTauError, DataError, OptionError
from recbole_adaptau.serving import Recommender
from recbole_adaptau.serving.scoring import Scorer
from recbole_adaptau.serving.similar import neighbours
from tests.helpers import build


def test_a_model_without_inner_products_is_refused_but_ranks(board):
    built = build("NeuMF", {**board, "mf_embedding_size": 4, "mlp_embedding_size": 4})
    with pytest.raises(OptionError, match="NeuMF has no full_sort_predict"):
        Recommender.of(built.model, built.dataset)
    built = build("ENMF", board)
    with pytest.raises(OptionError, match="scores of ENMF are not inner products"):
        Recommender.of(built.model, built.dataset).recommend_for(["i1"], 3)
    assert len(Recommender.of(built.model, built.dataset).recommend(["u1"], 3)) == 3
    sequential = get_model("GRU4Rec")
    with pytest.raises(OptionError, match="GRU4Rec is a sequential model"):
        Recommender.of(sequential.__new__(sequential), built.dataset)


def fresh(board, **changes) -> Recommender:
    """A model with temperatures, not trained: its scores are as good as any to rank by."""
    built = build("AdapTauMF", {**board, **changes})
    built.model.begin_epoch(0)
    return Recommender.of(built.model, built.dataset)


def test_lists_are_shorter_where_less_is_left_and_batches_change_nothing(board, monkeypatch):
    """48 items, 12 of them seen by everybody: 36 are left, whatever k."""
    recommender = fresh(board)
    whole = recommender.recommend(k=48)
    assert whole.groupby("user").size().tolist() == [36] * 48
    monkeypatch.setattr("recbole_adaptau.serving.ranking.SCORES_AT_ONCE", 49 * 5)
    parts = list(recommender.batches(None, 48))
    assert len(parts) == 10 and [part["user"].nunique() for part in parts] == [5] * 9 + [3]
    monkeypatch.setattr("recbole_adaptau.serving.ranking.SCORES_AT_ONCE", 1)
    assert [part["user"].nunique() for part in recommender.batches(None, 3)] == [1] * 48
    monkeypatch.setattr("recbole_adaptau.serving.ranking.SCORES_AT_ONCE", 49 * 5)
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), whole, atol=1e-6)
    assert recommender.recommend(["u3"], 48, include_seen=True).groupby("user").size().tolist() == [48]
    with pytest.warns(UserWarning, match="users nobody"):
        assert set(recommender.recommend(["u3", "nobody", "u3"], 4)["user"]) == {"u3"}
    for k in (0, 49):
        with pytest.raises(OptionError, match=f"k = {k}: must be at least 1 and at most 48"):
            recommender.recommend(["u3"], k)


@pytest.mark.parametrize(("asked", "rows"), [(3, 3), (48, 5)])
def test_memory_is_taken_for_a_batch_of_those_who_are_asked_for(board, monkeypatch, asked, rows):
    recommender = fresh(board)
    taken, memory = [], Scorer.memory
    monkeypatch.setattr(Scorer, "memory", lambda self, users: (taken.append(users), memory(self, users))[1])
    monkeypatch.setattr("recbole_adaptau.serving.ranking.SCORES_AT_ONCE", 49 * 5)
    recommender.recommend([f"u{number}" for number in range(asked)], 3)
    assert taken == [rows]


@pytest.mark.parametrize("changes", [{}, {"recipe": "plus"}])
def test_threads_get_each_user_their_own_list(board, changes):
    recommender = fresh(board, **changes)
    truth = {user: recommender.recommend(user, 5) for user in recommender.user_ids}
    wrong = []

    def ask(users: list[str]) -> None:
        for user in users:
            found = recommender.recommend(user, 5)
            if not found.equals(truth[user]):
                wrong.append(user)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=ask, args=([*truth][start::4] * 12,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("recipe", ["none", "plus"])
def test_models_of_any_precision_recommend(board, dtype, recipe):
    built = build("AdapTauMF", {**board, "recipe": recipe})
    built.model.begin_epoch(0)
    expected = Recommender.of(built.model, built.dataset).recommend("u1", 36)
    found = Recommender.of(built.model.to(dtype), built.dataset).recommend("u1", 36)
    scores = dict(zip(found["item"], found["score"], strict=True))
    tolerance = 0.02 * float(expected["score"].abs().max()) if dtype == torch.bfloat16 else 1e-5
    for item, score in zip(expected["item"], expected["score"], strict=True):
        assert scores[item] == pytest.approx(score, abs=tolerance)
    if dtype == torch.float64:
        assert found["item"].tolist() == expected["item"].tolist()


@pytest.mark.parametrize("recipe", ["none", "plus"])
def test_a_model_that_has_recommended_in_inference_mode_can_be_trained(board, recipe):
    built = build("AdapTauMF", {**board, "recipe": recipe})
    built.model.begin_epoch(0)
    with torch.inference_mode():
        recommender = Recommender.of(built.model, built.dataset)
        inside = recommender.recommend(["u2"], 3)
    pd.testing.assert_frame_equal(recommender.recommend(["u2"], 3), inside)
    built.model.train()
    built.model.begin_epoch(1)
    built.model.calculate_loss(next(iter(built.train))).backward()
    assert built.model.user_embedding.weight.grad is not None


def test_one_id_is_one_id_and_what_is_no_id_is_a_type_error(board):
    recommender = fresh(board)
    for one in ("u11", ["u11"], ("u11",), pd.Series(["u11"]), np.array(["u11"]), {"u11"}, iter(["u11"])):
        assert recommender.recommend(one, 2)["user"].tolist() == ["u11"] * 2
    for wrong in ({"u1": 1}, pd.DataFrame({"user": ["u1"]}), b"u1", object(), [None], [["u1"]], [True], [1.5]):
        with pytest.raises(TypeError):
            recommender.recommend(wrong, 2)
    with pytest.raises(TypeError, match=r"Recommender\.of"):
        Recommender(object())
    with pytest.raises(AdapTauError, match="nothing is trained yet"):
        Recommender().recommend("u1")


def test_filters_are_those_of_brute_force(board):
    recommender = fresh(board)
    whole = recommender.recommend(["u1", "u2"], 48)
    own = {user: part["item"].tolist() for user, part in whole.groupby("user")}
    first = own["u1"][0]
    deny = recommender.recommend(["u1", "u2"], 5, deny=[first])
    assert deny[deny.user == "u1"]["item"].tolist() == own["u1"][1:6]
    allow = recommender.recommend("u1", 5, allow=own["u1"][3:5] + own["u1"][1:2])
    assert allow["item"].tolist() == [own["u1"][1], *own["u1"][3:5]] and allow["rank"].tolist() == [1, 2, 3]
    for exclude in ({"u1": own["u1"][:2]}, [("u1", item) for item in own["u1"][:2]],
                    pd.DataFrame({"user": "u1", "item": own["u1"][:2]})):  # fmt: skip
        found = recommender.recommend(["u1", "u2"], 3, exclude=exclude)
        assert found[found.user == "u1"]["item"].tolist() == own["u1"][2:5]
        assert found[found.user == "u2"]["item"].tolist() == own["u2"][:3]
    found = recommender.recommend(["u1", "u2"], 3, candidates={"u2": own["u2"][7:9]})
    assert found["user"].tolist() == ["u2"] * 2 and found["item"].tolist() == own["u2"][7:9]
    both = recommender.recommend("u1", 3, allow=own["u1"][:3], deny=own["u1"][:1], exclude={"u1": own["u1"][1]})
    assert both["item"].tolist() == own["u1"][2:3]
    with pytest.warns(UserWarning, match="items to deny nothing"):
        recommender.recommend("u1", 3, deny=["nothing"])
    with pytest.raises(TypeError, match="exclude: the table has no column 'item'"):
        recommender.recommend("u1", 3, exclude=pd.DataFrame({"user": ["u1"]}))


def test_many_new_users_at_once_are_those_one_by_one(board):
    recommender = fresh(board, recipe="plus")
    liked = {f"new{number}": [f"i{number}", f"i{number + 8}"] for number in range(20)}
    together = recommender.recommend_for(liked, 4)
    assert len(together) == 80
    for user, items in liked.items():
        alone = recommender.recommend_for(items, 4)
        own = together[together.user == user].drop(columns="user").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, alone, atol=1e-5)
        assert not set(own["item"]) & set(items)
    table = pd.DataFrame([(user, item) for user, items in liked.items() for item in items], columns=["user", "item"])
    pd.testing.assert_frame_equal(recommender.recommend_for(table, 4), together)
    with pytest.raises(DataError, match="none of the liked items is in the data"), pytest.warns(UserWarning):
        recommender.recommend_for(["nothing"], 3)


def test_history_since_the_training_counts_as_seen_and_makes_users_known(board):
    recommender = fresh(board, recipe="plus")
    before = recommender.recommend("u1", 5)["item"].tolist()
    alone = recommender.recommend_for(["i3", "i9"], 4)
    with pytest.warns(UserWarning, match="items brandnew"):
        recommender.add_history({"u1": before[0], "newbie": ["i3", "i9", "brandnew"]})
    assert recommender.recommend("u1", 4)["item"].tolist() == before[1:]
    mixed = recommender.recommend(["newbie", "u1"], 4)
    own = mixed[mixed.user == "newbie"].drop(columns="user").reset_index(drop=True)
    pd.testing.assert_frame_equal(own, alone, atol=1e-5)
    assert "newbie" in recommender.user_ids
    assert recommender.similar_users("newbie", 3)["neighbour"].isin(recommender.user_ids).all()


def test_scores_of_pairs_are_those_of_the_ranking(board):
    recommender = fresh(board, recipe="plus")
    ranked = recommender.recommend(["u1", "u5"], 48, include_seen=True)
    pairs = ranked[["user", "item"]].sample(frac=1, random_state=1)
    found = recommender.score(pairs)
    assert found["user"].tolist() == pairs["user"].tolist()
    expected = ranked.set_index(["user", "item"])["score"]
    wanted = [expected[pair] for pair in zip(pairs["user"], pairs["item"], strict=True)]
    assert found["score"].tolist() == pytest.approx(wanted, rel=1e-5)
    assert recommender.score([("u1", "nothing"), ("nobody", "i1")])["score"].isna().all()
    assert recommender.score({"u1": ["i1", "i2"]})["item"].tolist() == ["i1", "i2"]


def test_similar_users_are_those_of_brute_force(board):
    recommender = fresh(board)
    vectors = recommender.embeddings().users.double().numpy()[1:]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = recommender.user_ids
    row = ids.tolist().index("u7")
    cosines = vectors @ vectors[row]
    best = [place for place in np.argsort(-cosines) if place != row][:4]
    found = recommender.similar_users("u7", 4)
    assert found["neighbour"].tolist() == ids[best].tolist()
    assert found["cosine"].tolist() == pytest.approx(cosines[best].tolist(), abs=1e-5)
    with pytest.raises(OptionError, match="48 neighbours: must be at least 1 and at most 47"):
        recommender.similar_users("u7", 48)


def test_neighbours_found_in_parts_are_one_table(board, monkeypatch):
    recommender = fresh(board)
    users = recommender.user_ids.tolist()
    whole = recommender.similar_items(None, 3), recommender.similar_users(users, 3)
    monkeypatch.setattr("recbole_adaptau.serving.similar.neighbours", partial(neighbours, scores_at_once=49 * 5))
    parts = recommender.similar_items(None, 3), recommender.similar_users(users, 3)
    for part, expected in zip(parts, whole, strict=True):
        pd.testing.assert_frame_equal(part, expected, atol=1e-6)
        assert part.index.tolist() == list(range(48 * 3))


def test_pairs_are_scored_for_a_few_users_at_once(board, monkeypatch):
    recommender = fresh(board)
    asked, scores = [], Scorer.scores
    monkeypatch.setattr(
        Scorer, "scores", lambda self, users, *rest: (asked.append(len(users)), scores(self, users, *rest))[1]
    )
    for at_once, wanted in ((49 * 5, [5, 5, 2]), (1, [1] * 12)):
        monkeypatch.setattr("recbole_adaptau.serving.ranking.SCORES_AT_ONCE", at_once)
        recommender.score([(f"u{user}", "i3") for user in range(12)])
        assert asked == wanted
        asked.clear()


@pytest.mark.parametrize("recipe", ["none", "item_regression"])
def test_reasons_are_the_largest_terms_or_the_nearest_of_the_users_own_items(board, recipe):
    recommender = fresh(board, recipe=recipe)
    rows = recommender.recommend("u1", 6, explain=2)
    served, kept = recommender.served, recommender.embeddings()
    own = served.seen.positives_of(torch.tensor(served.users.places(["u1"])))[1].numpy()
    directions = kept.items.double().numpy()
    directions = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-12)
    for item, because in zip(rows["item"], rows["because"], strict=True):
        (place,) = served.items.places([item])
        strength = directions[own] @ directions[place]
        if recipe == "item_regression":
            terms = kept.added[0].pairs.weights.toarray()[place, own]
            strength = np.where(terms > 0, terms, -np.inf) if (terms > 0).any() else strength
        best = [served.items.names[own[row]] for row in np.argsort(-strength)[:2] if np.isfinite(strength[row])]
        assert because.split("; ") == best


def test_unknown_users_and_items_of_filters_are_named_and_have_no_effect(board):
    recommender = fresh(board)
    user, item = recommender.user_ids[0], recommender.item_ids[0]
    whole = recommender.recommend(user, 48, include_seen=True)["item"].tolist()
    pairs = [(user, item), ("nobody", whole[1]), (user, "nothing"), ("nobody", "nothing")]
    with pytest.warns(UserWarning) as told:
        found = recommender.recommend(user, 48, include_seen=True, exclude=pairs)["item"].tolist()
    assert found == [other for other in whole if other != item]
    assert [str(warning.message) for warning in told] == [
        "not in the data, left out: users of exclude nobody",
        "not in the data, left out: items of exclude nothing",
    ]
    with pytest.warns(UserWarning, match="items of candidates nothing"):
        found = recommender.recommend([user, "u5"], 3, include_seen=True, candidates={user: [item, "nothing"]})
    assert found[["user", "item"]].values.tolist() == [[user, item]]
    with pytest.warns(UserWarning, match="items to allow nothing"):
        assert recommender.recommend(user, 3, include_seen=True, allow=["nothing", item])["item"].tolist() == [item]


@pytest.mark.parametrize(("number", "end"), [(10, "n9$"), (11, "n9 and 1 more$"), (12, "n9 and 2 more$")])
def test_ten_unknown_ids_are_named(board, number, end):
    with pytest.warns(UserWarning, match=f"users n0, n1, .*{end}"):
        fresh(board).recommend([*(f"n{place}" for place in range(number)), "u1"], 2)


def test_parts_become_one_table_and_one_part_is_always_there(board, monkeypatch):
    recommender = fresh(board, recipe="plus")
    liked = {f"new{number}": [f"i{number}", f"i{number + 8}"] for number in range(7)}
    pairs = [(f"u{user}", f"i{item}") for user in range(9) for item in (3, user)]
    whole = recommender.recommend_for(liked, 4), recommender.recommend(k=4), recommender.score(pairs)
    for at_once in (49 * 2, 1):
        monkeypatch.setattr("recbole_adaptau.serving.ranking.SCORES_AT_ONCE", at_once)
        parts = recommender.recommend_for(liked, 4), recommender.recommend(k=4), recommender.score(pairs)
        for part, expected in zip(parts, whole, strict=True):
            pd.testing.assert_frame_equal(part, expected, atol=1e-5)
    with pytest.warns(UserWarning, match="users nobody"):
        (empty,) = recommender.batches("nobody", 3)
    assert empty.empty and list(empty.columns) == ["user", "rank", "item", "score"]
    for k in (0, 49):
        with pytest.raises(OptionError, match=f"k = {k}: must be at least 1 and at most 48"):
            recommender.recommend_for(["i1"], k)


def test_progress_is_shown_where_it_is_asked_for(board, capsys):
    recommender = fresh(board)
    list(recommender.batches(None, 3))
    recommender.recommend_for({"a": ["i1"], "b": ["i2"]}, 3)
    assert capsys.readouterr().err == ""
    list(recommender.batches(None, 3, progress=True))
    shown = capsys.readouterr().err
    assert "recommend:" in shown and "0/48" in shown and " users/s" in shown and not shown.endswith("\n")
    recommender.recommend_for({"a": ["i1"], "b": ["i2"]}, 3, progress=True)
    assert "0/2" in capsys.readouterr().err


def test_progress_counts_the_users(board, monkeypatch):
    counts = []

    class Bar(tqdm):
        def update(self, n=1):
            counts.append(n)
            return super().update(n)

    monkeypatch.setattr("recbole_adaptau.serving.ranking.tqdm", Bar)
    monkeypatch.setattr("recbole_adaptau.serving.ranking.SCORES_AT_ONCE", 49 * 20)
    list(fresh(board).batches(None, 3, progress=True))
    assert counts == [20, 20, 8]


def test_somebody_new_has_the_cosines_of_the_mean_of_their_items(board):
    """With the popularity's column, which has no say, and lengths that are not 1; the first item is one of them."""
    recommender = fresh(board, recipe="plus")
    items = [recommender.item_ids[0], "i5", "i9"]
    recommender.add_history({"newbie": items})
    kept = recommender.embeddings()
    assert kept.has_bias and kept.user_length > 1.02
    vectors = kept.items.double().numpy()[:, :-1]
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    own = vectors[recommender.served.items.places(items)].mean(0)
    users = kept.users.double().numpy()[1:, :-1]
    cosines = users @ own / np.linalg.norm(users, axis=1) / np.linalg.norm(own)
    best = np.argsort(-cosines)[:5]
    found = recommender.similar_users("newbie", 5)
    assert found["neighbour"].tolist() == recommender.user_ids[best].tolist()
    assert found["cosine"].tolist() == pytest.approx(cosines[best].tolist(), abs=1e-5)
    back = recommender.similar_users("u7", 48)
    mine = back[back["neighbour"] == "newbie"]["cosine"].item()
    assert mine == pytest.approx(cosines[recommender.user_ids.tolist().index("u7")], abs=1e-5)
