"""Where rules for tau_0 come to rest: `python results/temperature/alternatives.py GRID_FOLDER …` prints the table.

GRID_FOLDER is of `experiment grid` with fixed temperatures. A rule is evaluated on the embeddings of every fixed run,
with at most 1,000 validation positives, one of a user; it rests where it gives the temperature that the run had. The
test part is not read.
"""

import contextlib
import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recbole_adaptau.core.calibration import newton_step, nll_derivatives, spread_places
from recbole_adaptau.core.closed_form import global_tau
from recbole_adaptau.runs.quick_start import load_data_and_model

POSITIVES, TRAINED, ROWS = 1000, 3000, 500
FAR_BELOW = -1e4  # of a score that is left out


def calibrated(scores: Tensor, targets: Tensor) -> float:
    """The temperature that minimises the softmax NLL."""
    scale = 5.0
    for _ in range(15):
        scale = newton_step(scale, nll_derivatives(scale, scores, targets, None))
    return 1 / scale


def hypergradient(users: Tensor, items: Tensor, scores: Tensor, targets: Tensor, at: float, model: Any) -> float:
    """The correlation under the training softmax of scores with how the held-out NLL's gradient changes them.

    A small rise of tau moves a gradient step of training by d(tau · gradient)/dtau; the held-out NLL changes by the
    mean of Cov_p(s, ds) / tau² of that, ds the change of scores along its own gradient. Above 0 a lower tau is better.
    """
    q = torch.softmax(scores[0] / at, 1)
    q[torch.arange(len(q)), targets] -= 1
    of_users = torch.zeros_like(users).index_add_(0, scores[1], q @ items[1:])
    of_items = torch.zeros_like(items)
    of_items[1:] = q.T @ users[scores[1]]
    of_users -= (of_users * users).sum(1, keepdim=True) * users  # along the sphere
    of_items -= (of_items * items).sum(1, keepdim=True) * items
    pairs, covariance, deviations = model.interactions, 0.0, 0.0
    rows = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))[:TRAINED]
    for part in pairs.users[rows].split(ROWS):
        s = users[part] @ items[1:].T
        change = of_users[part] @ items[1:].T + users[part] @ of_items[1:].T
        p = torch.softmax(s / model.strategy.tau_0.item(), 1)
        s, change = s - (p * s).sum(1, keepdim=True), change - (p * change).sum(1, keepdim=True)
        covariance += (p * s * change).sum().item()
        deviations += ((p * s * s).sum(1) * (p * change * change).sum(1)).sqrt().sum().item()
    return covariance / deviations


@torch.no_grad()
def measured(run: Path) -> dict[str, float]:
    """What each rule makes of a run: the temperature it asks for as a share of the run's, or its sign."""
    with contextlib.redirect_stdout(io.StringIO()):
        _, model, _, _, valid, _ = load_data_and_model(str(run / "best.pth"))
    model.eval()
    data, tau = model.interactions, model.strategy.tau_0.item()
    users, items = model.view().embeddings
    feat = valid._dataset.inter_feat
    who, what = (np.asarray(feat[name]) for name in (valid._dataset.uid_field, valid._dataset.iid_field))
    known = data.user_counts.numpy()[who] > 0
    places = spread_places(who[known], POSITIVES, 0, kept=0)
    held_out, targets = (torch.from_numpy(ids[known][places]) for ids in (who, what))
    scores = users[held_out] @ items[1:].T
    unseen = scores.clone()
    for row, user in enumerate(held_out.tolist()):
        unseen[row, data.items[data.indptr[user] : data.indptr[user + 1]] - 1] = FAR_BELOW
    chance = torch.from_numpy(np.random.default_rng(0).random(len(held_out)))
    trained = data.items[data.indptr[held_out] + (chance * data.user_counts[held_out]).long()] - 1
    targets = targets - 1
    new, masked, known_ones = (calibrated(*of) for of in ((scores, targets), (unseen, targets), (scores, trained)))
    margin = math.sqrt(max(new / known_ones, 1.0))
    known_score, new_score = (scores.gather(1, of[:, None]).mean().item() for of in (trained, targets))
    ratio = min(math.sqrt(max(known_score / max(new_score, 1e-9), 1.0)), math.sqrt(2))
    nll = torch.logsumexp(unseen / masked, 1) - unseen.gather(1, targets[:, None])[:, 0] / masked
    view = model.view()
    closed = global_tau(view.gap, view.log_ratio_left, 1e-3, math.inf)
    return {
        "tau": tau,
        "validation": json.loads((run / "result.json").read_text())["best_valid_score"],
        "closed form": math.log(closed / tau),
        "B": math.log(new / tau),
        "1.4 B'": math.log(1.4 * masked / tau),
        "1.6 B'": math.log(1.6 * masked / tau),
        "c B": math.log(min(margin, math.sqrt(2)) * new / tau),
        "c B, c not bounded": math.log(margin * new / tau),
        "r B": math.log(ratio * new / tau),
        "hypergradient": -hypergradient(users, items, (scores, held_out), targets, new, model),
        "hypergradient'": -hypergradient(users, items, (unseen, held_out), targets, masked, model),
        "NLL'": nll.mean().item(),
    }


def rest(rows: list[dict[str, float]], rule: str) -> str:
    """The temperature from which a rule neither rises nor falls; the end of the grid it runs to, if it has none."""
    for low, high in pairwise(rows):
        if low[rule] >= 0 > high[rule]:
            share = low[rule] / (low[rule] - high[rule])
            return f"{low['tau'] * (high['tau'] / low['tau']) ** share:.2f}"
    return f"< {rows[0]['tau']:g}" if rows[0][rule] < 0 else f"> {rows[-1]['tau']:g}"


def best(rows: list[dict[str, float]], value: Callable[[dict[str, float]], float]) -> str:
    """Where a parabola through the largest value and its neighbours is highest."""
    top = max(range(len(rows)), key=lambda place: value(rows[place]))
    if top in (0, len(rows) - 1):
        return f"{'<' if top == 0 else '>'}= {rows[top]['tau']:g}"
    near = rows[top - 1 : top + 2]
    a, b, _ = np.polyfit([math.log(row["tau"]) for row in near], [value(row) for row in near], 2)
    return f"{math.exp(-b / (2 * a)):.2f}"


def table(folders: list[str]) -> Iterator[str]:
    head: list[str] = []
    for folder in folders:
        runs = sorted(Path(folder).glob("runs/fixed-*/result.json"))
        rows = sorted((measured(file.parent) for file in runs), key=lambda row: row["tau"])
        rules = [key for key in rows[0] if key not in ("tau", "validation", "NLL'")]
        if not head:
            head = ["grid", "best by validation", "lowest calibrated NLL'", *rules]
            yield from (" | ".join(["", *cells, ""]).strip() for cells in (head, ["---"] * len(head)))
        by_metric, by_nll = best(rows, lambda row: row["validation"]), best(rows, lambda row: -row["NLL'"])
        yield " | ".join(["", Path(folder).name, by_metric, by_nll, *(rest(rows, rule) for rule in rules), ""]).strip()


if __name__ == "__main__":
    for line in table(sys.argv[1:]):
        print(line, flush=True)
