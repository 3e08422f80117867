"""`recbole-adaptau tune`: search what Adap-tau leaves to tune, with RecBole's HyperTuning."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from ..errors import need
from ..files import need_parent
from ..runs import pool, runner
from ..studies import tuning
from ..studies.study import Study
from ..training.checkpoint import quoted
from .arguments import STOPPABLE, TAKEN, add_data_arguments, given_settings
from .command import RESUMABLE, exit_code, need_matplotlib, new_parser, typed

PROGRAM = "recbole-adaptau tune"
EXAMPLES = f"""examples:
  {PROGRAM} --model AdapTauLightGCN --dataset ml-100k --nproc 2
  {PROGRAM} -m AdapTauMF -d ml-1m --params_file ranges.test --algo random --max_evals 20 --epochs=30
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the verb; returns its exit code."""
    return exit_code("tune", _tune, arguments, RESUMABLE)


def _tune(words: list[str]) -> None:
    args, rest = parser().parse_known_args(words)
    given = given_settings(args.config_files, rest, TAKEN | {"seed": "--seed"})
    workers = pool.Workers.checked(args.parallel, args.ray_address)
    need_matplotlib()
    need("hyperopt", "tuning needs", "tune")
    path = tuning.params_file(args.model, args.params_file)
    search = tuning.Search(
        args.model, args.dataset, path, args.algo, args.max_evals, args.early_stop, args.seed, args.parallel
    )
    common = given | quoted({"protocol": args.protocol, "data_path": args.data_path})
    output = args.output or Path("runs/tune") / f"{args.dataset}-{args.model}-{args.protocol}"
    need_parent(output, "--output")
    about = {"command": typed("tune", words), "version": __version__, "seeds": [args.seed]}
    about |= {key: getattr(args, key) for key in ("model", "algo", "dataset", "protocol")}
    study = Study("tune", search.specs(common), output, given, about, tuning.files)
    tuning.refuse_idle_keys(study.specs, study.check())
    if search.knows_all:
        study.carry_out(workers)
    about["best"] = search.choose(output, common, study.write, args.output_file)
    study.write(runner.records(search.asked, output))
    print(study.page())


def parser() -> argparse.ArgumentParser:
    """What RecBole's own run_hyper.py takes, by the same names, and what our verbs over several runs take."""
    made = new_parser(
        PROGRAM,
        "Search the ranges of a file with RecBole's HyperTuning; write tune.json, tune.md and a picture. The lines of\n"
        "the file are RecBole's, such as 'learning_rate choice [1e-3,1e-2]' or 'reg_weight loguniform -12,-4'. The\n"
        f"temperature needs no search. The best trial is the one that validates best.\n{STOPPABLE}",
        EXAMPLES,
        allow_abbrev=False,
    )
    made.add_argument("--model", "-m", required=True, help="model name")
    made.add_argument("--dataset", "-d", required=True, help="dataset name")
    made.add_argument(
        "--params_file", type=Path, metavar="FILE", help="ranges (default: that of the model in properties/hyper)"
    )
    made.add_argument("--algo", choices=tuning.ALGORITHMS, default="exhaustive", help="default: %(default)s")
    made.add_argument(
        "--max_evals",
        type=int,
        default=20,
        help="trials of random and bayes (default: %(default)s); exhaustive tries all",
    )
    made.add_argument(
        "--early_stop", type=int, metavar="N", help="stop after N trials without progress (default: never)"
    )
    made.add_argument("--output_file", type=Path, metavar="FILE", help="also RecBole's list of all results")
    made.add_argument("--seed", "--seeds", type=int, default=2020, help="seed of all trials (default: %(default)s)")
    add_data_arguments(made, "runs/tune/DATASET-MODEL-PROTOCOL")
    return made
