"""A run folder that a table was fitted to, for what is done with run folders."""

import shutil

import pandas as pd
import pytest

from recbole_adaptau import Recommender

QUICK = {"embedding_size": 8, "train_batch_size": 64, "learning_rate": 0.02, "topk": [2, 5], "valid_metric": "NDCG@5",
         "show_progress": False, "state": "ERROR", "seed": 3}  # fmt: skip


def colours(users: range, items: range) -> pd.DataFrame:
    """Users like the items of their colour, of which there are four; ids are whole numbers."""
    rows = [(user, item) for user in users for item in items if user % 4 == item % 4]
    return pd.DataFrame(rows, columns=["user", "item"])


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A run with the item regression, of 24 users and 24 items that have names; nothing may write to it."""
    folder = tmp_path_factory.mktemp("fitted") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["test"])
        made = Recommender("AdapTauMF", epochs=2, recipe="plus", run_folder=str(folder), **QUICK)
        made.fit(colours(range(24), range(24)), item_names={item: f"item {item}" for item in range(24)}, name="shop")
    return folder


@pytest.fixture
def shop(fitted, tmp_path):
    """A copy of it."""
    shutil.copytree(fitted, tmp_path / "shop")
    return tmp_path / "shop"
