"""Small and uneven data: users with one positive and with many, one user and one item without any."""

import numpy as np
import pytest

from tests.conftest import write_inter

USERS, ITEMS = 14, 30
SMALL = {"num_negatives": 12, "train_batch_size": 40, "embedding_size": 6}


@pytest.fixture(scope="module")
def uneven(tmp_path_factory) -> dict:
    """Settings that make RecBole load the uneven data."""
    rng = np.random.default_rng(4)
    train = [(u, i) for u in range(USERS) for i in rng.choice(ITEMS - 1, 1 + u % 9, replace=False)]
    rest = [(u, i) for u in range(USERS + 1) for i in (ITEMS - 1, (u * 7) % (ITEMS - 1)) if (u, i) not in train]
    folder = tmp_path_factory.mktemp("uneven")
    for part, pairs in {"train": train, "valid": rest[::2], "test": rest[1::2]}.items():
        write_inter(folder, "uneven", [(f"u{u}", f"i{i}") for u, i in pairs], part)
    return {
        "data_path": str(folder), "benchmark_filename": ["train", "valid", "test"], "state": "ERROR", "topk": [3],
        "load_col": {"inter": ["user_id", "item_id"]}, "valid_metric": "NDCG@3", "show_progress": False, **SMALL,
    }  # fmt: skip
