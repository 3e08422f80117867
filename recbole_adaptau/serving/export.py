"""A run's embeddings in files, for inner-product search in a system of your own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from scipy.sparse import save_npz
from tqdm import tqdm

from ..errors import OptionError
from ..runs.folder import RunFolder
from .embeddings import Embeddings
from .index import check_index, need_faiss, write_index
from .recommender import Recommender
from .tables import whole_file, write_table

CHECKED_USERS, CHECKED_K = 256, 20


def export(
    run_folder: str | Path,
    output: str | Path,
    faiss: bool = False,
    neighbours: int | None = None,
    data_path: str | Path | None = None,
) -> list[Path]:
    """Write the embeddings of a run's best epoch with their external ids.

    Args:
        run_folder: What a run has left, of our models or of RecBole's that score by inner products.
        output: The folder to write to.
        faiss: Whether to write an index of the items, too.
        neighbours: If given, how many nearest items to list for each.
        data_path: Where the datasets lie now, if they have moved since.

    Returns:
        The files written.
    """
    output = Path(output)
    if faiss:
        need_faiss()
    if output.exists() and not output.is_dir():
        raise OptionError(f"{output} is a file; give a folder to write to.")
    recommender = Recommender.load(run_folder, data_path)
    n_items = len(recommender.item_ids)
    similar = None if neighbours is None else recommender.similar_batches(None, neighbours)
    embeddings = recommender.embeddings()
    written = _write_embeddings(output, recommender, embeddings, RunFolder.serving(run_folder).settings())
    if faiss:
        path = output / "items.faiss"
        write_index(path, embeddings.items[1:])
        scorer = recommender.served.scorer
        users = torch.arange(1, min(scorer.n_users, 1 + CHECKED_USERS), device=scorer.device)
        check_index(path, scorer.model, embeddings, users, min(CHECKED_K, n_items))
        written.append(path)
    if similar is not None:
        path = output / "neighbours.csv"
        write_table(path, tqdm(similar, desc="neighbours", unit=" batches", leave=False, disable=None))
        written.append(path)
    return written


def _write_embeddings(
    output: Path, recommender: Recommender, embeddings: Embeddings, settings: dict[str, Any]
) -> list[Path]:
    # Without the padding's rows, which are nobody's.
    rows = {"users": embeddings.users[1:], "items": embeddings.items[1:]}
    score = "inner product of a user's and an item's row"
    added = embeddings.item_weights
    if added is not None:
        rows["neighbour_scales"] = added[0][1:]
        score += " + neighbour_scales[user] * (sum of item_weights[item, j] over the user's training items j)"
    tables = {name: np.ascontiguousarray(table.cpu().numpy(), dtype=np.float32) for name, table in rows.items()}
    served = recommender.served
    ids = {"user_ids": served.users.names[1 : served.scorer.n_users], "item_ids": served.items.names[1:]}
    about = {
        "model": settings["model"],
        "dataset": settings["dataset"],
        "score": score,
        "last_column": "popularity: 1 for users, log(1 + training count) for items" if embeddings.has_bias else None,
        "user_length_of_somebody_new": embeddings.user_length,
        "dimension": tables["items"].shape[1],
        **{name: list(map(str, part)) for name, part in ids.items()},
    }
    paths = [output / f"embeddings.{suffix}" for suffix in ("safetensors", "json", "npz")]
    with whole_file(paths[0]) as temporary:
        save_file(tables, temporary)
    with whole_file(paths[1]) as temporary:
        temporary.write_text(json.dumps(about, ensure_ascii=False), encoding="utf-8")
    with whole_file(paths[2]) as temporary:
        arrays: dict[str, Any] = {**tables, **{name: part.astype(str) for name, part in ids.items()}}
        np.savez(temporary, **arrays)
    weights = output / "item_weights.npz"
    weights.unlink(missing_ok=True)  # of an export before, whose run may have had neighbours where this one has none
    if added is not None:
        paths.append(weights)
        with whole_file(weights) as temporary:
            save_npz(temporary, added[1][1:, 1:])
    return paths
