"""The speed table: epochs, evaluation, memory, where the time goes, and the roofline, all in one run."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from recbole.evaluator import Collector
from recbole.trainer import Trainer
from tqdm import tqdm

from .contenders import BATCH, DIMENSION, NEGATIVES, Contender, contenders
from .timing import (
    EPOCH,
    First,
    epoch_seconds,
    fitting_batches,
    in_own_process,
    median_and_range,
    peak_memory,
    seconds_of,
)

# One user at a time on a large catalogue; and what suits RecBole best where memory taken anew for every batch costs.
RECBOLES_DEFAULT_EVAL_BATCH, RECBOLES_BEST_EVAL_BATCH = 4096, 4_000_000
# In a round everybody has as many turns, up to this, as there is time for at least that many batches in each.
TURNS, LEAST_IN_A_TURN = 8, 3
OURS = ("AdapTauMF", "AdapTauLightGCN")
# (figure, who, over whom): each is a ratio of two epochs timed in the same round.
RATIOS = (
    ("per-row ÷ AdapTauMF", "per row, gathered", "AdapTauMF"),
    ("AdapTauMF ÷ RecBole BPR", "AdapTauMF", "RecBole BPR"),
    ("AdapTauMF, dense Adam ÷ RecBole BPR", "AdapTauMF, dense Adam", "RecBole BPR"),
    ("RecBole LightGCN ÷ AdapTauLightGCN", "RecBole LightGCN", "AdapTauLightGCN"),
    ("RecBole SGL ÷ AdapTauLightGCN", "RecBole SGL", "AdapTauLightGCN"),
    ("RecBole SimpleX ÷ AdapTauMF", "RecBole SimpleX", "AdapTauMF"),
    ("AdapTauMF ÷ roofline", "AdapTauMF", "roofline"),
)


def measure(dataset: str, data_path: str, rounds: int, budget: float) -> dict[str, Any]:
    """Time everybody in turn, `rounds` times, each for about `budget` seconds a turn."""
    field = contenders(dataset, data_path)
    with tqdm(total=len(field) + rounds * TURNS, desc=f"speed {dataset}", disable=None) as bar:
        numbers = {}
        for contender in field:
            bar.set_postfix_str(f"prepare {contender.label}")
            numbers[contender.label] = fitting_batches(contender.trainer, contender.batches, budget)
            bar.update()
        timers = {entry.label: partial(epoch_seconds, entry.trainer, entry.batches) for entry in field}
        timers["roofline"] = partial(roofline_epoch, field[0])
        numbers["roofline"] = numbers["AdapTauMF"]
        seconds: dict[str, list[float]] = {label: [] for label in timers}
        for _ in range(rounds):
            for label, value in one_round(timers, numbers, bar).items():
                seconds[label].append(value)
    del numbers["roofline"]
    ratios = {
        name: median_and_range([a / b for a, b in zip(seconds[who], seconds[whom], strict=True)])
        for name, who, whom in RATIOS
    }
    parts = {label: where_time_goes(contender) for contender in field if (label := contender.label) in OURS}
    memory = {
        label: in_own_process({"train": label, "dataset": dataset, "data_path": data_path})["peak_bytes"]
        for label in tqdm(numbers, desc=f"memory {dataset}", disable=None)
    }
    return {
        "dataset": dataset,
        "epoch_seconds": {label: median_and_range(values) for label, values in seconds.items()},
        "batches_timed": numbers,
        "ratios": ratios,
        "peak_bytes": memory,
        "parts": parts,
        "evaluation": evaluation(field[0], rounds),
    }


def one_round(timers: Mapping[str, Callable[[int], float]], numbers: Mapping[str, int], bar: Any) -> dict[str, float]:
    """Seconds of everybody's epoch: the median of several short turns, or one turn where a batch takes long.

    The machine's speed wanders within seconds; those who take turns every second or two meet the same of it.
    """
    shares = {label: int(np.clip(numbers[label] // LEAST_IN_A_TURN, 1, TURNS)) for label in timers}
    turns: dict[str, list[float]] = {label: [] for label in timers}
    for turn in range(TURNS):
        for label, share in shares.items():
            if turn * share // TURNS > (turn - 1) * share // TURNS:  # its turns are spread over the round
                bar.set_postfix_str(label)
                turns[label].append(timers[label](numbers[label] // share))
        bar.update()
    return {label: float(np.median(values)) for label, values in turns.items()}


def training_memory(label: str, dataset: str, data_path: str) -> dict[str, float]:
    """Bytes that a few training batches need beyond data, model and all that was there before them."""
    (contender,) = (entry for entry in contenders(dataset, data_path) if entry.label == label)
    trainer, loader = contender.trainer, contender.batches
    with peak_memory() as peak:
        trainer._train_epoch(First(loader, 3), 0)
        return {"peak_bytes": peak()}


def where_time_goes(contender: Contender, batches: int = 40) -> dict[str, float]:
    """Seconds of an epoch by part: data, propagation, loss, backward, optimiser and the temperature update."""
    model, optimiser, loader = contender.trainer.model, contender.trainer.optimizer, contender.batches
    total = len(loader)
    clock = dict.fromkeys(("data", "propagation", "loss", "backward", "optimiser"), 0.0)
    encode = model.encode

    def timed_encode() -> Any:
        started = time.perf_counter()
        result = encode()
        clock["propagation"] += time.perf_counter() - started
        return result

    model.train()
    tau = float(np.median([seconds_of(lambda: model.begin_epoch(EPOCH)) for _ in range(5)]))
    model.encode = timed_encode
    try:
        iterator, done = iter(loader), min(batches, total)
        started = time.perf_counter()
        first = next(iterator)
        once = time.perf_counter() - started
        for number in range(done):
            marks = [time.perf_counter()]
            batch = first if number == 0 else next(iterator)
            marks.append(time.perf_counter())
            optimiser.zero_grad()
            loss = model.calculate_loss(batch)
            marks.append(time.perf_counter())
            loss.backward()
            marks.append(time.perf_counter())
            optimiser.step()
            marks.append(time.perf_counter())
            for name, a, b in zip(("data", "loss", "backward", "optimiser"), marks, marks[1:], strict=False):
                clock[name] += b - a
    finally:
        del model.encode
    clock["loss"] -= clock["propagation"]
    return {name: value / done * total for name, value in clock.items()} | {"first batch": once, "tau": tau}


def roofline_epoch(contender: Contender, batches: int) -> float:
    """Seconds of the work an AdapTauMF epoch cannot avoid: its matrix products, exponentials and memory traffic."""
    n, m = contender.trainer.model.n_users, contender.trainer.model.n_items
    tables, moments = [[torch.rand(rows, DIMENSION) for rows in (n, m)] for _ in range(2)]
    users, items = torch.randint(n, (BATCH,)), torch.randint(m, (BATCH + NEGATIVES,))
    scores, mean = torch.empty(BATCH, NEGATIVES), torch.empty(BATCH, DIMENSION)
    candidates = torch.empty(DIMENSION, NEGATIVES)

    @torch.no_grad()
    def step() -> None:
        u, i = tables[0][users], tables[1][items]
        torch.mm(u, i[BATCH:].T, out=scores)
        scores.exp2_()
        scores.sum(1)
        torch.mm(scores, i[BATCH:], out=mean)
        torch.mm(u.T.contiguous(), scores, out=candidates)
        for table, moment, rows, gradient in zip(
            tables, moments, (users, items), (mean, torch.cat([mean, candidates.T])), strict=True
        ):
            moment.index_add_(0, rows, gradient.square())
            table.index_add_(0, rows, gradient * moment[rows].rsqrt(), alpha=-1e-3)

    def steps() -> None:
        for _ in range(batches):
            step()

    step()
    return seconds_of(steps) / batches * len(contender.loaders[0])


def evaluation(contender: Contender, rounds: int) -> dict[str, Any]:
    """One evaluation on the test part: RecBole's way and ours, on the same scores, which must give the same figures."""
    ours = contender.trainer
    theirs = Trainer(contender.config, ours.model)
    theirs.eval_collector = Collector(contender.config)
    theirs.eval_collector.data_collect(contender.loaders[0])
    test, smaller = contender.loaders[2], _with_eval_batch(contender, RECBOLES_BEST_EVAL_BATCH).loaders[2]
    seconds: dict[str, list[float]] = {"RecBole": [], "RecBole at its best": [], "ours": []}
    for _ in range(rounds):
        results = []
        for name, trainer, loader in (
            ("RecBole", theirs, test),
            ("RecBole at its best", theirs, smaller),
            ("ours", ours, test),
        ):
            started = time.perf_counter()
            results.append(trainer.evaluate(loader, load_best_model=False))
            seconds[name].append(time.perf_counter() - started)
        if not results[0] == results[1] == results[2]:
            raise AssertionError(f"the evaluations differ: {results}")
    default = _with_eval_batch(contender, RECBOLES_DEFAULT_EVAL_BATCH).loaders[2]
    default_seconds = seconds_of(lambda: theirs.evaluate(default, load_best_model=False))
    ratios = {
        f"{name} ÷ ours": median_and_range([a / b for a, b in zip(seconds[name], seconds["ours"], strict=True)])
        for name in ("RecBole", "RecBole at its best")
    }
    return {
        **{name: median_and_range(values) for name, values in seconds.items()},
        **ratios,
        "RecBole with its default eval_batch_size, once": default_seconds,
    }


def _with_eval_batch(contender: Contender, size: int) -> Contender:
    return Contender(
        contender.label, contender.model, contender.dataset, {**contender.settings, "eval_batch_size": size}
    )
