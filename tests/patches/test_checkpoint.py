"""Checkpoints: plain data, rebuilt configs, files that are whole or not there, and nothing run on reading."""

import errno
import os
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from recbole.config import Config
from recbole.utils import InputType

from recbole_adaptau.errors import CheckpointError
from recbole_adaptau.training import checkpoint


def same(left, right) -> bool:
    """Equality that looks into tensors."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return type(left) is type(right) and left == right


def test_plain_leaves_nothing_but_plain_data():
    mixed = {
        "number": np.float64(0.5),
        np.int64(3): np.array([1, 2]),
        "device": torch.device("cpu"),
        "enum": InputType.PAIRWISE,
        "nested": [({"a": np.bool_(True)},), {"b", "a"}],
        "path": Path("x"),
        "ordered": OrderedDict(k=None),
    }
    assert same(
        checkpoint.plain(mixed),
        {
            "number": 0.5,
            3: [1, 2],
            "device": "cpu",
            "enum": "PAIRWISE",
            "nested": [({"a": True},), ["a", "b"]],
            "path": "x",
            "ordered": {"k": None},
        },
    )


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("BPR", {}),
        (
            "BPR",
            {
                "gpu_id": "0,1",
                "eval_args": {"mode": "uni100"},
                "metrics": "NDCG",
                "topk": 5,
                "valid_metric": "NDCG@5",
            },
        ),
        ("LightGCN", {"train_neg_sample_args": {"distribution": "popularity", "sample_num": 3}}),
        ("SASRec", {"train_neg_sample_args": None}),
        ("ENMF", {}),
    ],
)
def test_rebuilt_config_is_equal(model, given):
    config = Config(model=model, dataset="ml-100k", config_dict=dict(given))
    settings = checkpoint.config_settings(config)
    again = checkpoint.rebuild_config(settings)
    assert again.final_config_dict == config.final_config_dict
    assert checkpoint.config_settings(again) == settings


def test_settings_of_version_0_1_are_refused_with_what_to_do():
    saved = checkpoint.config_settings(Config("AdapTauMF", "ml-100k"))
    old = {key: value for key, value in saved.items() if not key.startswith("recipe")} | {"popularity_prior": True}
    with pytest.raises(CheckpointError, match=r"made by version 0\.1(.|\n)*train again with --recipe=plus"):
        checkpoint.rebuild_config(old)
    assert checkpoint.rebuild_config(saved)["recipe"] == "none"


@pytest.mark.parametrize("data_path", ["dataset/", "dataset", "elsewhere//", "", "../up", "/data/of/mine"])
def test_data_path_survives_to_the_letter(data_path):
    config = Config(model="BPR", dataset="mine", config_dict={"data_path": data_path})
    assert checkpoint.rebuild_config(checkpoint.config_settings(config))["data_path"] == config["data_path"]


def test_rebuilding_neither_evaluates_strings_nor_reads_the_arguments(monkeypatch, tmp_path):
    settings = checkpoint.config_settings(Config(model="BPR", dataset="ml-100k"))
    settings["note"] = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    settings["number_like"] = "1e-3"
    settings["quote"] = 'it\'s "both"\n\\'
    monkeypatch.setattr(sys, "argv", ["host", "--learning_rate=7", "train"])
    before = dict(settings)
    config = checkpoint.rebuild_config(settings)
    assert [config[key] for key in ("note", "number_like", "quote")] == [
        before[key] for key in ("note", "number_like", "quote")
    ]
    assert config["learning_rate"] == 0.001
    assert not (tmp_path / "ran").exists()
    assert settings == before and sys.argv[1] == "--learning_rate=7"


def test_save_and_load_give_back_the_same(tmp_path):
    state = {
        "weights": OrderedDict(a=torch.arange(6.0).reshape(2, 3)),
        "mixed": [1, 2.5, "text", None, True, (1, 2), {3: b"x"}],
    }
    checkpoint.save(state, tmp_path / "deep" / "down" / "state.pth")
    loaded = checkpoint.load(tmp_path / "deep" / "down" / "state.pth")
    assert same(dict(loaded["weights"]), dict(state["weights"])) and loaded["mixed"] == state["mixed"]
    assert os.listdir(tmp_path / "deep" / "down") == ["state.pth"]


def test_numpy_and_scipy_arrays_are_data(tmp_path):
    sparse = sp.random(5, 4, 0.5, format="csr", dtype=np.float32, random_state=0)
    arrays = {"csr": sparse, "csc": sparse.tocsc(), "coo": sparse.tocoo(), "lil": sparse.tolil()}
    checkpoint.save({**arrays, "matrix": np.matrix(np.eye(2)), "ints": np.arange(3)}, tmp_path / "a.pth")
    loaded = checkpoint.load(tmp_path / "a.pth")
    for name, array in arrays.items():
        assert type(loaded[name]) is type(array)
        assert np.array_equal(loaded[name].toarray(), array.toarray())
    assert isinstance(loaded["matrix"], np.matrix) and loaded["ints"].tolist() == [0, 1, 2]


def test_loading_leaves_pytorchs_list_of_safe_classes_as_it_was(tmp_path):
    checkpoint.save({"a": 1}, tmp_path / "a.pth")
    before = list(torch.serialization.get_safe_globals())
    checkpoint.load(tmp_path / "a.pth")
    assert set(torch.serialization.get_safe_globals()) == set(before)


def test_what_could_not_be_read_back_is_refused_by_its_place(tmp_path):
    checkpoint.save({"epoch": 1}, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match=r"state\['other'\]\[1\]: a .*Config"):
        checkpoint.save({"other": [1, Config(model="BPR", dataset="ml-100k")]}, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match="array of object"):
        checkpoint.save({"other": np.array([None])}, tmp_path / "a.pth")
    assert checkpoint.load(tmp_path / "a.pth") == {"epoch": 1}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_keeps_the_last_good_file(tmp_path, monkeypatch, step):
    checkpoint.save({"epoch": 1}, tmp_path / "a.pth")

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(CheckpointError, match=r"No space left on device.*last good checkpoint there was kept"):
        checkpoint.save({"epoch": 2}, tmp_path / "a.pth")
    monkeypatch.undo()
    assert checkpoint.load(tmp_path / "a.pth") == {"epoch": 1}
    assert os.listdir(tmp_path) == ["a.pth"]


def test_a_write_that_the_system_cuts_short_keeps_the_last_good_file(tmp_path):
    """The system itself refuses here: no file may grow past 64 kB in the child process."""
    checkpoint.save({"epoch": 1}, tmp_path / "a.pth")
    script = (
        "import resource, signal, torch\n"
        "from recbole_adaptau.training import checkpoint\n"
        "from recbole_adaptau.errors import CheckpointError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "try:\n    checkpoint.save({'big': torch.zeros(1000, 1000)}, 'a.pth')\n"
        "except CheckpointError as error:\n    print('refused:', error)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "refused: could not write the checkpoint" in done.stdout and "was kept" in done.stdout
    assert checkpoint.load(tmp_path / "a.pth") == {"epoch": 1}
    assert not list(tmp_path.glob(".*"))


def test_an_interrupt_while_saving_leaves_only_the_last_good_file(tmp_path, monkeypatch):
    checkpoint.save({"epoch": 1}, tmp_path / "a.pth")

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save({"epoch": 2}, tmp_path / "a.pth")
    monkeypatch.undo()
    assert checkpoint.load(tmp_path / "a.pth") == {"epoch": 1}
    assert os.listdir(tmp_path) == ["a.pth"]


def test_a_missing_file_is_named_with_its_nearest_neighbour(tmp_path):
    checkpoint.save({}, tmp_path / "BPR-best.pth")
    with pytest.raises(CheckpointError, match=r"no checkpoint file .*BPR-bets.pth.*'BPR-best.pth'"):
        checkpoint.load(tmp_path / "BPR-bets.pth")


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_damage_is_told(tmp_path, damage):
    path = tmp_path / "a.pth"
    checkpoint.save({"weights": torch.ones(5000)}, path)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes({"cut": content[:9000], "flip": content, "empty": b"", "text": b"hello there"}[damage])
    with pytest.raises(CheckpointError, match="damaged or cut short"):
        checkpoint.load(path)


def test_recboles_own_pickled_config_is_refused(tmp_path):
    torch.save({"config": Config(model="BPR", dataset="ml-100k")}, "a.pth")
    with pytest.raises(CheckpointError, match="written by RecBole without recbole_adaptau"):
        checkpoint.load("a.pth")


def test_a_file_of_something_else_is_refused():
    torch.save([1, 2], "a.pth")
    with pytest.raises(CheckpointError, match="holds a list"):
        checkpoint.load("a.pth")
