"""Where the modules of version 0.1 are now, told to whoever imports them by their old names; to be removed in 0.3."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType

MODULES = {
    "temperature": "core",
    "temperature.view": "core.epoch_view",
    "loss": "core.losses",
    "negatives": "core.negatives",
    "propagation": "core.propagation",
    "interactions": "core.interactions",
    "optimiser": "core.row_adam",
    "neighbours": "recipe.item_regression",
    "spectral": "recipe.spectral_start",
    "model.simgcl": "peers.simgcl",
    "model.xsimgcl": "peers.xsimgcl",
    "compat": "patches",
    "compat.fast_graphs": "peers.fast_graphs",
    "registry": "model.registry",
    "config": "config.loading",
    "options": "config.keys",
    "basics": "config.recbole_settings",
    "trainer": "training.trainer",
    "batches": "training.batches",
    "evaluation": "training.evaluation",
    "checkpoint": "training.checkpoint",
    "interrupt": "training.interrupt",
    "randomness": "training.randomness",
    "memory": "training.memory",
    "toplists": "training.toplists",
    "runs": "runs.folder",
    "recorder": "runs.recorder",
    "tested": "runs.tested",
    "quick_start": "runs.quick_start",
    "significance": "runs.significance",
    "distributed": "distributed.ranks",
    "launcher": "distributed.launcher",
    "experiments": "studies",
    "experiments.runner": "runs.runner",
    "experiments.pool": "runs.pool",
    "experiments.arguments": "cli.arguments",
    "experiments.report": "reporting.tables",
    "experiments.figures": "reporting.figures",
    "experiments.curves": "reporting.curves",
    "leaderboard": "studies.leaderboard",
    "benchmark": "studies.speed",
    "analysis": "reporting",
    "analysis.figures": "reporting.figures",
    "analysis.saved": "reporting.saved_run",
    "analysis.temperature": "reporting.gradient",
    "report": "reporting.html",
    "export": "serving.export",
    "recommend": "cli.recommend",
    "serving.neighbours": "serving.similar",
    "serving.command": "cli.command",
    "cli": "cli.train",
    "data.__main__": "cli.data",
}
# What `python -m recbole_adaptau.NAME` was.
VERBS = {
    "experiments": "experiment",
    "leaderboard": "compare",
    "benchmark": "bench",
    "data.__main__": "data",
    "analysis": "analyse",
    "report": "report",
    "export": "export",
    "recommend": "recommend",
    "cli": "train",
}


class Finder(MetaPathFinder):
    """Asked first: of an old package, a folder with compiled files may be left, which other finders take for one."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        package, _, asked = name.partition(".")
        if package != __package__:
            return
        old = asked
        while old and old not in MODULES:
            old = old.rpartition(".")[0]
        if not old:
            return
        # `runs` was a module and is a package: what was imported from it is asked for as `runs.RunFolder`.
        is_package = MODULES[old].startswith(f"{old}.")
        if is_package and (asked == old or PathFinder.find_spec(name, path) is not None):
            return
        command = f" The command is `recbole-adaptau {VERBS[old]}`." if old in VERBS else ""
        # Without a name: Python passes over a missing module that has the name of what is imported from another.
        raise ModuleNotFoundError(
            f"{package}.{old} has moved in version 0.2: the module is {package}.{MODULES[old]}.{command}"
        )


def install() -> None:
    sys.meta_path.insert(0, Finder())
