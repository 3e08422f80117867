"""The patches as a whole, and those without a file of their own."""

import importlib.util
import subprocess
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import recbole
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.general_recommender import BPR
from recbole.model.general_recommender.ncl import NCL
from recbole.quick_start import quick_start
from recbole.trainer import Trainer

from recbole_adaptau import patches as compat
from recbole_adaptau.patches import quiet, replace_everywhere

compat.apply()


def test_applying_again_changes_nothing():
    before = (
        quick_start.get_model,
        quick_start.init_logger,
        Trainer._save_checkpoint,
        quick_start.create_dataset,
    )
    compat.apply()
    after = (
        quick_start.get_model,
        quick_start.init_logger,
        Trainer._save_checkpoint,
        quick_start.create_dataset,
    )
    assert before == after


def test_another_recbole_is_warned_of(monkeypatch):
    monkeypatch.setattr(compat, "_applied", False)
    monkeypatch.setattr(compat, "_patches", lambda: ())
    monkeypatch.setattr(recbole, "__version__", "1.3.0")
    with pytest.warns(UserWarning, match=r"repairs RecBole 1\.2\.1, but 1\.3\.0 is installed"):
        compat.apply()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compat.apply()


def test_a_name_is_replaced_in_every_module_that_holds_it(monkeypatch):
    old, new = object(), object()
    for name in ("recbole.made_up", "users_script", "recbole_adaptau.patches.made_up"):
        module = types.ModuleType(name)
        module.thing, module.alias = old, old
        monkeypatch.setitem(sys.modules, name, module)
    replace_everywhere(old, new)
    assert sys.modules["recbole.made_up"].thing is sys.modules["users_script"].alias is new
    assert sys.modules["recbole_adaptau.patches.made_up"].thing is old


def test_only_the_named_warnings_are_silenced():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quiet.silence_recbole_warnings()
        for module in ("recbole.trainer.trainer", "somebody.elses"):
            for text in (
                "`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use something else.",
                "something else is deprecated",
            ):
                warnings.warn_explicit(text, FutureWarning, "file.py", 1, module=module)
    assert [(str(warning.message)[:5]) for warning in caught] == ["somet", "`torc", "somet"]


def test_a_training_epoch_on_ml_100k_warns_of_nothing_in_the_future():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        quiet.silence_recbole_warnings()
        config = Config(
            "BPR",
            "ml-100k",
            config_dict={
                "load_col": {"inter": ["user_id", "item_id"], "user": ["user_id", "age"]},
                "embedding_size": 4,
                "train_batch_size": 50_000,
            },
        )
        dataset = create_dataset(config)
        train, _, _ = data_preparation(config, dataset)
        Trainer(config, BPR(config, train._dataset))._train_epoch(train, 0)


def test_ncl_clusters_fewer_points_than_it_was_asked_for():
    pytest.importorskip("faiss")
    points = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
    model = types.SimpleNamespace(latent_dim=8, k=1000, device=torch.device("cpu"))
    centroids, nearest = NCL.run_kmeans(model, points)
    assert centroids.shape == (30, 8) and nearest.shape == (30,)
    assert torch.allclose(centroids.norm(dim=1), torch.ones(30))
    model.k = 3
    centroids, nearest = NCL.run_kmeans(model, points)
    assert centroids.shape == (3, 8) and set(nearest.tolist()) == {0, 1, 2}


def test_quick_start_imports_without_pkg_resources():
    """In a fresh process whose pkg_resources is hidden, as recent setuptools leave it."""
    script = (
        "import sys, importlib.util\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'pkg_resources': raise ModuleNotFoundError(name, name=name)\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, package=None: "
        "None if name == 'pkg_resources' else real(name, package)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from recbole_adaptau import patches\n"
        "patches.apply()\n"
        "from recbole.quick_start import run_recbole\n"
        "assert 'pkg_resources' not in sys.modules\n"
        "import warnings\n"
        "assert any('GradScaler' in getattr(entry[1], 'pattern', '') for entry in warnings.filters)\n"
        "print('imported')\n"
    )
    root = str(Path(importlib.util.find_spec("recbole_adaptau").origin).parents[1])
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert done.stdout.strip().endswith("imported"), done.stderr
