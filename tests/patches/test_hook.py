"""The patches as a whole: applied to the RecBole they were written for, and to no other."""

import importlib
import inspect
import subprocess
import sys
import types
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import recbole
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.general_recommender import BPR
from recbole.model.general_recommender.ncl import NCL
from recbole.trainer import Trainer

from recbole_adaptau.errors import AdapTauError
from recbole_adaptau.patches import hook
from recbole_adaptau.patches.table import PATCHES, Patch

ROOT = Path(__file__).parents[2]
MODULES_AT_START = ("_moved", "errors", "patches", "patches.environment", "patches.hook", "patches.table")


def run(code: str) -> str:
    """In a fresh process; returns what it prints."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_function_is_patched_once():
    assert max(Counter(patch.target for patch in PATCHES).values()) == 1


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.target)
def test_every_patch_is_in_place_and_its_replacement_exists(patch):
    module = importlib.import_module(patch.module)
    found = module
    for name in patch.name.split("."):
        found = getattr(found, name)
    assert found.__wrapped__ is not None and found.__closure__ is not None
    assert hook.source_hash(patch, module) == patch.source
    parameters = list(inspect.signature(hook._replacement(patch.replacement), follow_wrapped=False).parameters)
    assert parameters[0] == "original"
    assert len(patch.reason.split()) >= 4 and patch.reason.endswith(".")


def made_up(name="made_up"):
    """A module with a function whose source is known."""
    module = types.ModuleType(name)
    module.double = lambda number: number * 2
    return module


def patch_of(module, target="made_up:double", **given) -> Patch:
    patch = Patch(target, "made_up_replacement:double", "bug", (), "", "It does not add one.", **given)
    return patch._replace(source=hook.source_hash(patch, module) or "")


@pytest.fixture
def replacement(monkeypatch):
    module = types.ModuleType("made_up_replacement")
    module.double = lambda original, number: original(number) + 1
    monkeypatch.setitem(sys.modules, "made_up_replacement", module)
    yield
    hook._replacement.cache_clear()


def test_a_replacement_gets_what_it_replaces(replacement):
    module = made_up()
    original, patched = hook.apply(patch_of(module), module)
    assert module.double is patched and module.double(3) == 7 and original(3) == 6


def test_another_source_is_refused(replacement, monkeypatch):
    module = made_up()
    patch = patch_of(module)
    monkeypatch.setattr(recbole, "__version__", "1.3.0")
    monkeypatch.setattr(inspect, "getsource", lambda function: "def double(number): ...")
    with pytest.raises(AdapTauError, match=r"made_up:double has another source.*RecBole 1\.2\.1, and 1\.3\.0 was"):
        hook.apply(patch, module)
    assert module.double(3) == 6


@pytest.mark.parametrize(
    ("target", "within"), [("made_up:triple", ""), ("made_up:eval", "double"), ("made_up:a.b", "")]
)
def test_a_name_that_is_not_there_is_refused(replacement, target, within):
    module = made_up()
    with pytest.raises(AdapTauError, match=rf"{target} is not there.*needs RecBole 1\.2\.1"):
        hook.apply(patch_of(module, target, within=within), module)


def test_another_library_is_changed_for_recboles_module_alone(replacement):
    module, library = made_up(), made_up("library")
    module.lib = library
    module.use = lambda: module.lib and module.lib.double(3)
    hook.apply(patch_of(module, "made_up:lib.double", within="use"), module)
    assert module.use() == 7 and library.double(3) == 6


def test_a_name_is_replaced_in_every_module_that_holds_it(monkeypatch):
    old, new = object(), object()
    for name in ("recbole.made_up", "users_script"):
        module = types.ModuleType(name)
        module.thing, module.alias = old, old
        monkeypatch.setitem(sys.modules, name, module)
    hook.replace_everywhere(old, new)
    assert sys.modules["recbole.made_up"].thing is sys.modules["users_script"].alias is new


@pytest.mark.parametrize(
    "first",
    ["from recbole.quick_start import load_data_and_model", "from recbole_adaptau.runs.folder import RunFolder"],
)
def test_recbole_knows_our_models_whatever_is_imported_first(first):
    code = (
        f"import builtins, sys\nsys.argv = ['x']\n{first}\nimport recbole_adaptau\n"
        "from recbole.config import Config\nfrom recbole.quick_start import quick_start\n"
        "load = quick_start.load_data_and_model\nassert globals().get('early', load) is load\n"
        "assert load.__closure__ and not hasattr(builtins.eval, '__closure__')\n"
        "print(Config('AdapTauMF', 'ml-100k')['tau_strategy'])"
    )
    assert run(code).strip() == "adaptive_user"


def test_importing_recbole_imports_nothing_of_ours_but_the_table_and_no_library_that_it_hardly_uses():
    """In a process that can import neither Ray nor TensorBoard."""
    code = (
        "import sys\nsys.modules['ray'] = sys.modules['tensorboard'] = None\nimport recbole_adaptau\n"
        "from recbole.quick_start import quick_start\n"
        "assert sys.modules['ray'] is None and 'torch.utils.tensorboard' not in sys.modules\n"
        "print(*sorted(name for name in sys.modules if name.startswith('recbole_adaptau.')))\n"
        "quick_start.tune.report(ndcg=1)\n"
    )
    ours = run(code).split()
    assert ours == [f"recbole_adaptau.{name}" for name in MODULES_AT_START]


def test_a_training_epoch_on_ml_100k_warns_of_nothing_in_the_future():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
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


def test_the_page_about_the_patches_is_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    generate = importlib.import_module("generate_patches")
    assert (ROOT / "docs" / "patches.md").read_text(encoding="utf-8") == generate.page(), "make docs"
    assert set(generate.KINDS) == {patch.kind for patch in PATCHES}
