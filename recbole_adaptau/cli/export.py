"""`recbole-adaptau export`: embeddings for inner-product search in a system of your own."""

import argparse
from collections.abc import Sequence
from logging import INFO
from pathlib import Path

from ..files import need_parent
from .arguments import add_run_arguments
from .command import exit_code, new_parser
from .recommend import warnings_as_notes

PROGRAM = "recbole-adaptau export"
EXAMPLES = f"""examples:
  {PROGRAM} RUN_FOLDER exported
  {PROGRAM} RUN_FOLDER exported --faiss --neighbours 10
"""
FILES = """files in OUTPUT:
  embeddings.safetensors   users [n, d] and items [m, d], float32: a score is the inner product of two rows; if the run
                           has item_regression, neighbour_scales [n] for what is added to it, too
  embeddings.json          the ids of the rows, in order, and what the columns are
  embeddings.npz           the same for NumPy: users, items, user_ids, item_ids
  item_weights.npz         if the run has item_regression: a SciPy matrix W [m, m]; to the score of user u and item i
                           add neighbour_scales[u] * (sum of W[i, j] over the training items j of u)
  items.faiss              with --faiss: an exact inner-product index of the items, checked against the model's ranking
  neighbours.csv           with --neighbours K: each item's K nearest others by cosine
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("export", _export, arguments, "the export is not complete", silenced=INFO)


def _export(words: list[str]) -> None:
    args = parser().parse_args(words)
    need_parent(args.output, "OUTPUT")
    from ..serving.export import export  # after --help, which needs no PyTorch

    with warnings_as_notes():
        for path in export(args.run_folder, args.output, args.faiss, args.neighbours, args.data_path):
            print(f"written: {path}")


def parser() -> argparse.ArgumentParser:
    made = new_parser(
        PROGRAM,
        "Write the embeddings of a run's best epoch, ready for inner-product search, with their ids.",
        f"{FILES}\n{EXAMPLES}",
    )
    add_run_arguments(made)
    made.add_argument("output", type=Path, metavar="OUTPUT", help="folder to write to; files of an export are replaced")
    made.add_argument("--faiss", action="store_true", help="write a FAISS index of the items, too")
    made.add_argument("--neighbours", type=int, metavar="K", help="write each item's K nearest items, too")
    return made
