"""Each seam takes one file: an example of each is written to a single file, imported, and used by name."""

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from recbole_adaptau.core.losses import LOSSES
from recbole_adaptau.core.negatives import NEGATIVES
from recbole_adaptau.core.strategies import STRATEGIES
from recbole_adaptau.model.registry import MODELS
from recbole_adaptau.recipe import PARTS
from tests.helpers import build, trainer_of

BACKBONE = """
from recbole_adaptau import register
from recbole_adaptau.core.settings import setting
from recbole_adaptau.model.base import AdapTauRecommender

@register
class ScaledMF(AdapTauRecommender):
    class Settings(AdapTauRecommender.Settings):
        user_scale: float = setting(2.0, "What users are multiplied by.", gt=0.0)

    def encode(self):
        return self.user_embedding.weight * self.settings.user_scale, self.item_embedding.weight
"""
STRATEGY = """
from recbole_adaptau.core.settings import setting
from recbole_adaptau.core.strategies import TemperatureStrategy, register_strategy

@register_strategy("cooling")
class Cooling(TemperatureStrategy):
    class Settings(TemperatureStrategy.Settings):
        cooling_start: float = setting(0.5, "The temperature of the first epoch.", gt=0.0)

    def begin_epoch(self, view):
        self.tau_0.fill_(max(self.settings.cooling_start * 0.8 ** view.epoch, self.settings.tau_min))
"""
LOSS = """
from recbole_adaptau.core.losses import Loss, register_loss

@register_loss("plain_difference")
class PlainDifference(Loss):
    def forward(self, batch):
        return batch.logsumexp(batch.tau) - batch.positive_at(batch.tau)
"""
MODE = """
from recbole_adaptau.core.negatives import CandidateNegatives, register_negatives

@register_negatives("first_ten")
class FirstTen(CandidateNegatives):
    def candidates(self, positives):
        return self.everything[:10], None
"""
PART = """
import torch
from recbole_adaptau.recipe import RecipePart, register_part

@register_part("half_logit")
class HalfLogit(RecipePart):
    meaning = "half a logit for every item with an odd id"

    def item_logits(self):
        return 0.5 * (torch.arange(self.interactions.n_items) % 2)
"""


@pytest.fixture
def one_file(tmp_path, monkeypatch):
    """Writes a module, imports it, and has every registry forget it afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {id(registry): set(registry) for registry in (STRATEGIES, LOSSES, NEGATIVES, PARTS, MODELS)}

    def write(text: str) -> None:
        files = set(tmp_path.rglob("*.py"))
        (tmp_path / "contributed.py").write_text(text)
        assert len(set(tmp_path.rglob("*.py")) - files) == 1
        importlib.import_module("contributed")

    yield write
    sys.modules.pop("contributed", None)
    for registry in (STRATEGIES, LOSSES, NEGATIVES, PARTS):
        for name in set(registry) - before[id(registry)]:
            registry.forget(name)
    for name in set(MODELS) - before[id(MODELS)]:
        del MODELS[name]


@pytest.mark.parametrize(
    ("text", "model", "settings"),
    [
        (BACKBONE, "ScaledMF", {"user_scale": 3.0}),
        (STRATEGY, "AdapTauMF", {"tau_strategy": "cooling", "cooling_start": 0.7}),
        (LOSS, "AdapTauMF", {"loss": "plain_difference"}),
        (MODE, "AdapTauMF", {"negatives": "first_ten", "mask_hits": True}),
        (PART, "AdapTauMF", {"recipe": ["half_logit"]}),
    ],
    ids=["backbone", "strategy", "loss", "negatives mode", "recipe part"],
)
def test_one_file_is_enough(one_file, board, text, model, settings):
    one_file(text)
    built = build(model, {**board, **settings, "epochs": 2})
    trainer_of(built).fit(built.train, built.valid, saved=False)
    assert all(torch.isfinite(parameter).all() for parameter in built.model.parameters())
    assert {key: built.config[key] for key in settings} == settings


def test_a_setting_is_one_line_where_it_is_read(one_file, board):
    """Declared in the class that reads it: default, bounds, help and messages follow."""
    from recbole_adaptau.cli.settings_help import help_lines
    from recbole_adaptau.errors import OptionError

    one_file(STRATEGY)
    assert build("AdapTauMF", {**board, "tau_strategy": "cooling"}).model.strategy.settings.cooling_start == 0.5
    with pytest.raises(OptionError, match=r"cooling_start = -1: must be a number above 0\.0"):
        build("AdapTauMF", {**board, "tau_strategy": "cooling", "cooling_start": -1})
    assert "--cooling_start=0.5  The temperature of the first epoch." in help_lines()


def test_an_experiment_is_one_file(tmp_path, monkeypatch):
    studies = importlib.import_module("recbole_adaptau.studies.paper")
    shown = Path(importlib.util.find_spec("recbole_adaptau.studies.paper.strategies").origin)
    text = shown.read_text(encoding="utf-8").replace('name="strategies"', 'name="again"')
    (tmp_path / "contributed_study.py").write_text(text)
    monkeypatch.setattr(studies, "__path__", [*studies.__path__, str(tmp_path)])
    found = studies.found()
    sys.modules.pop("recbole_adaptau.studies.paper.contributed_study", None)
    assert "again" in found and "strategies" in found
