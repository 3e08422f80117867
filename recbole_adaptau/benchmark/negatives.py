"""Which kind of negatives reaches a given quality first: recall@20 by epoch and by second."""

from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..checkpoint import shielded_argv
from ..quick_start import resume, run_recbole_adaptau
from ..runs import RunFolder

PER_ROW = 16
MODES: dict[str, dict[str, Any]] = {
    "shared 1024": {"negatives": "shared", "num_negatives": 1024},
    "shared 4096": {"negatives": "shared", "num_negatives": 4096},
    "in_batch": {"negatives": "in_batch"},
    "full": {"negatives": "full"},
    f"per_row {PER_ROW}": {
        "negatives": "per_row",
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": PER_ROW},
        "train_batch_size": 2048 * PER_ROW,
    },
}


def study(dataset: str, data_path: str, epochs: int, seed: int, run_root: Path) -> dict[str, Any]:
    """Train AdapTauMF once with each kind; runs that are complete are not repeated, half-done ones go on."""
    curves = {}
    for label, settings in tqdm(MODES.items(), desc=f"negatives {dataset}", disable=None):
        folder = run_root / f"{dataset}-{label.replace(' ', '-')}-{epochs}-{seed}"
        common = {"data_path": data_path, "epochs": epochs, "stopping_step": epochs, "seed": seed, "state": "ERROR"}
        common |= {"show_progress": False, "run_folder": str(folder)}
        with shielded_argv():
            if RunFolder(folder).config.is_file():
                resume(folder)
            else:
                run_recbole_adaptau("AdapTauMF", dataset, None, {**common, **settings})
        seconds, points = 0.0, []
        for record in RunFolder(folder).read_epochs():
            seconds += record["train_seconds"]
            points.append((record["epoch"] + 1, seconds, record["valid_result"]["recall@20"]))
        curves[label] = points
    return {"dataset": dataset, "model": "AdapTauMF", "protocol": "honest", "seed": seed, "curves": curves}
