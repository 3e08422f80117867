"""From the command line to an experiment's files: JSON with everything, the table as CSV, a page, and a picture."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import recbole.data
import recbole.utils

import recbole_adaptau

from ...errors import DataError, OptionError
from ...model import AdapTauRecommender
from ...reporting import tables
from ...reporting.saved_run import SavedRun, data_statistics
from ...runs import pool, runner
from ...training.checkpoint import quoted
from . import EXPERIMENTS
from .base import Asked, Experiment, Run
from .summary import goes_beyond

QUICK_DATASET = "ml-100k"
# Options for values that are searched on validation.
SEARCHED = {
    "starts": "temperatures where C-tau and Cu-tau start",
    "tau-rates": "their learning rates (tau_learning_rate)",
    "reg-weights": "L2 of No norm (reg_weight)",
}


def listing() -> str:
    """One line for each experiment."""
    width = max(map(len, EXPERIMENTS))
    return "\n".join(f"{name:<{width}}  {experiment.brief}" for name, experiment in EXPERIMENTS.items())


def add_arguments(command: argparse.ArgumentParser, experiment: Experiment) -> None:
    """What an experiment of the paper understands beside what all commands do."""

    def listed(values: Sequence[Any]) -> str:
        return " ".join(map(str, values))

    command.add_argument("--dataset", "-d", help=f"dataset name; {QUICK_DATASET} with --quick")
    command.add_argument(
        "--model", "-m", nargs="+", default=list(experiment.models),
        help=f"model name{'s' if experiment.several_models else ''} (default: {listed(experiment.models)})",
    )  # fmt: skip
    command.add_argument("--seeds", type=int, nargs="+", default=[2020], help="seeds (default: 2020)")
    command.add_argument(
        "--epochs",
        type=int,
        help=f"epochs of every run (default: {experiment.epochs or 'until each model stops'}; "
        f"{experiment.quick_epochs} with --quick)",
    )
    if experiment.taus:
        command.add_argument(
            "--taus", type=float, nargs="+", help=f"temperatures of the grid (default: {listed(experiment.taus)})"
        )
    if experiment.shares:
        command.add_argument(
            "--shares",
            type=float,
            nargs="+",
            help=f"shares of noise, from 0 to 1 (default: {listed(experiment.shares)})",
        )
    for name, values in experiment.searched.items():
        command.add_argument(
            f"--{name}", type=float, nargs="*", help=f"{SEARCHED[name]}; none for no search (default: {listed(values)})"
        )
    command.add_argument("--quick", action="store_true", help=f"a small version on {QUICK_DATASET} in minutes")
    command.add_argument("--agreement", metavar="SENTENCE", help="a sentence for the page on agreement with the paper")


def asked_of(args: argparse.Namespace, experiment: Experiment, given: dict[str, Any]) -> Asked:
    """The command's arguments as an experiment reads them, or an error before anything is done."""
    if not args.dataset and not args.quick:
        raise OptionError(f"{experiment.name} needs --dataset NAME, or --quick for a small version on {QUICK_DATASET}.")
    if len(args.model) > 1 and not experiment.several_models:
        raise OptionError(f"{experiment.name} takes one model at a time, not {' '.join(args.model)}.")
    for model in args.model:
        if not experiment.any_model and not issubclass(recbole.utils.get_model(model), AdapTauRecommender):
            raise OptionError(
                f"{experiment.name} is about tau, which {model} does not have: choose e.g. --model AdapTauMF."
            )
    if args.epochs is not None and args.epochs < 1:
        raise OptionError(f"--epochs {args.epochs}: must be at least 1.")
    epochs = args.epochs or (experiment.quick_epochs if args.quick else experiment.epochs)
    shares = getattr(args, "shares", None) or (experiment.quick_shares if args.quick else experiment.shares)
    for share in shares:
        if not 0 <= share <= 1:
            raise OptionError(f"--shares {share}: a share of noise lies between 0 and 1.")
    searched = experiment.quick_searched if args.quick else experiment.searched
    said = {name: getattr(args, name.replace("-", "_")) for name in searched}
    return Asked(
        models=args.model,
        dataset=args.dataset or QUICK_DATASET,
        seeds=args.seeds,
        epochs=epochs,
        taus=getattr(args, "taus", None) or (experiment.quick_taus if args.quick else experiment.taus),
        shares=shares,
        given=given | quoted({"protocol": args.protocol, "data_path": args.data_path}),
        protocol=args.protocol,
        searched={name: values if said[name] is None else said[name] for name, values in searched.items()},
    )


def carry_out(args: argparse.Namespace, given: dict[str, Any], command: str) -> None:
    workers = pool.Workers.checked(args.parallel, args.ray_address)
    experiment = EXPERIMENTS[args.command]
    asked = asked_of(args, experiment, given)
    kind = "quick" if args.quick else args.protocol
    output = args.output or Path("runs/experiment/paper") / f"{asked.dataset}-{kind}"
    asked = replace(asked, root=output)
    name = f"{experiment.name}-{'-'.join(asked.models)}"
    specs = experiment.runs(asked)
    configs = runner.check(specs, output)
    for note in runner.without_effect(configs, given):
        print(f"note: {note}", file=sys.stderr)
    about = {
        "experiment": experiment.name,
        "brief": experiment.brief,
        "command": command,
        "version": recbole_adaptau.__version__,
        "models": list(asked.models),
        "dataset": asked.dataset,
        "protocol": args.protocol,
        "valid_metric": configs[0]["valid_metric"],
        "seeds": list(asked.seeds),
        "epochs": asked.epochs,
        "taus": list(asked.taus),
        "shares": list(asked.shares),
        "searched": {name: list(values) for name, values in asked.searched.items()},
        "given": {key: configs[0][key] for key in given},
        "runs_asked": len(specs),
        "agreement": args.agreement or _earlier_agreement(output / f"{name}.json"),
        "data": _statistics(configs[0]),
    }

    def write(records: list[Run]) -> None:
        runs = with_measures(experiment, records, output)
        rows, remarks = experiment.table(asked, runs), experiment.remarks(asked, runs)
        data = {**about, "runs": runs, "table": rows, "remarks": remarks}
        drawn = experiment.draw is not None and len(runs) == len(specs)
        if experiment.draw is not None and drawn:
            tables.write(output / f"{name}.png", experiment.draw(asked, runs))
        tables.write(output / f"{name}.json", data)
        tables.write(output / f"{name}.csv", tables.as_csv(rows))
        tables.write(output / f"{name}.md", page(data, f"{name}.png" if drawn else None))

    runner.carry_out(specs, output, write, workers)
    print((output / f"{name}.md").read_text(encoding="utf-8"))
    print(f"written to {output}")


def with_measures(experiment: Experiment, records: Sequence[Run], root: Path) -> list[Run]:
    """The records with what the experiment measures in each run's folder, kept there."""
    if experiment.measure is None:
        return list(records)
    runs = []
    for record in records:
        kept = root / record["folder"] / f"{experiment.name}.json"
        measured = _read_json(kept) if kept.is_file() else {}
        if not kept.is_file() or not measured.keys() >= set(experiment.measured):
            tables.write(kept, experiment.measure(SavedRun(root / record["folder"])))
            measured = _read_json(kept)
        runs.append({**record, "measured": measured})
    return runs


def page(data: dict[str, Any], picture: str | None) -> str:
    """The experiment's Markdown."""
    plain = tables.methods([run for run in data["runs"] if not goes_beyond(run)]) or " and ".join(data["models"])
    lines = tables.opening(f"{data['experiment']}: {plain} on {data['dataset']}", data)
    size, seeds = data["data"], data["seeds"]
    parts = ", ".join(f"{part} {size[part]:,}" for part in ("train", "valid", "test"))
    length = f"of {data['epochs']} epochs" if data["epochs"] else "until each model stops"
    lines += [
        data["brief"],
        "",
        f"Data: {data['dataset']}, {size['users']:,} users, {size['items']:,} items, interactions: {parts}; training "
        f"density {100 * size['density']:.3g} %.",
        "",
        f"Runs {length}, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}. {data['runs_asked']} runs, "
        f"{tables.seconds(sum(run['seconds'] for run in data['runs']))} s of training and validation in all.",
        "",
        *tables.as_markdown(data["table"]),
    ]
    for remark in data["remarks"]:
        lines += ["", remark]
    if data.get("agreement"):
        lines += ["", f"**Agreement with the paper:** {data['agreement']}"]
    if picture:
        lines += ["", f"![{data['experiment']}]({picture})"]
    return "\n".join([*lines, ""])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise DataError(f"{path} is damaged ({error}): delete it, and it is measured again.") from error


def _earlier_agreement(path: Path) -> str | None:
    """The sentence an earlier command gave."""
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("agreement")
    except (OSError, ValueError, AttributeError):
        return None


def _statistics(config: Any) -> dict[str, Any]:
    """The size of the data without noise; loading it here also tells whether it is there before anything is trained."""
    config["noise_ratio"] = config["noise_groups"] = None
    recbole.utils.init_seed(config["seed"], config["reproducibility"])
    return data_statistics(*recbole.data.data_preparation(config, recbole.data.create_dataset(config)))
