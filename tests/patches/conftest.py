"""Small data for these tests, and RecBole repaired before any module here imports from it.

Its quick_start may not import otherwise.
"""

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def board(tmp_path: Path) -> dict:
    """Settings for 16 users and 24 items: each likes six, of which one validates and one tests."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for user in range(16):
        own = rng.permutation([item for item in range(24) if item % 4 == user % 4])
        for position, item in enumerate(own):
            part = {0: "valid", 1: "test"}.get(position, "train")
            rows[part].append(f"u{user}\ti{item}")
    folder = tmp_path / "data" / "board"
    folder.mkdir(parents=True)
    for part, lines in rows.items():
        text = "\n".join(["user_id:token\titem_id:token", *lines])
        (folder / f"board.{part}.inter").write_text(text + "\n", encoding="utf-8")
    return {
        "data_path": str(tmp_path / "data"),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "show_progress": False,
        "state": "ERROR",
        "topk": [2, 5],
        "valid_metric": "NDCG@5",
        "embedding_size": 16,
        "train_batch_size": 32,
    }
