"""What setting the temperatures takes of an epoch, and of the positives, for each strategy that computes them."""

from functools import partial
from typing import Any

import numpy as np
from tqdm import tqdm

from .contenders import NEGATIVES, Contender
from .timing import epoch_seconds, fitting_batches, median_and_range, seconds_of

STRATEGIES = ("adaptive", "adaptive_user", "calibrated", "calibrated_user")
RECIPES = ("none", "plus")
# Four epochs in a row, since some of the work is done in every fourth; the very first ones take a step more.
MEASURING = range(4, 8)


def measure(dataset: str, data_path: str, model: str, rounds: int, budget: float) -> dict[str, Any]:
    """A row for each strategy, plain and with the recipe plus: shares of an epoch's seconds, and of the positives."""
    rows = []
    cases = [(recipe, strategy) for recipe in RECIPES for strategy in STRATEGIES]
    for recipe, strategy in tqdm(cases, desc=f"temperature {dataset}", disable=None):
        settings = {"data_path": data_path, "num_negatives": NEGATIVES, "recipe": recipe, "tau_strategy": strategy}
        rows.append({"recipe": recipe, **of_strategy(Contender(strategy, model, dataset, settings), rounds, budget)})
    return {"dataset": dataset, "model": model, "rows": rows}


def of_strategy(contender: Contender, rounds: int, budget: float) -> dict[str, Any]:
    """The same model is timed all along: an epoch as RecBole runs it, then the work at its beginning alone."""
    model, trainer = contender.trainer.model, contender.trainer
    last = trainer.epochs - 1
    number = fitting_batches(trainer, contender.batches, budget)
    while_measuring, afterwards = [], []
    for _ in range(rounds):
        # Without the work at its beginning, which differs from epoch to epoch.
        rest = epoch_seconds(trainer, contender.batches, number) - seconds_of(partial(model.begin_epoch, 1))
        often = float(np.mean([seconds_of(partial(model.begin_epoch, epoch)) for epoch in MEASURING]))
        later = seconds_of(partial(model.begin_epoch, last))
        while_measuring.append(often / (rest + often))
        afterwards.append(later / (rest + later))
    held_out, until = model.held_out, getattr(model.strategy.settings, "held_out_until", 0.0)
    of_run = [until * a + (1 - until) * b for a, b in zip(while_measuring, afterwards, strict=True)]
    positives = 0 if held_out is None else len(held_out)
    return {
        "strategy": contender.label,
        "while_measuring": median_and_range(while_measuring),
        "afterwards": median_and_range(afterwards),
        "of_a_run": median_and_range(of_run),
        "held_out": positives,
        "share_held_out": positives / (positives + len(model.interactions)),
    }
