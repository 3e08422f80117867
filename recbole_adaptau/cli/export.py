"""`recbole-adaptau export`: embeddings for inner-product search in a system of your own."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from scipy.sparse import save_npz
from tqdm import tqdm

from ..errors import OptionError
from ..runs.folder import RunFolder
from ..serving.embeddings import Embeddings
from ..serving.index import check_index, need_faiss, write_index
from ..serving.recommender import Recommender
from ..serving.similar import neighbour_table
from ..serving.tables import whole_file, write_table
from .command import exit_code

PROGRAM = "recbole-adaptau export"
EXAMPLES = f"""examples:
  {PROGRAM} RUN_FOLDER exported
  {PROGRAM} RUN_FOLDER exported --faiss --neighbours 10
"""
FILES = """files in OUTPUT:
  embeddings.safetensors   users [n, d] and items [m, d], float32: a score is the inner product of two rows; if the run
                           has item_neighbours, neighbour_scales [n] for what is added to it, too
  embeddings.json          the ids of the rows, in order, and what the columns are
  embeddings.npz           the same for NumPy: users, items, user_ids, item_ids
  item_weights.npz         if the run has item_neighbours: a SciPy matrix W [m, m]; to the score of user u and item i
                           add neighbour_scales[u] * (sum of W[i, j] over the training items j of u)
  items.faiss              with --faiss: an exact inner-product index of the items, checked against the model's ranking
  neighbours.csv           with --neighbours K: each item's K nearest others by cosine
"""
CHECKED_USERS, CHECKED_K = 256, 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code (0 done, 2 bad input, 130 interrupted)."""
    args = _parser().parse_args(arguments)

    def action() -> None:
        for path in export(args.run_folder, args.output, args.faiss, args.neighbours, args.data_path):
            print(f"written: {path}")

    return exit_code(action, "the export is not complete")


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
    recommender = Recommender.from_run(run_folder, data_path)
    n_items = len(recommender.item_ids) - 1
    if neighbours is not None and not 1 <= neighbours < n_items:
        raise OptionError(f"neighbours = {neighbours}: must be at least 1 and below {n_items}, the number of items.")
    embeddings = recommender.embeddings()
    written = _write_embeddings(output, recommender, embeddings, RunFolder(run_folder).settings())
    if faiss:
        path = output / "items.faiss"
        write_index(path, embeddings.items[1:])
        users = torch.arange(1, min(len(recommender.user_ids), 1 + CHECKED_USERS), device=recommender.device)
        check_index(path, recommender.model, embeddings, users, min(CHECKED_K, n_items))
        written.append(path)
    if neighbours is not None:
        path = output / "neighbours.csv"
        parts = neighbour_table(embeddings.item_directions, neighbours, recommender.item_ids, recommender.names)
        write_table(path, tqdm(parts, desc="neighbours", unit=" batches", leave=False, disable=None))
        written.append(path)
    return written


def _write_embeddings(
    output: Path, recommender: Recommender, embeddings: Embeddings, settings: dict[str, Any]
) -> list[Path]:
    # Without the padding's rows, which are nobody's.
    rows = {"users": embeddings.users[1:], "items": embeddings.items[1:]}
    score = "inner product of a user's and an item's row"
    added = embeddings.item_weights()
    if added is not None:
        rows["neighbour_scales"] = added[0][1:]
        score += " + neighbour_scales[user] * (sum of item_weights[item, j] over the user's training items j)"
    tables = {name: np.ascontiguousarray(table.cpu().numpy(), dtype=np.float32) for name, table in rows.items()}
    ids = {"user_ids": recommender.user_ids[1:], "item_ids": recommender.item_ids[1:]}
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
        np.savez(temporary, **tables, **{name: part.astype(str) for name, part in ids.items()})
    weights = output / "item_weights.npz"
    weights.unlink(missing_ok=True)  # of an export before, whose run may have had neighbours where this one has none
    if added is not None:
        paths.append(weights)
        with whole_file(weights) as temporary:
            save_npz(temporary, added[1][1:, 1:])
    return paths


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Write the embeddings of a run's best epoch, ready for inner-product search, with their ids.",
        epilog=f"{FILES}\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_folder", metavar="RUN_FOLDER", help="what a run has left")
    parser.add_argument(
        "output", type=Path, metavar="OUTPUT", help="folder to write to; files of an export are replaced"
    )
    parser.add_argument("--faiss", action="store_true", help="write a FAISS index of the items, too")
    parser.add_argument("--neighbours", type=int, metavar="K", help="write each item's K nearest items, too")
    parser.add_argument(
        "--data-path", "--data_path", metavar="DIR", help="folder of all datasets, if it has moved since training"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
