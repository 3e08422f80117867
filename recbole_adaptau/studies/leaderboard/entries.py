"""What each model is run with, and where those settings come from: properties/benchmark/*.yaml."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...config.yaml_files import PROPERTIES, read_yaml
from ...core.losses import LOSSES as LOSS_NAMES
from ...errors import OptionError
from ...recipe import method_name
from ...runs.runner import Spec
from ...training.checkpoint import quoted

FOLDER = PROPERTIES / "benchmark"
ADAPTIVE = ("AdapTauMF", "AdapTauMF+", "AdapTauLightGCN", "AdapTauLightGCN+")
LOSSES = ("AdapTauMF-softmax", "AdapTauMF-bsl", "AdapTauMF-psl", "AdapTauMF-slatk", "AdapTauMF-bpr")
PEERS = ("BPR", "LightGCN", "SGL", "NCL", "SimpleX", "SimGCL", "XSimGCL")
SIMPLE = ("Pop", "ItemKNN", "EASE", "SLIMElastic", "IALS", "ItemRegression")
MODELS = (*ADAPTIVE, *LOSSES, *PEERS, *SIMPLE)
FIRST_SEED = 2020
OURS = ("recipe", "loss")  # settings that only our models have, and that an entry may fix
# By the names that RecBole's models and ours give their temperature.
TEMPERATURE_KEYS = ("tau", "ssl_tau", "ssl_temp", "temperature", "temp")


@dataclass(frozen=True)
class Entry:
    """A model and the settings to try, of which validation chooses one.

    Attributes:
        model: RecBole's name of it.
        recipe: What is added to the paper's method: "plus" for the model `AdapTauMF+`, else "none".
        loss: The loss of `AdapTauMF-bsl`, at a fixed temperature; None for the model's own.
        temperatures_tried: How many temperatures its settings were chosen from; None for a model without one.
        published: NDCG@20 that was published for the same split; None where there is none.
        label: What tables call it, where that does not follow from the others.
    """

    model: str
    source: str
    trials: tuple[Mapping[str, Any], ...]
    temperatures_tried: int | None
    recipe: str = "none"
    loss: str | None = None
    published: float | None = None
    label: str | None = None

    @property
    def name(self) -> str:
        """What tables call it, and its runs' folders begin with."""
        if self.label:
            return self.label
        return method_name(self.model, self.recipe) + (f"-{self.loss}" if self.loss else "")

    def spec(self, trial: int, dataset: str, seed: int, given: Mapping[str, Any], budget: float | None) -> Spec:
        """One run; `budget` is the model's, in minutes, of which each of its runs has an equal part."""
        name = f"{self.name}{f'-try{trial + 1}' if len(self.trials) > 1 else ''}-seed{seed}"
        own: dict[str, Any] = {} if budget is None else {"budget_minutes": budget}
        own |= {} if self.recipe == "none" else {"recipe": self.recipe}
        own |= {} if self.loss is None else {"loss": self.loss}
        ours = self.model.startswith("AdapTau")
        shared = {key: value for key, value in given.items() if key not in OURS or (ours and key not in own)}
        settings = quoted({**common(), **self.trials[trial], **own}) | shared
        return Spec(name, self.model, dataset, {"seed": seed}, settings)


def common() -> dict[str, Any]:
    return read_yaml(FOLDER / "common.yaml")


def entries(models: Sequence[str], dataset: str) -> list[Entry]:
    """The dataset's own settings for each model where there are any, else those for all data.

    `AdapTauMF+` is AdapTauMF with the recipe plus; `AdapTauMF-bsl` is AdapTauMF with that loss at a fixed temperature,
    with the settings of its own name or else of `AdapTau-bsl`.
    """
    own = FOLDER / f"{dataset}.yaml"
    known = read_yaml(FOLDER / "default.yaml") | (_read(own) if own.is_file() else {})
    return [_entry(name, known) for name in models]


def _entry(name: str, known: Mapping[str, Any]) -> Entry:
    plain, _, loss = name.partition("-")
    model, recipe = plain.removesuffix("+"), "plus" if plain.endswith("+") else "none"
    if loss and (loss not in LOSS_NAMES or not model.startswith("AdapTau")):
        raise OptionError(
            f"--models {name}: after the - stands the loss of one of our models, one of {', '.join(LOSS_NAMES)}."
        )
    names = (name, f"AdapTau-{loss}") if loss else (plain, model, "any")
    found = next(known[key] for key in names if key in known)
    trials = tuple(found["try"])
    tried: int | None = found.get("temperatures_tried")
    if tried is None and model.startswith("AdapTau") and not loss:
        tried = 0
    if tried is None:
        values = {trial[key] for trial in trials for key in TEMPERATURE_KEYS if key in trial}
        tried = len(values) or None
    source = " ".join(str(found["source"]).split())
    return Entry(model, source, trials, tried, recipe, loss or None, found.get("published"))


def _read(path: Path) -> dict[str, Any]:
    found = read_yaml(path)
    for model, entry in found.items():
        if not isinstance(entry, dict) or not entry.get("source") or not entry.get("try"):
            raise OptionError(f"{path}: {model} needs 'source' and a list 'try' of settings.")
    return found
