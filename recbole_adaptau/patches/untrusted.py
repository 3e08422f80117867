"""Nothing that comes with settings or data is run: RecBole evaluates, unpickles and builds objects from them."""

import ast
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from recbole.config import Config, configurator
from recbole.model.context_aware_recommender import kd_dagfm
from recbole.model.general_recommender import ldiffrec
from recbole.trainer import hyper_tuning

from ..config.yaml_files import YamlLoader
from ..errors import OptionError, did_you_mean


def evaluate_literals_alone() -> None:
    """Read numbers, lists and the like in settings, where RecBole calls eval() on whatever the text says.

    Config does so with every string it is given, HyperTuning with each line of its file, KD_DAGFM with the name of its
    teacher. Text that is no literal stays text, as it does in RecBole where eval() finds no such name.
    """

    def literal(text: str) -> Any:
        try:
            return ast.literal_eval(text)
        except (ValueError, MemoryError, RecursionError) as error:
            raise NameError(f"{text!r} is not a number, text, list, tuple, dict, True, False or None") from error

    def teacher(name: str) -> type:
        known = {word: getattr(kd_dagfm, word) for word in ("CrossNet", "CIN", "CINComp", "DAGFM")}
        if name not in known:
            raise OptionError(f"teacher = {name!r} is not one of {', '.join(known)}.{did_you_mean(name, known)}")
        return known[name]

    # A module's own name comes before the built-in one.
    configurator.eval = hyper_tuning.eval = literal
    kd_dagfm.eval = teacher


def read_plain_yaml_alone() -> None:
    """Build nothing but plain data from YAML; RecBole's FullLoader knows tags that name Python objects.

    Besides, RecBole changes that class of PyYAML's for the whole process.
    """
    Config._build_yaml_loader = lambda self: YamlLoader


def load_arrays_without_objects() -> None:
    """Refuse Python objects in LDiffRec's item_emb.npy, which lies with the data and which RecBole unpickles."""
    ldiffrec.np = SimpleNamespace(**{**vars(np), "load": partial(np.load, allow_pickle=False)})
