"""Which kind of negatives reaches a given quality first: recall@20 by epoch and by second."""

from pathlib import Path
from typing import Any

from tqdm import tqdm

from .learning import learning_curve

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
        common = {"data_path": data_path, "epochs": epochs, "stopping_step": epochs, "seed": seed}
        curves[label] = learning_curve("AdapTauMF", dataset, {**common, **settings}, folder, "recall@20")
    return {"dataset": dataset, "model": "AdapTauMF", "protocol": "honest", "seed": seed, "curves": curves}
