"""Settings as they are typed."""

import re

import pytest

from recbole_adaptau.cli.arguments import parse_settings
from recbole_adaptau.errors import OptionError


def test_settings_are_read_as_yaml_and_never_run():
    got = parse_settings(
        ["--epochs=3", "--tau", "0.2", "--topk=[10, 20]", "--reg_weight=1e-4", "--user_threshold=mean", "--resume=None",
         "--train_neg_sample_args={'distribution': 'uniform', 'sample_num': 4}", "--mask_hits=True",
         "--run_root=__import__('os').abort()"]
    )  # fmt: skip
    assert got == {
        "epochs": 3,
        "tau": 0.2,
        "topk": [10, 20],
        "reg_weight": 1e-4,
        "user_threshold": "'mean'",
        "resume": None,
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": 4},
        "mask_hits": True,
        "run_root": repr("__import__('os').abort()"),
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["epochs=3"], "cannot read 'epochs=3': options are written --key=value"),
        (["--epochs"], "--epochs has no value"),
        (["--epochs", "--tau=1"], "--epochs has no value"),
        (["--epochs=3", "--epochs=4"], "--epochs is given twice"),
        (["--=3"], "cannot read '--=3'"),
    ],
)
def test_unreadable_words_are_named(words, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        parse_settings(words)
