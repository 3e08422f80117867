"""Defaults, presets, protocols, and every bad setting: refused before any data is loaded, in words that help."""

import re
from pathlib import Path

import pytest
import yaml
from recbole.config import Config
from recbole.model.general_recommender import BPR

from recbole_adaptau.config.keys import declared, notes
from recbole_adaptau.config.yaml_files import PROPERTIES, read_yaml
from recbole_adaptau.core.settings import SettingsModel, setting
from recbole_adaptau.errors import DataError, OptionError
from recbole_adaptau.model import AdapTauLightGCN, AdapTauMF
from recbole_adaptau.recipe import PARTS
from tests.conftest import checkerboard, write_inter
from tests.helpers import build

SAMPLED = {"distribution": "uniform", "sample_num": 5}

BAD_SETTINGS = {
    "misspelt strategy": ({"tau_strategy": "adaptive_users"}, "tau_strategy = 'adaptive_users'.*mean 'adaptive_user'"),
    "strategy of another type": ({"tau_strategy": 3}, "tau_strategy = 3 is not one of none, fixed"),
    "misspelt negatives": ({"negatives": "inbatch"}, "negatives = 'inbatch'.*mean 'in_batch'"),
    "misspelt distribution": ({"negative_distribution": "popular"}, "mean 'popularity'"),
    "misspelt form": ({"tau_form": "variances"}, "tau_form.*mean 'with_variances'"),
    "misspelt normalization": ({"normalization": "y-y"}, "normalization = 'y-y'.*mean 'Y-Y'"),
    "misspelt score": ({"test_score": "cosin"}, "mean 'cosine'"),
    "misspelt schedule": ({"lr_schedule": "liner"}, "mean 'linear'"),
    "tau of zero": ({"tau": 0}, "tau = 0: must be a number at least 0.0001"),
    "negative tau": ({"tau": -0.1}, "tau = -0.1"),
    "tau not a number": ({"tau": "warm"}, "tau = 'warm': must be a number"),
    "tau nan": ({"tau": float("nan")}, "tau = nan"),
    "tau infinite": ({"tau_max": float("inf")}, "tau_max = inf"),
    "tau below its bound": ({"tau_strategy": "fixed", "tau": 0.01}, "tau = 0.01 is below tau_min = 0.02"),
    "bounds the wrong way": ({"tau_min": 0.5, "tau_max": 0.1}, "tau_min = 0.5 is above tau_max = 0.1"),
    "beta of zero": ({"user_beta": 0}, "user_beta = 0: must be a number at least 1e-06"),
    "negative beta": ({"user_beta": -1.0}, "user_beta = -1.0"),
    "quantile of one": ({"user_threshold": 1.0}, "user_threshold = 1.0: must be a number above 0.* below 1.*'mean'"),
    "quantile of zero": ({"user_threshold": 0.0}, "user_threshold = 0.0"),
    "quantile above one": ({"user_threshold": 90}, "user_threshold = 90"),
    "threshold misspelt": ({"user_threshold": "median"}, "user_threshold = 'median'"),
    "user quantile of one": ({"tau_user_quantile": 1.0}, "tau_user_quantile = 1.0"),
    "loss temperature misspelt": ({"user_loss_tau": "tau0"}, "user_loss_tau = 'tau0'.*or 'tau_0'"),
    "no negatives": ({"num_negatives": 0}, "num_negatives = 0: must be a whole number of at least 1"),
    "half a negative": ({"num_negatives": 10.5}, "num_negatives = 10.5"),
    "dropout of one": ({"embedding_dropout": 1.0}, "embedding_dropout = 1.0"),
    "edge dropout negative": ({"edge_dropout": -0.1}, "edge_dropout = -0.1"),
    "half a layer": ({"n_layers": 1.5}, "n_layers = 1.5: must be a whole number"),
    "negative L2": ({"reg_weight": -1}, "reg_weight = -1"),
    "flag not a flag": ({"mask_hits": "maybe"}, "mask_hits = 'maybe': must be True or False"),
    "per_row without sampled negatives": ({"negatives": "per_row"}, "per_row.*train_neg_sample_args is None"),
    "shared with sampled negatives": ({"train_neg_sample_args": SAMPLED}, "negatives = shared draws its own"),
    "none with a temperature": ({"tau_strategy": "none", "tau": 0.2}, "tau = 0.2 has no .* by tau_strategy fixed"),
    "none with a user's temperature": ({"tau_strategy": "none", "user_beta": 2.0}, "no effect with tau_strategy = no"),
    "none with normalisation": ({"tau_strategy": "none", "normalization": "Y-Y"}, "none means no normalisation"),
    "none with cosine": ({"tau_strategy": "none", "test_score": "cosine"}, "cosine contradicts"),
    "adaptive without normalisation": ({"normalization": "Y-N"}, "needs normalization = Y-Y, not Y-N"),
    "in_batch alone": ({"negatives": "in_batch", "train_batch_size": 1}, "train_batch_size of at least 2"),
    "valid metric not measured": ({"valid_metric": "MAP@20"}, "valid_metric = MAP@20: MAP is not among metrics"),
    "valid k not measured": ({"valid_metric": "NDCG@7"}, "valid_metric = NDCG@7: 7 is not among topk"),
    "valid metric without k": ({"valid_metric": "NDCG"}, "valid_metric = NDCG: no k is not among topk"),
    "valid metric a number": ({"valid_metric": 5}, "valid_metric = 5: 5 is not among metrics"),
    "unknown metric": ({"metrics": ["NDGC"]}, "'NDGC' does not rank items.*mean 'NDCG'"),
    "metric of another kind": ({"metrics": ["AUC"], "valid_metric": "AUC"}, "'AUC' does not rank items"),
    "topk of zero": ({"topk": [0, 20]}, r"topk = \[0, 20\]: must be a list of whole numbers"),
    "epochs a word": ({"epochs": "abc"}, "epochs = 'abc': must be a whole number"),
    "learning rate a word": ({"learning_rate": "abc"}, "learning_rate = 'abc': must be a number above 0"),
    "learning rate negative": ({"learning_rate": -1}, "learning_rate = -1"),
    "batch of zero": ({"train_batch_size": 0}, "train_batch_size = 0: must be a whole number of at least 1"),
    "seed a word": ({"seed": "abc"}, "seed = 'abc'"),
    "unknown learner": ({"learner": "adm"}, "learner = 'adm'.*mean 'adam'"),
    "run folder a number": ({"run_folder": 123}, "run_folder = 123: must be a path"),
    "no strategy": ({"tau_strategy": None}, "tau_strategy = None: it needs a value"),
    "learned with the positive elsewhere": ({"tau_strategy": "learned", "positive_tau": "tau_0"}, "learns one temp"),
    "a temperature that learns at no rate": (
        {"tau_strategy": "learned", "tau_learning_rate": 0.0},
        "tau_learning_rate = 0.0: must be a number above 0; leave it out for learning_rate",
    ),
    "a rate of a temperature that learns nothing": (
        {"tau_learning_rate": 0.1},
        "tau_learning_rate = 0.1 has no effect with tau_strategy = adaptive_user",
    ),
    "misspelt protocol": ({"protocol": "honset"}, "protocol = 'honset'.*mean 'honest'"),
    "paper protocol without a given split": ({"protocol": "paper"}, "needs data with a given split"),
    "misspelt recipe": ({"recipe": "pluss"}, "recipe: 'pluss' is not one of none, plus.*mean 'plus'"),
    "misspelt part": ({"recipe": ["popularity_prio"]}, "'popularity_prio' is not .*mean 'popularity_prior'"),
    "a part twice": ({"recipe": ["user_dropout", "user_dropout"]}, "names a part twice"),
    "recipe a number": ({"recipe": 3}, "recipe = 3: must be none, plus, or parts by name"),
    "misspelt loss": ({"loss": "softmx"}, "loss = 'softmx' is not one of .*softmax.*mean 'softmax'"),
    "misspelt key": ({"learning_rat": 0.1}, "No part of this program reads the option 'learning_rat'.*'learning_rate'"),
    "a key of another strategy": ({"tau": 0.2}, "tau = 0.2 has no effect with tau_strategy = adaptive_user"),
    "a key of a part": ({"item_neighbours": 5}, r"read by the part item_regression \(--recipe=\[item_regression\]"),
    "a key of another model": ({"mlp_hidden_size": [1]}, "does not read the option 'mlp_hidden_size', which another"),
    "a key of version 0.1": ({"popularity_prior": True}, r"part of a recipe now: --recipe=\[popularity_prior\]"),
    "misspelt preset": ({"preset": "autors"}, "preset = 'autors'.*mean 'authors'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_setting_is_refused_with_key_value_and_remedy(case):
    settings, message = BAD_SETTINGS[case]
    with pytest.raises(OptionError, match=re.compile(message, re.S)):
        Config("AdapTauLightGCN", "ml-100k", config_dict={**settings, "strict_keys": list(settings)})


# Those of the leaderboard are settings for many models: tests/e2e/test_leaderboard.py reads them.
YAML = [path for path in sorted(PROPERTIES.rglob("*.yaml")) if path.parent.name != "benchmark"]


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.stem)
def test_every_yaml_of_ours_builds_and_each_line_is_read(path):
    content = read_yaml(path)
    if path.parent.name == "preset":
        runs = [run.split("/") for run in content.setdefault("by_run", {"AdapTauMF": {}, "AdapTauLightGCN": {}})]
        for model, *dataset in runs:
            given = {} if dataset else {"learning_rate": 0.01, "reg_weight": 0.1}
            config = Config(model, dataset[0] if dataset else "ml-100k", config_dict={"preset": path.stem, **given})
            want = {**content, **content["by_run"].get(model, {})}
            want |= content["by_run"]["/".join([model, *dataset])]
            want = {key: value for key, value in want.items() if key != "by_run"} | given
            assert {key: config[key] for key in want} == want
    elif path.parent.name == "recipe":
        config = Config("AdapTauMF", "ml-100k", config_dict={"recipe": path.stem})
        assert sorted(content.pop("parts")) == sorted(config["recipe_parts"])
        assert {key: config[key] for key in content} == content
    else:
        model = path.stem
        model = "AdapTauBPR" if model == "AdapTau" else model  # which has no file of its own
        config = Config(model, "ml-100k")
        derived = {"run_folder", "train_neg_sample_args"}
        assert {key: config[key] for key in content if key not in derived} == {
            key: value for key, value in content.items() if key not in derived
        }


def test_every_setting_has_one_default_and_a_meaning():
    found = declared(AdapTauLightGCN)
    assert {"tau_strategy", "user_beta", "n_layers", "num_negatives", "item_neighbours", "protocol"} <= found.keys()
    for name, (field, _) in found.items():
        assert field.is_required() or field.description, f"{name} has a default of ours, and no line says what it is"


def test_a_setting_declared_with_two_defaults_is_found(monkeypatch):
    class Twice(SettingsModel):
        tau_min: float = setting(0.5, "Not the same.")

    monkeypatch.setattr(PARTS["user_dropout"], "Settings", Twice)
    with pytest.raises(TypeError, match=r"tau_min is declared twice, with the defaults 0\.02 and 0\.5"):
        declared(AdapTauMF)


def test_the_users_word_wins_over_preset_and_defaults(tmp_path):
    (tmp_path / "mine.yaml").write_text("user_beta: 3.0\nreg_weight: 1e-4\n")
    config = Config(
        "AdapTauMF", "ml-100k", ["mine.yaml"], {"preset": "authors", "user_beta": 4.0, "learning_rate": 0.1}
    )
    assert config["user_beta"] == 4.0 and config["reg_weight"] == 1e-4
    assert config["positive_tau"] == "tau_0", "from the preset"
    assert config["tau_min"] == 0.02, "from the defaults"


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("tau: 0.2", "tau = 0.2 has no effect with tau_strategy = adaptive_user"),
        ("num_negatives: 5\nnegatives: full", "num_negatives = 5 has no effect with negatives = full"),
        ("negative_alpha: 3.0", "negative_alpha = 3.0 has no effect with negative_distribution = uniform"),
        ("logq_correction: True", "logq_correction = True has no effect with negative_distribution = uniform"),
        ("item_neighbours: 5", "item_neighbours = 5 has no effect with recipe = none"),
        ("mlp_hidden_size: [3]", "AdapTauMF does not read the option 'mlp_hidden_size'"),
    ],
)
def test_what_a_shared_file_says_for_other_runs_is_only_remarked_on(content, note):
    Path("shared.yaml").write_text(content)
    (found,) = notes(Config("AdapTauMF", "ml-100k", ["shared.yaml"]))
    assert found.startswith(note)


@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
def test_a_misspelt_key_ends_the_run_wherever_it_stands(model):
    Path("shared.yaml").write_text("learning_rat: 0.1")
    with pytest.raises(OptionError, match=r"reads the option 'learning_rat'\. Did you mean 'learning_rate'"):
        Config(model, "ml-100k", ["shared.yaml"])


def test_a_class_of_the_users_own_may_read_keys_of_its_own():
    class Mine(BPR):
        __module__ = "somewhere"

    config = Config(Mine, "ml-100k", config_dict={"my_depth": 3, "strict_keys": ["my_depth"]})
    assert config["my_depth"] == 3 and "my_depth" in notes(config)[0]


def test_settings_that_matter_are_not_remarked_on():
    settings = {"negative_distribution": "popularity", "negative_alpha": 0.5, "logq_correction": True, "user_beta": 2.0}
    assert notes(Config("AdapTauMF", "ml-100k", config_dict=settings)) == []


def test_recboles_own_models_keep_recboles_defaults():
    config = Config("BPR", "ml-100k")
    assert config["valid_metric"] == "MRR@10" and config["topk"] == [10] and config["run_folder"] is None
    assert config["tau_strategy"] is None and config["checkpoint_dir"] == "saved"


@pytest.fixture
def given_split(tmp_path):
    train, valid, test = checkerboard()
    for part, pairs in {"train": train + valid, "fit": train, "valid": valid, "test": test}.items():
        write_inter(tmp_path / "dataset", "split", pairs, part)
    sidecar = {"given_split": {"paper": ["train", "test", "test"], "honest": ["fit", "valid", "test"]}}
    sidecar["load_col"] = {"inter": ["user_id", "item_id"]}
    (tmp_path / "dataset/split/split.yaml").write_text(yaml.safe_dump(sidecar))


@pytest.mark.parametrize(("protocol", "sizes"), [("paper", (528, 48, 48)), ("honest", (480, 48, 48))])
@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
def test_a_given_split_just_works_in_both_protocols(given_split, model, protocol, sizes):
    built = build(model, {"protocol": protocol, "state": "ERROR"}, "split")
    assert tuple(len(part._dataset) for part in (built.train, built.valid, built.test)) == sizes
    same = built.valid._dataset.inter_feat["item_id"].tolist() == built.test._dataset.inter_feat["item_id"].tolist()
    assert same is (protocol == "paper")


def test_honest_is_the_default_protocol(given_split):
    assert Config("AdapTauMF", "split")["benchmark_filename"] == ["fit", "valid", "test"]


@pytest.mark.parametrize("name", ["../secret", "a/b", ".hidden"])
def test_a_dataset_is_a_name_not_a_path(name):
    with pytest.raises(DataError, match="is not a name"):
        Config("AdapTauMF", name)


def test_broken_yaml_beside_a_dataset_is_named(tmp_path):
    folder = Path("dataset/odd")
    folder.mkdir(parents=True)
    (folder / "odd.yaml").write_text("given_split: [")
    with pytest.raises(OptionError, match=r"odd\.yaml is not valid YAML"):
        Config("AdapTauMF", "odd")
    (folder / "odd.yaml").write_text("- a list")
    with pytest.raises(OptionError, match="must hold 'key: value' lines, not a list"):
        Config("AdapTauMF", "odd")


def test_run_folders_of_one_second_do_not_collide():
    first = Config("AdapTauMF", "ml-100k")["run_folder"]
    Path(first).mkdir(parents=True)
    second = Config("AdapTauMF", "ml-100k")["run_folder"]
    assert first != second and first.startswith("runs/ml-100k/AdapTauMF/")
