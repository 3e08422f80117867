"""What an epoch takes by oneDNN and by MKL, timed in turn: `python results/speed/products.py DATASET …`.

DATASET is a folder of `dataset/`, or ml-100k. Each ratio is of two epochs of one round; medians of seven rounds.
"""

import sys
from statistics import median

import torch

from recbole_adaptau.studies.speed.contenders import Contender
from recbole_adaptau.studies.speed.timing import epoch_seconds, fitting_batches
from recbole_adaptau.training.products import products_are_exact

ROUNDS, BUDGET = 7, 1.0
LIBRARIES = {"oneDNN": "medium", "MKL": "highest"}

print("| dataset | model | by oneDNN, s | by MKL, s | oneDNN ÷ MKL, least – most | exact |")
print("|---|---|---|---|---|---|")
for dataset in sys.argv[1:]:
    for model in ("AdapTauMF", "AdapTauLightGCN"):
        entry = Contender(model, model, dataset, {"data_path": "dataset", "num_negatives": 1024})
        batches = fitting_batches(entry.trainer, entry.batches, BUDGET)
        seconds: dict[str, list[float]] = {name: [] for name in LIBRARIES}
        exact = True
        for _ in range(ROUNDS):
            for name, precision in LIBRARIES.items():
                torch.set_float32_matmul_precision(precision)
                exact &= products_are_exact()
                seconds[name].append(epoch_seconds(entry.trainer, entry.batches, batches))
        ratios = [a / b for a, b in zip(*seconds.values(), strict=True)]
        figures = " | ".join(f"{median(values):.2f}" for values in seconds.values())
        told = f"{median(ratios):.2f}, {min(ratios):.2f} – {max(ratios):.2f}"
        print(f"| {dataset} | {model} | {figures} | {told} | {'yes' if exact else 'no'} |", flush=True)
