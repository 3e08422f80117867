"""What is kept of a test's users, against what RecBole's loaders hold."""

from types import SimpleNamespace

import numpy as np
import torch

from recbole_adaptau.runs import tested
from tests.conftest import write_inter
from tests.helpers import build

# The last item is tested and never trained on; the users' order in the test is another than in the training.
PARTS = {
    "train": [("a", "x"), ("b", "x"), ("b", "y"), ("c", "y"), ("a", "spare")],
    "valid": [("a", "y"), ("b", "z"), ("c", "x")],
    "test": [("c", "z"), ("c", "last"), ("a", "last")],
}


def loaders(folder):
    for part, pairs in PARTS.items():
        write_inter(folder / "data", "few", pairs, part)
    settings = {
        "data_path": str(folder / "data"), "benchmark_filename": list(PARTS),
        "load_col": {"inter": ["user_id", "item_id"]},
        "show_progress": False, "state": "ERROR", "topk": [2], "valid_metric": "NDCG@2",
    }  # fmt: skip
    return build("BPR", settings, "few")


def test_users_are_kept_with_hits_positives_and_counts(tmp_path, monkeypatch):
    built = loaders(tmp_path)
    data = built.test._dataset
    users = built.test.uid_list.numpy()
    topk = torch.tensor([[1, 0, 1], [0, 1, 2]])  # two places and the number of positives
    collected = {"rec.topk": topk[: len(users)]}
    found = tested.tested_users(collected, built.test, built.train)
    assert found["user"].tolist() == data.id2token("user_id", users).tolist() and {*found["user"]} == {"a", "c"}
    assert found["hits"].tolist() == [[True, False], [False, True]] and found["positives"].tolist() == [1, 2]
    wanted = {"a": ["last"], "c": ["z", "last"]}
    names = data.id2token("item_id", found["positive_items"]).tolist()
    assert sorted(names[: len(wanted[found["user"][0]])]) == sorted(wanted[found["user"][0]]) and len(names) == 3
    counts = dict(zip(data.field2id_token["item_id"], found["item_counts"], strict=True))
    assert counts == {"[PAD]": 0, "x": 2, "y": 2, "spare": 1, "z": 0, "last": 0} and "items" not in found
    more = tested.tested_users({**collected, "rec.items": torch.tensor([[1, 2], [3, 4]])}, built.test, built.train)
    assert more["items"].tolist() == [[1, 2], [3, 4]]
    assert tested.tested_users({}, built.test, built.train) is None
    assert tested.tested_users(collected, SimpleNamespace(), built.train) is None
    monkeypatch.setattr(tested, "is_active", lambda: True)
    assert tested.tested_users(collected, built.test, built.train) is None, "one process of several has a part"


def test_the_evaluator_is_recboles_and_keeps_what_it_was_given():
    keeping = tested.KeepingEvaluator(SimpleNamespace(evaluate=lambda given: {"ndcg": np.sum(given)}))
    assert keeping.evaluate([1, 2]) == {"ndcg": 3} and keeping.collected == [1, 2]
