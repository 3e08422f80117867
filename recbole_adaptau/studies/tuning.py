"""What is left to tune (learning rate, L2, layers) on RecBole's HyperTuning; the temperature is not in the space.

HyperTuning says which points to try and which validates best; the trials are runs of the one runner, so that they go
side by side, are resumed and never made twice. All is seeded: the same command asks for the same points again.
"""

import ast
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recbole.config import Config
from recbole.trainer import HyperTuning

from ..config.keys import notes
from ..config.yaml_files import PROPERTIES
from ..errors import OptionError, did_you_mean
from ..reporting.tables import METRICS, methods, opening, seconds, table, title
from ..runs import runner
from ..runs.runner import Spec
from ..training.checkpoint import plain

ALGORITHMS = ("exhaustive", "random", "bayes")
SEED = "HYPEROPT_FMIN_SEED"  # where hyperopt's fmin, which HyperTuning calls without a seed, looks for one


def params_file(model: str, given: Path | None) -> Path:
    """The range file asked for, or the one for the model in our properties."""
    own = PROPERTIES / "hyper" / f"{model}.test"
    path = given or (own if own.is_file() else PROPERTIES / "hyper" / "AdapTau.test")
    if not path.is_file():
        raise OptionError(f"--params_file: there is no file {path.absolute()}.")
    return path


def check_ranges(path: Path, algo: str) -> None:
    """Refuse lines that HyperTuning would skip, evaluate as code, or try at one point only."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise OptionError(f"{path} is empty: write lines such as 'learning_rate choice [1e-3,1e-2]'.")
    for line in lines:
        found = re.fullmatch(r"(\w+) (\w+) (\S.*)", line)
        if found is None or found[2] not in VALUES:
            hint = did_you_mean(found[2], VALUES) if found else ""
            raise OptionError(
                f"{path}: cannot read '{line}': lines are KEY KIND VALUES with KIND one of {', '.join(VALUES)}.{hint}"
            )
        if not VALUES[found[2]][0](found[3].replace(" ", "")):
            raise OptionError(f"{path}: cannot read the values of '{line}': {found[2]} takes {VALUES[found[2]][1]}.")
        if algo == "exhaustive" and found[2] != "choice":
            raise OptionError(
                f"{path}: '{line}' has no end of values, so it cannot be searched exhaustively: use choice, or "
                "--algo random or bayes."
            )


def _listed(text: str) -> bool:
    try:
        values = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return isinstance(values, list) and len(values) > 0


def _numbers(count: int) -> Callable[[str], bool]:
    number = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
    return lambda text: re.fullmatch(",".join([number] * count), text) is not None


# The kinds of ranges RecBole has, and what their values look like.
VALUES: dict[str, tuple[Callable[[str], bool], str]] = {
    "choice": (_listed, "a list such as [1e-3,1e-2]"),
    "uniform": (_numbers(2), "LOW,HIGH"),
    "quniform": (_numbers(3), "LOW,HIGH,STEP"),
    "loguniform": (_numbers(2), "LOW,HIGH, the natural logarithms of the bounds"),
}


class Search:
    """One search: the points HyperTuning asks for, and the runs they become.

    Attributes:
        knows_all: Whether the points are known before any result is; those of bayes depend on results.
        asked: The trials that HyperTuning has had the results of.
    """

    def __init__(
        self,
        model: str,
        dataset: str,
        path: Path,
        algo: str,
        max_evals: int,
        early_stop: int | None,
        seed: int,
        workers: int,
    ):
        if max_evals < 1:
            raise OptionError(f"--max_evals {max_evals}: must be the number of trials, at least 1.")
        if early_stop is not None and early_stop < 1:
            raise OptionError(f"--early_stop {early_stop}: must be the number of trials without progress, at least 1.")
        check_ranges(path, algo)
        self.model, self.dataset, self.path, self.seed = model, dataset, path, seed
        self.algo, self.max_evals, self.early_stop = algo, max_evals, early_stop
        self.knows_all = algo != "bayes" and early_stop is None
        if workers > 1 and not self.knows_all:
            option = f"--algo {algo}" if algo == "bayes" else "--early_stop"
            raise OptionError(f"{option} waits for each result before the next trial: leave --nproc out.")
        self.asked: list[Spec] = []

    def specs(self, given: Mapping[str, Any]) -> list[Spec]:
        """The trials in the order asked for; where results have a say in them, points to be checked and no more."""
        points: list[dict[str, Any]] = []

        def note(point: dict[str, Any], _: Any) -> dict[str, Any]:
            points.append(point)
            nothing: dict[str, float] = {}
            score = {"best_valid_score": 1.0, "valid_score_bigger": True}
            return {"model": self.model, **score, "best_valid_result": nothing, "test_result": nothing}

        self._run(note, None, show=False)
        # A random search may ask for a point twice.
        return list({spec.name: spec for spec in (self._spec(point, given) for point in points)}.values())

    def choose(
        self,
        root: Path,
        given: Mapping[str, Any],
        report: Callable[[list[dict[str, Any]]], None],
        output_file: Path | None,
    ) -> str:
        """The name of the trial HyperTuning finds best by validation; what it asks for and is not there is run."""

        def trial(point: dict[str, Any], _: Any) -> dict[str, Any]:
            spec = self._spec(point, given)
            if not runner.is_done(spec, root):
                runner.check([spec], root)
                runner.carry_out([spec], root, lambda _: None)
            if spec not in self.asked:
                self.asked.append(spec)
            if not self.knows_all:
                report(runner.records(self.asked, root))
            (record,) = runner.records([spec], root)
            keys = ("best_valid_score", "valid_score_bigger", "best_valid_result", "test_result")
            return {"model": self.model, **{key: record[key] for key in keys}}

        tuning = self._run(trial, self.early_stop, show=not self.knows_all)
        if output_file:
            tuning.export_result(output_file)
        return self._spec(tuning.best_params, given).name

    def _spec(self, point: Mapping[str, Any], given: Mapping[str, Any]) -> Spec:
        values = {
            key: list(value) if isinstance(value, tuple) else plain(value) for key, value in sorted(point.items())
        }
        name = "-".join(re.sub(r"[^\w.+-]+", "_", f"{key}{value}") for key, value in values.items())
        return Spec(name, self.model, self.dataset, {**values, "seed": self.seed}, given)

    def _run(self, objective: Callable[..., dict[str, Any]], early_stop: int | None, show: bool) -> HyperTuning:
        """A whole search; RecBole's would stop after ten trials without progress, also in the middle of a grid."""
        tuning = HyperTuning(
            objective,
            params_file=str(self.path),
            algo=self.algo,
            max_evals=self.max_evals,
            early_stop=early_stop or sys.maxsize,
        )
        # HyperTuning prints test figures of trials, which nobody should choose by.
        with _seeded(self.seed), contextlib.redirect_stdout(io.StringIO()):
            if show:
                tuning.run()
            else:
                with contextlib.redirect_stderr(io.StringIO()):  # hyperopt's bar over what takes no time
                    tuning.run()
        return tuning


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    before = os.environ.get(SEED)
    os.environ[SEED] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED]
        else:
            os.environ[SEED] = before


def refuse_idle_keys(specs: Sequence[Spec], configs: Sequence[Config]) -> None:
    """Raise if a key of the space changes nothing: all its trials would be the same."""
    for spec, config in zip(specs, configs, strict=True):
        for note in notes(config):
            for key in spec.varied:
                if f"'{key}'" in note or note.startswith(f"{key} ="):
                    raise OptionError(f"the range file tunes {key}, to no effect: {note}")


def files(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The reports by file name."""
    from ..reporting.figures import tuning_figure

    data = collected(about, runs)
    return {"tune.json": data, "tune.md": text(data), "tune.png": tuning_figure(data)}


def collected(about: dict[str, Any], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All that tune.json holds; `best` names a run once HyperTuning has chosen."""
    return {"best": None, **about, "keys": [key for key in runs[0]["settings"] if key != "seed"], "runs": list(runs)}


def text(data: dict[str, Any]) -> str:
    """Validation figures of all trials, best first, and test figures of none but the chosen one."""
    runs = data["runs"]
    lines = opening(f"{methods(runs)} on {data['dataset']}: {len(runs)} trials, {data['algo']} search", data)
    bigger = runs[0]["valid_score_bigger"]
    rows = []
    for run in sorted(runs, key=lambda run: run["best_valid_score"], reverse=bigger):
        chosen = "**chosen**" if run["name"] == data["best"] else ""
        rows.append(
            [
                *(str(run["settings"][key]) for key in data["keys"]),
                *(run["best_valid_result"][name] for name in METRICS),
                f"{run['best_epoch']} of {run['epochs']}",
                seconds(run["seconds"]),
                chosen,
            ]
        )
    head = [*data["keys"], *(f"valid {title(name)}" for name in METRICS), "best epoch", "seconds", ""]
    lines += [*table(head, rows), ""]
    for run in runs:
        if run["name"] == data["best"]:
            shown = ", ".join(f"{title(name)} {run['test_result'][name]:.4f}" for name in METRICS)
            words = " ".join(f"--{key}={run['settings'][key]}" for key in data["keys"])
            lines += [f"Test figures of the chosen one: {shown}. To train with it: `{words}`.", ""]
    return "\n".join([*lines, "![tuning](tune.png)", ""])
