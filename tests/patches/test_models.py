"""Models by name: RecBole's own, this package's, and clear words about the rest."""

import importlib.util
import subprocess
import sys

import pytest
import recbole.utils
from recbole.config import Config, configurator
from recbole.quick_start import quick_start

from recbole_adaptau.errors import AdapTauError
from recbole_adaptau.model.registry import MODELS
from recbole_adaptau.patches.models import recbole_model_names


def test_every_place_has_the_same_lookup():
    assert recbole.utils.get_model is recbole.utils.utils.get_model
    assert configurator.get_model is quick_start.get_model is recbole.utils.get_model


def test_known_names_are_those_of_the_files():
    names = recbole_model_names()
    assert {"BPR", "LightGCN", "SASRec", "KD_DAGFM", "xDeepFM", "LightGBM", "XGBoost"} <= names
    assert len(names) > 90


def test_recboles_models_are_still_found():
    for name in ("BPR", "LightGCN", "SASRec", "DeepFM", "KGAT"):
        assert recbole.utils.get_model(name).__name__ == name


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("LightGNC", "LightGCN"), ("bpr", "BPR"), ("SimplX", "SimpleX"), ("Sasrec", "SASRec")],
)
def test_an_unknown_name_is_named_with_the_nearest(wrong, right):
    with pytest.raises(AdapTauError, match=f"no model named '{wrong}'.*Did you mean '{right}'"):
        Config(model=wrong, dataset="ml-100k")


def test_a_name_like_nothing_is_only_refused():
    with pytest.raises(ValueError, match="no model named 'zzzzzzzzzz'") as caught:
        recbole.utils.get_model("zzzzzzzzzz")
    assert "Did you mean" not in str(caught.value)


def test_registered_models_come_first(monkeypatch):
    monkeypatch.setitem(MODELS, "BPR", list)
    assert recbole.utils.get_model("BPR") is list
    with pytest.raises(AdapTauError, match="Did you mean 'AdapTauMF'"):
        recbole.utils.get_model("adaptaumf")


@pytest.mark.skipif(importlib.util.find_spec("lightgbm") is not None, reason="lightgbm is installed")
@pytest.mark.parametrize("name", ["LightGBM", "XGBoost"])
def test_tree_models_say_what_to_install(name):
    with pytest.raises(AdapTauError, match=rf"'{name}' needs .*pip install lightgbm xgboost"):
        recbole.utils.get_model(name)


def test_looking_up_a_sequential_model_leaves_autograd_as_it_was():
    """In a process of its own: the import that turns anomaly mode on happens once."""
    code = (
        "import recbole_adaptau, torch; from recbole.utils import get_model; get_model('SASRec'); "
        "import sys; assert 'recbole.model.sequential_recommender.sine' in sys.modules; "
        "assert not torch.is_anomaly_enabled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
