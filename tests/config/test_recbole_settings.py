"""Bad settings of RecBole's own, bad YAML files and bad command lines: each named before any data is loaded."""

import re
from pathlib import Path

import pytest
from recbole.config import Config

from recbole_adaptau.cli import train as cli
from recbole_adaptau.config.recbole_settings import RecboleSettings
from recbole_adaptau.config.yaml_files import load_files, parse_yaml
from recbole_adaptau.errors import AdapTauError, OptionError

BAD_BASICS = {
    "epochs a fraction": ({"epochs": 1.0}, "epochs = 1.0: must be a whole number of at least 0"),
    "seed too large": ({"seed": 2**32}, "seed = 4294967296: must be .* at least 0 and at most 4294967295"),
    "batch beyond 64 bits": ({"train_batch_size": 10**30}, "train_batch_size = 10+: .* at most 2147483647"),
    "evaluation batch beyond 64 bits": ({"eval_batch_size": 10**30}, "eval_batch_size = 10+: .* at most"),
    "evaluation step a word": ({"eval_step": "x"}, "eval_step = 'x': must be a whole number"),
    "workers negative": ({"worker": -1}, "worker = -1: must be a whole number of at least 0 and at most 1024"),
    "places negative": ({"metric_decimal_place": -3}, "metric_decimal_place = -3"),
    "places a word": ({"loss_decimal_place": "x"}, "loss_decimal_place = 'x'"),
    "rate infinite": ({"learning_rate": float("inf")}, "learning_rate = inf: must be a number above 0, at most 100"),
    "rate NaN": ({"learning_rate": float("nan")}, "learning_rate = nan: must be a number above 0"),
    "rate enormous": ({"learning_rate": 1e30}, r"learning_rate = 1e\+30: must be a number above 0, at most 100"),
    "decay a word": ({"weight_decay": "x"}, "weight_decay = 'x': must be a number from 0 to 1000"),
    "progress neither yes nor no": ({"show_progress": "maybe"}, "show_progress = 'maybe': must be True or False"),
    "reproducibility a number": ({"reproducibility": 3}, "reproducibility = 3: must be True or False"),
    "log level unknown": ({"state": "LOUD"}, "state = 'LOUD' is not one of debug, info"),
    "clipping a number": ({"clip_grad_norm": 5}, r"clip_grad_norm = 5: must be a mapping, as {'max_norm': 5}"),
    "clipping at nothing": ({"clip_grad_norm": {"norm": 5}}, r"clip_grad_norm = {'norm': 5}: must be a mapping"),
    "data path a number": ({"data_path": 5}, "data_path = 5: must be the path"),
    "separator empty": ({"field_separator": ""}, "field_separator = '': must be text"),
    "inner separator empty": ({"seq_separator": ""}, "seq_separator = '': must be text"),
    "user field a number": ({"USER_ID_FIELD": 1}, "USER_ID_FIELD = 1: must be text"),
    "interval in words": ({"user_inter_num_interval": "many"}, r"user_inter_num_interval = 'many': .* as '\[5,inf\)'"),
    "interval half open": ({"item_inter_num_interval": "[5,"}, r"item_inter_num_interval = '\[5,'"),
    "values without interval": ({"val_interval": {"rating": 3}}, "val_interval = {'rating': 3}: must be a mapping"),
    "duplicates kept how": ({"rm_dup_inter": "both"}, "rm_dup_inter = 'both': must be first, last or None"),
    "columns in one word": ({"load_col": "user_id"}, "load_col = 'user_id': must be a mapping of files to lists"),
    "columns without a list": ({"unload_col": {"inter": 3}}, "unload_col = {'inter': 3}: must be a mapping"),
    "one part": ({"benchmark_filename": "train"}, "benchmark_filename = 'train': must be a list of three names"),
    "two parts": ({"benchmark_filename": ["a", "b"]}, r"benchmark_filename = \['a', 'b'\]: must be a list of three"),
    "a part elsewhere": ({"benchmark_filename": ["../a", "b", "c"]}, "must be a list of three names"),
    "split a word": ({"eval_args": "RS"}, "eval_args = 'RS': must be a mapping with the keys split, order"),
    "split misspelt": ({"eval_args": {"spilt": {}}}, "eval_args = {'spilt': {}}: must be a mapping with the keys"),
    "split of two": ({"eval_args": {"split": {"RS": [8, 2]}}}, r"eval_args: RS = \[8, 2\] must be three numbers"),
    "split negative": ({"eval_args": {"split": {"RS": [-1, 1, 1]}}}, r"RS = \[-1, 1, 1\] must be three numbers"),
    "split without training": ({"eval_args": {"split": {"RS": [0, 1, 1]}}}, r"shares of training \(above 0\)"),
    "split unknown": ({"eval_args": {"split": {"XX": 1}}}, "split = {'XX': 1} must be RS with three shares, or LS"),
    "order unknown": ({"eval_args": {"order": "OO"}}, "eval_args: order = 'OO' is not one of RO, TO"),
    "grouping unknown": ({"eval_args": {"group_by": "item"}}, "group_by = 'item' is not one of user, none"),
    "mode unknown": ({"eval_args": {"mode": "fulll"}}, "eval_args: mode = 'fulll' must be full, labeled, uni100"),
    "mode of none": ({"eval_args": {"mode": {"valid": "uni0"}}}, "mode = {'valid': 'uni0'} must be full"),
    "sampling a number": ({"train_neg_sample_args": 3}, "train_neg_sample_args = 3: must be a mapping"),
    "sampling none": (
        {"train_neg_sample_args": {"sample_num": 0}}, "train_neg_sample_args: sample_num = 0 must be a whole number"
    ),
    "sampling unknown": (
        {"train_neg_sample_args": {"distribution": "popular"}}, "distribution = 'popular' is not.*mean 'popularity'"
    ),
    "a metric that is no name": ({"metrics": [3], "valid_metric": "3@10"}, "'3' does not rank items"),
    "k in other digits": ({"valid_metric": "NDCG@²"}, "valid_metric = NDCG@²: ² is not among topk"),
    "temperature tiny": ({"tau_min": 1e-30}, "tau_min = 1e-30: must be a number at least 0.0001 and at most 10000.0"),
    "temperature enormous": ({"tau_max": 1e30}, r"tau_max = 1e\+30: must be a number at least 0.0001"),
    "loss temperature tiny": ({"user_loss_tau": 1e-300}, "user_loss_tau = 1e-300: must be .*, or 'tau_0'"),
    "beta tiny": ({"user_beta": 1e-300}, "user_beta = 1e-300"),
    "a number beyond float": ({"tau_max": 10**400}, "tau_max = 10+: must be a number"),
    "alpha enormous": ({"negative_alpha": 1000}, "negative_alpha = 1000: must be a number at least 0.0 and at most 10"),
    "balance enormous": ({"tau_user_balance": 1e6}, "tau_user_balance = 1000000.0"),
    "L2 enormous": ({"reg_weight": 1e38}, r"reg_weight = 1e\+38"),
    "embedding enormous": ({"embedding_size": 10**12}, "embedding_size = 10+: .* at most 65536"),
    "negatives enormous": ({"num_negatives": 10**12}, "num_negatives = 10+: .* at most 100000000"),
    "a split in name only": ({"given_split": {"honest": ["a"]}}, "given_split = .*: must name three parts"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_BASICS)
def test_bad_setting_is_refused_with_key_value_and_remedy(case):
    settings, message = BAD_BASICS[case]
    with pytest.raises(OptionError, match=message):
        Config("AdapTauMF", "ml-100k", config_dict=settings)


def test_wandb_must_be_there_to_be_used(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match="log_wandb = True needs the package wandb"):
        Config("AdapTauMF", "ml-100k", config_dict={"log_wandb": True})


@pytest.mark.parametrize(
    "settings",
    [
        {"user_inter_num_interval": "[5,inf)", "item_inter_num_interval": "(1,3];[7,9.5]"},
        {"val_interval": {"rating": "[3,inf)", "item_id": ["1", "2"]}},
        {"eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": None, "mode": {"valid": "uni50"}}},
        {"clip_grad_norm": {"max_norm": 1, "norm_type": 2}, "state": "debug", "learner": "AdamW"},
        {"load_col": {"inter": ["user_id", "item_id"], "item": "*"}},
    ],
)
def test_what_recbole_understands_is_let_through(settings):
    config = Config("AdapTauMF", "ml-100k", config_dict=settings)
    RecboleSettings.read(config.final_config_dict)
    assert all(config[key] == value for key, value in settings.items() if key != "eval_args")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": ["NDGC"]}, "the configuration cannot be used: There is no metric named 'NDGC'"),
        ({"eval_args": "x"}, r"the configuration cannot be used: eval_args:\[x\] should be a dict"),
        ({"topk": "x"}, r"the configuration cannot be used: The topk \[x\] must be a integer, list"),
        ({"train_neg_sample_args": 3}, "the configuration cannot be used: train_neg_sample_args"),
    ],
)
def test_what_recbole_refuses_of_its_own_models_is_passed_on_without_a_traceback(settings, message):
    with pytest.raises(OptionError, match=message):
        Config("BPR", "ml-100k", config_dict=settings)


BAD_YAML = {
    "not YAML": ("epochs: [1", r"a\.yaml is not valid YAML: (?s:.*)line 1"),
    "a tab for indentation": ("eval_args:\n\torder: RO", r"a\.yaml is not valid YAML: (?s:.*)line 2"),
    "a list": ("- epochs\n- 3", r"a\.yaml must hold 'key: value' lines, not a list"),
    "a word": ("epochs", r"a\.yaml must hold 'key: value' lines, not a str"),
    "a key twice": ("epochs: 1\ntau: 0.1\nepochs: 2", "not valid YAML: duplicate key 'epochs', 2 times(?s:.*)line 1"),
    "a number for a key": ("1: 2", r"a\.yaml: the key 1 is not a name"),
    "a list for a key": ("? [a]\n: 2", r"a\.yaml is not valid YAML"),
    "a thirteenth month": ("seed: 2020-13-45", r"a\.yaml is not valid YAML: month must be in 1..12"),
    "a thousand brackets": ("tau: " + "[" * 500, r"a\.yaml is not valid YAML"),
    "an object to be made": ("tau: !!python/object/apply:os.getcwd []", r"a\.yaml is not valid YAML: (?s:.*)could not"),
    "Latin-1": ("# ü\n".encode("latin-1"), r"a\.yaml is not UTF-8 text; save it as UTF-8"),
    "bytes": (b"\x00\x01\x02", r"a\.yaml is not valid YAML: (?s:.*)special characters are not allowed"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_YAML)
@pytest.mark.parametrize("model", ["AdapTauMF", "BPR"])
def test_bad_settings_files_are_named(case, model):
    text, message = BAD_YAML[case]
    Path("a.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(OptionError, match=message):
        Config(model, "ml-100k", ["a.yaml"])


def test_settings_files_are_read_as_recbole_reads_them():
    Path("a.yaml").write_bytes(b"\xef\xbb\xbflearning_rate: 1e-4\r\nepochs: 3\r\nval_interval: &b {x: '[1,2]'}\r\n")
    Path("b.yaml").write_text("epochs: 5\nload_col: {<<: {inter: [a]}, inter: [user_id, item_id]}\n")
    Path("c.yaml").write_text("")
    found = load_files(["a.yaml", "b.yaml", "c.yaml"])
    columns = {"inter": ["user_id", "item_id"]}
    assert found == {"learning_rate": 1e-4, "epochs": 5, "val_interval": {"x": "[1,2]"}, "load_col": columns}
    assert Config("AdapTauMF", "ml-100k", ["a.yaml", "b.yaml"])["epochs"] == 5
    with pytest.raises(OptionError, match=r"no\.yaml cannot be read: No such file"):
        load_files(["no.yaml"])
    with pytest.raises(OptionError, match=r"cannot be read: Is a directory"):
        load_files(["."])


BAD_COMMANDS = {
    "a word": (["epochs=3"], "cannot read 'epochs=3': options are written --key=value"),
    "no value": (["--epochs"], "--epochs has no value"),
    "a key twice": (["--epochs=1", "--epochs=2"], "--epochs is given twice"),
    "no key": (["--=3"], "cannot read '--=3'"),
    "settings file missing": (["--config_files=no.yaml"], "--config_files: there is no file"),
    "a dataset elsewhere": (["--dataset=../x"], "dataset = '../x' is not a name"),
    "a dataset with a NUL": (["--dataset=a\0b"], r"dataset = 'a\\x00b' is not a name"),
    "an unknown dataset": (["--dataset=nowhere"], "the dataset 'nowhere' was looked for in"),
    "an unknown model": (["--model=AdapTauMFF"], "AdapTauMFF.*Did you mean 'AdapTauMF'"),
    "a date for a number": (["--epochs=2020-13-45"], "epochs = '2020-13-45': must be a whole number"),
    "brackets for a number": (["--epochs=" + "[" * 500], "epochs = .*must be a whole number"),
    "code for a number": (["--epochs=__import__('os').getcwd()"], "epochs = .*must be a whole number"),
    "a run that is not there": (["--resume=nowhere"], "nowhere"),
    "settings for a run that has its own": (["--resume=x", "--epochs=3"], "--resume takes the settings of its run"),
}


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_bad_commands_end_in_one_line_and_exit_code_2(case, capsys):
    words, message = BAD_COMMANDS[case]
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert re.search(f"^error: .*{message}", captured.err, re.S | re.M)
    assert "Traceback" not in captured.err and not list(Path.cwd().rglob("*.pth"))


@pytest.mark.parametrize("text", ["2020-13-45", "[" * 500, "{[1]: 2}", "0b_", "!!int x", "&a [*a, {*a : 1}]", "\x07"])
def test_whatever_is_wrong_with_yaml_is_one_kind_of_error(text):
    import yaml

    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)
    assert issubclass(OptionError, AdapTauError)
