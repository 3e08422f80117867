"""Which classes are models that RecBole finds by name."""

import pytest
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.model.general_recommender import BPR

from recbole_adaptau.model import Adapted, registry
from recbole_adaptau.model.adaptaumf import AdapTauMF
from recbole_adaptau.model.base import AdapTauRecommender

OURS = {"AdapTauLightGCN", "AdapTauMF", "EASE", "IALS", "ItemRegression", "SimGCL", "XSimGCL"}


def test_every_model_of_a_file_of_ours_is_found_and_no_other(monkeypatch):
    monkeypatch.setattr(registry, "MODELS", {})
    registry._find_models()
    assert set(registry.MODELS) == OURS
    assert all(model.__module__.startswith("recbole_adaptau.") for model in registry.MODELS.values())


@pytest.mark.parametrize("value", [AdapTauMF, BPR])
def test_a_general_recommender_that_can_be_built_is_a_model(value):
    assert registry._is_model(value)


@pytest.mark.parametrize("value", [AdapTauRecommender, Adapted, type("AdapTauX", (Adapted,), {}), str, 3, "AdapTauMF"])
def test_what_lacks_encode_or_a_base_or_is_no_recommender_is_no_model(value):
    assert not registry._is_model(value)
    assert registry._is_model(type("Own", (GeneralRecommender,), {}))
