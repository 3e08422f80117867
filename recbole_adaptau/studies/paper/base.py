"""What an experiment of the paper is: a list of runs, and functions from the finished runs to a table and pictures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...reporting.plots import Figure
from ...reporting.saved_run import SavedRun
from ...reporting.tables import PROTOCOLS, Row
from ...runs.runner import Spec
from ...training.checkpoint import quoted

# The paper's method, its learning rate falling over few epochs instead of standing over hundreds. The last four metrics
# are RecBole's on fairness.
METRICS = ["Recall", "NDCG", "GiniIndex", "AveragePopularity", "ItemCoverage", "TailPercentage"]
PAPER = {"preset": "paper", "lr_schedule": "linear", "learning_rate": 0.002, "metrics": METRICS, "topk": [20]}
# The package's own lengths and rates, for what goes beyond the paper.
OURS = {"metrics": METRICS, "topk": [20]}
Run = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What the user wants an experiment done on.

    Attributes:
        taus: The temperatures of the grid.
        shares: Shares of noise.
        searched: Values to be searched on validation, by the names of `Experiment.searched`.
        epochs: Of every run; 0 for as many as the settings of each model say.
        given: Settings for every run, strings quoted; they win over the experiment's own.
        root: The folder that the runs' folders are in.
    """

    models: Sequence[str]
    dataset: str
    seeds: Sequence[int]
    epochs: int
    taus: Sequence[float] = ()
    shares: Sequence[float] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = "honest"
    root: Path = Path()
    searched: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return self.models[0]

    def described(self, what: str) -> str:
        """The title of a picture: what it shows, on what, and how the epoch was chosen."""
        seeds = f"seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}"
        epochs = f", {self.epochs} epochs" if self.epochs else ""
        on = f"{', '.join(self.models)} on {self.dataset}{epochs}, {seeds}"
        return f"{what}: {on}\n{PROTOCOLS[self.protocol]}"

    def spec(
        self, name: str, varied: Mapping[str, Any], model: str | None = None, base: Mapping[str, Any] = PAPER
    ) -> Spec:
        """A run called MODEL-name; the same name always means the same settings, so experiments share their runs."""
        model = model or self.model
        common = {"epochs": self.epochs, "eval_step": eval_step(self.epochs), "stopping_step": self.epochs}
        given = {**quoted({**base, **common}), **self.given}
        return Spec(f"{model}-{name}-seed{varied['seed']}", model, self.dataset, varied, given)

    def strategy(self, strategy: str, seed: int, model: str | None = None, **more: Any) -> Spec:
        """A run with a strategy of the paper; `more` names what else differs (tau, noise_ratio, normalization …)."""
        parts = [strategy, *(f"{SHORT.get(key, key)}{_in_name(value)}" for key, value in more.items())]
        # The preset ranks by cosine, which is not what a model without (both) normalisations is trained for.
        plain = strategy == "none" or "normalization" in more
        score = {"test_score": "auto"} if plain else {}
        if strategy == "none":
            score["normalization"] = "auto"
        return self.spec("-".join(parts), {"tau_strategy": strategy, **more, **score, "seed": seed}, model)

    def grid(self, seed: int, model: str | None = None, **more: Any) -> list[Spec]:
        """A run with a fixed temperature at each tau of the grid."""
        return [self.strategy("fixed", seed, model, tau=tau, **more) for tau in sorted(self.taus)]

    def plus(self, seed: int, model: str | None = None) -> Spec:
        """A run with the recipe plus, which goes beyond the paper."""
        return self.spec("plus", {"recipe": "plus", "seed": seed}, model, OURS)

    def compared(self, seed: int) -> list[Spec]:
        """No norm, the grid, both adaptive strategies, and the recipe plus."""
        adaptive = [self.strategy(name, seed) for name in ("adaptive", "adaptive_user")]
        return [self.strategy("none", seed), *self.grid(seed), *adaptive, self.plus(seed)]


SHORT = {
    "noise_ratio": "noise",
    "noise_groups": "groups",
    "normalization": "",
    "tau_learning_rate": "rate",
    "tau_startup_epochs": "assumed_gap",
}


def _in_name(value: Any) -> str:
    return "_".join(map(str, value)) if isinstance(value, list) else str(value)


def eval_step(epochs: int) -> int:
    """Validate about five times, and always after the last epoch."""
    return max((step for step in range(1, epochs // 4 + 1) if epochs % step == 0), default=1)


def no_remarks(asked: Asked, runs: Sequence[Run]) -> list[str]:
    return []


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        name: As typed on the command line.
        brief: One line for `list`.
        runs: The runs to be made.
        table: Rows from the finished runs, also while some are missing.
        draw: The picture, once all runs are finished.
        remarks: Markdown lines below the table: the paper's figures, tests, conclusions.
        measure: What to compute once from each finished run's folder, and keep there; found as run["measured"].
        measured: What `measure` gives for every run; a measurement kept by an earlier version without it is repeated.
        models: Which models it is for unless others are asked for.
        epochs, taus, shares: Defaults; the quick ones are for ml-100k. 0 epochs: as the settings of each model say.
        searched: Options whose values are searched on validation, beside tau; likewise with quick ones.
        several_models: Whether it takes more than one.
        any_model: Whether it takes models without a temperature, too.
    """

    name: str
    brief: str
    runs: Callable[[Asked], list[Spec]]
    table: Callable[[Asked, Sequence[Run]], list[Row]]
    draw: Callable[[Asked, Sequence[Run]], Figure] | None = None
    remarks: Callable[[Asked, Sequence[Run]], list[str]] = no_remarks
    measure: Callable[[SavedRun], dict[str, Any]] | None = None
    measured: tuple[str, ...] = ()
    models: tuple[str, ...] = ("AdapTauMF",)
    several_models: bool = False
    any_model: bool = False
    epochs: int = 20
    quick_epochs: int = 6
    taus: tuple[float, ...] = ()
    quick_taus: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    quick_shares: tuple[float, ...] = ()
    searched: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    quick_searched: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
