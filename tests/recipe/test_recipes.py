"""No part of ours is in the paper's method: not by default, not in a preset, not because it is new."""

import pytest
import recbole.utils
from recbole.config import Config

from recbole_adaptau.config.keys import method_line, part_lines
from recbole_adaptau.config.yaml_files import PROPERTIES, read_yaml
from recbole_adaptau.errors import OptionError
from recbole_adaptau.recipe import PARTS, RecipePart, method_name, register_part
from tests.helpers import build

MODELS = ["AdapTauMF", "AdapTauLightGCN", "AdapTauNGCF"]
PRESETS = [None, *(path.stem for path in sorted((PROPERTIES / "preset").glob("*.yaml")))]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("model", MODELS)
def test_no_part_is_active_by_default_or_in_a_preset(model, preset):
    config = Config(model, "ml-100k", config_dict={"preset": preset, "learning_rate": 0.01, "reg_weight": 0.1})
    assert config["recipe"] == "none" and config["recipe_parts"] == []


def test_the_default_has_the_papers_values():
    """WWW 2023, Sec. 4 and Alg. 1, by hand: what the defaults must be for the name on the door to be true."""
    want = {
        "tau_strategy": "adaptive_user", "loss": "softmax", "tau_form": "simplified", "user_beta": 1.0,
        "user_threshold": "mean", "positive_tau": "tau_u", "positive_in_denominator": True, "normalization": "auto",
        "test_score": "auto", "tau_user_quantile": 0.0, "user_loss_items": "catalogue", "own_positive": False,
        "embedding_dropout": 0.0,
    }  # fmt: skip
    for model in MODELS:
        config = Config(model, "ml-100k")
        assert {key: config[key] for key in want} == want


def test_the_papers_preset_says_only_lengths_and_rates():
    allowed = {"train_batch_size", "learner", "learning_rate", "lr_schedule", "reg_weight", "epochs", "stopping_step"}
    assert set(read_yaml(PROPERTIES / "preset" / "paper.yaml")) == allowed


def test_a_new_part_is_off_by_default(board):
    @register_part("made_up")
    class MadeUp(RecipePart):
        meaning = "nothing at all"

    try:
        assert build("AdapTauMF", board).config["recipe_parts"] == []
        assert "made_up" not in Config("AdapTauMF", "ml-100k", config_dict={"recipe": "plus"})["recipe_parts"]
        assert build("AdapTauMF", {**board, "recipe": "made_up"}).model.parts[0].name == "made_up"
    finally:
        PARTS.forget("made_up")


def test_plus_has_all_parts_and_leaves_out_what_a_base_model_cannot_have():
    assert set(Config("AdapTauMF", "ml-100k", config_dict={"recipe": "plus"})["recipe_parts"]) == set(PARTS)
    adapted = Config("AdapTauNGCF", "ml-100k", config_dict={"recipe": "plus"})["recipe_parts"]
    assert set(PARTS) - set(adapted) == {"spectral_start"}
    with pytest.raises(OptionError, match="spectral_start is for models that make their own tables, unlike AdapTauNG"):
        Config("AdapTauNGCF", "ml-100k", config_dict={"recipe": ["spectral_start"]})


def test_the_base_model_knows_no_part_by_name():
    source = (PROPERTIES.parent / "recbole_adaptau" / "model" / "base.py").read_text(encoding="utf-8")
    assert [name for name in PARTS if name in source] == []


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        (None, "AdapTauMF"), ("none", "AdapTauMF"), ([], "AdapTauMF"), ("plus", "AdapTauMF+"),
        ("user_dropout", "AdapTauMF+user_dropout"), (["a", "b"], "AdapTauMF+a+b"),
    ],
)  # fmt: skip
def test_tables_name_the_recipe(recipe, name):
    assert method_name("AdapTauMF", recipe) == name


def test_a_recipe_is_not_for_recboles_own_models():
    assert recbole.utils.get_model("BPR")
    with pytest.raises(OptionError, match="BPR does not read the option 'recipe'"):
        Config("BPR", "ml-100k", config_dict={"recipe": "plus", "strict_keys": ["recipe"]})


def test_the_log_line_says_what_goes_beyond_the_paper():
    assert method_line(Config("AdapTauMF", "ml-100k")).endswith("beyond the paper: nothing")
    config = Config("AdapTauMF", "ml-100k", config_dict={"recipe": "plus"})
    plus = method_line(config)
    assert plus.startswith("method: AdapTauMF+: tau_strategy = calibrated_user") and all(name in plus for name in PARTS)
    told = part_lines(config)
    assert len(told) == len(PARTS) and all(PARTS[name].meaning in line for name, line in zip(PARTS, told, strict=True))
    assert not any(part.meaning in plus for part in PARTS.values()), "a line on the screen is short"
    assert part_lines(Config("BPR", "ml-100k")) == []


def test_plus_has_the_calibrated_temperature_unless_another_is_asked_for():
    of = {"recipe": "plus"}
    assert Config("AdapTauMF", "ml-100k", config_dict=of)["tau_strategy"] == "calibrated_user"
    assert Config("AdapTauMF", "ml-100k", config_dict={**of, "tau_strategy": "fixed"})["tau_strategy"] == "fixed"
    parts = {"recipe": ["popularity_prior"]}
    assert Config("AdapTauMF", "ml-100k", config_dict=parts)["tau_strategy"] == "adaptive_user"
