"""Files made to harm: every one is refused with a clear message, and nothing in it runs."""

import io
import os
import pickle
import random
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import yaml
from packaging.version import Version
from recbole.config import Config
from recbole.trainer import HyperTuning

import recbole_adaptau
from recbole_adaptau.errors import AdapTauError, CheckpointError, DataError, OptionError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training import checkpoint


class Calls:
    """A pickle that calls a function when it is read; every one of these would leave a file named `ran`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


PAYLOADS = {
    "os.system": Calls(os.system, "touch ran"),
    "eval": Calls(eval, "open('ran', 'w')"),
    "exec": Calls(exec, "open('ran', 'w')"),
    "open": Calls(open, "ran", "w"),
    "Path.touch": Calls(Path.touch, Path("ran")),
    "by attribute": Calls(getattr, Calls(__import__, "os"), "system"),
}


@pytest.fixture(autouse=True)
def nothing_ran():
    yield
    assert not Path("ran").exists()


def archive(state, change=None, compress=zipfile.ZIP_STORED) -> bytes:
    """What torch.save writes, with some parts changed on the way."""
    written, out = io.BytesIO(), io.BytesIO()
    torch.save(state, written)
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(out, "w", compress) as target:
        for name in source.namelist():
            target.writestr(name, (change or (lambda name, data: data))(name, source.read(name)))
    return out.getvalue()


def numbers(before: bytes, after: bytes, count: int = -1):
    """Replace bytes in the part that says what there is."""

    def change(name, data):
        assert not name.endswith("data.pkl") or before in data
        return data.replace(before, after, count) if name.endswith("data.pkl") else data

    return change


class Lying:
    """A tensor of a million numbers that are all the same stored one."""

    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, (
            torch.zeros(1).storage(), 0, (1000, 1000), (0, 0), False, {},
        )  # fmt: skip


def bomb() -> bytes:
    """Ten megabytes of zeros in each of its parts, and ten kilobytes long."""
    return archive({"a": 1}, lambda name, data: bytes(10_000_000), zipfile.ZIP_DEFLATED)


def old_format() -> bytes:
    torch.save(PAYLOADS["eval"], "x", _use_new_zipfile_serialization=False)
    return Path("x").read_bytes()


def wild_sparse_tensor() -> bytes:
    tensor = torch.sparse_coo_tensor([[0, 9]], [1.0, 1.0], (10,), check_invariants=True)
    return archive({"a": tensor}, lambda name, data: data.replace(struct.pack("<q", 9), struct.pack("<q", 99)))


def larger_than_the_file() -> bytes:
    """The list of contents at the end says that a part has four gigabytes."""
    content = bytearray(archive({"a": torch.ones(10)}))
    entry = content.index(b"PK\x01\x02")
    content[entry + 20 : entry + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    return bytes(content)


def twice() -> bytes:
    out = io.BytesIO(archive({"a": 1}))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(out, "a") as target:
        target.writestr(target.namelist()[0], pickle.dumps(PAYLOADS["open"]))
    return out.getvalue()


def sparse(kind: str):
    matrix = sp.random(4, 4, 0.5, format=kind, random_state=0)
    if kind == "coo":
        matrix.col[0] = 1 << 30
    elif kind == "lil":
        matrix.rows[np.flatnonzero([len(row) for row in matrix.rows])[0]][0] = 1 << 30
    else:
        matrix.indices[0] = 1 << 30
    return archive({"a": matrix})


CRAFTED = {
    **{f"{name}, as PyTorch saves": lambda load=load: archive({"a": [load]}) for name, load in PAYLOADS.items()},
    **{f"{name}, plain pickle": lambda load=load: pickle.dumps(load) for name, load in PAYLOADS.items()},
    "old format": old_format,
    "zip bomb": bomb,
    "larger than the file": larger_than_the_file,
    "two parts with one name": twice,
    # 4 numbers are stored; first the storage, then the tensor claims 100 000.
    "storage size": lambda: archive({"a": torch.ones(4)}, numbers(b"K\x04t", b"J\xa0\x86\x01\x00t")),
    "tensor size": lambda: archive({"a": torch.ones(4)}, numbers(b"K\x04\x85", b"J\xa0\x86\x01\x00\x85")),
    "tensor offset": lambda: archive({"a": torch.ones(4)}, numbers(b"QK\x00", b"QK\x7f")),
    "stride zero": lambda: archive({"a": Lying()}),
    "array size": lambda: archive({"a": np.ones(5)}, numbers(b"K\x05\x85", b"J\xa0\x86\x01\x00\x85")),
    **{f"{kind} places": lambda kind=kind: sparse(kind) for kind in ("csr", "csc", "coo", "lil")},
    "sparse tensor places": wild_sparse_tensor,
    "Python objects in an archive of nothing": lambda: archive(PAYLOADS["os.system"]),
    "archive without contents": lambda: b"PK\x05\x06" + bytes(18),
    "text": lambda: b"--- not a checkpoint",
    "nothing": lambda: b"",
}  # fmt: skip


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_refused(name):
    if name == "storage size" and Version(torch.__version__) < Version("2.13"):
        pytest.skip(reason="PyTorch compares a storage with its record; 2.6 does not yet")
    Path("a.pth").write_bytes(CRAFTED[name]())
    with pytest.raises(CheckpointError, match=r"damaged or cut short|holds more than plain data|holds a ") as refusal:
        checkpoint.load("a.pth")
    assert "a.pth" in str(refusal.value)


def test_cut_short_anywhere_is_refused():
    checkpoint.save({"weights": torch.arange(500.0), "epoch": 3}, "a.pth")
    content = Path("a.pth").read_bytes()
    for length in range(0, len(content), 37):
        Path("b.pth").write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="damaged or cut short"):
            checkpoint.load("b.pth")


def test_a_flipped_bit_is_refused_or_changes_nothing():
    """Some bits say nothing: dates, and the padding that puts tensors on round addresses."""
    checkpoint.save({"weights": torch.arange(500.0), "epoch": 3}, "a.pth")
    content, rng, refused = Path("a.pth").read_bytes(), random.Random(0), 0
    for _ in range(300):
        bent = bytearray(content)
        bent[rng.randrange(len(bent))] ^= 1 << rng.randrange(8)
        Path("b.pth").write_bytes(bent)
        try:
            state = checkpoint.load("b.pth")
        except CheckpointError:
            refused += 1
        else:
            assert state["epoch"] == 3 and torch.equal(state["weights"], torch.arange(500.0))
    assert refused > 150


def test_a_checkpoint_of_recboles_own_is_read_only_on_the_users_word(board, caplog):
    config = Config("BPR", "board", config_dict=dict(board))
    model = recbole_adaptau.run_recbole_adaptau("BPR", "board", None, {**board, "epochs": 1, "run_folder": "run"})
    state = checkpoint.load(Path(model["run_folder"]) / "best.pth")
    # As RecBole's Trainer._save_checkpoint writes it.
    torch.save({**state, "config": config}, "recbole.pth", pickle_protocol=4)
    with pytest.raises(CheckpointError, match=r"load_data_and_model\(FILE, allow_pickle=True\)"):
        recbole_adaptau.load_data_and_model("recbole.pth")
    caplog.clear()
    _, loaded, *_ = recbole_adaptau.load_data_and_model("recbole.pth", allow_pickle=True)
    assert any("runs whatever code is in it" in record.message for record in caplog.records)
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in state["state_dict"].items())


def test_a_run_folder_has_no_say_in_what_may_run(board):
    """Somebody else's folder whose settings name a pickle, and say that pickles are fine."""
    Path("theirs").mkdir()
    Path("theirs/evil.pth").write_bytes(pickle.dumps(PAYLOADS["open"]))
    Path("theirs/board-Dataset.pth").write_bytes(pickle.dumps(PAYLOADS["open"]))
    settings = {**board, "model": "AdapTauMF", "dataset": "board", "epochs": 0, "allow_pickle": True}
    Path("theirs/config.yaml").write_text(yaml.safe_dump({**settings, "dataset_save_path": "theirs/evil.pth"}))
    with pytest.raises(OptionError, match="dataset_save_path"):
        recbole_adaptau.resume("theirs")
    Path("theirs/config.yaml").write_text(yaml.safe_dump({**settings, "save_dataset": True}))
    recbole_adaptau.resume("theirs")
    assert "allow_pickle" not in RunFolder("theirs").settings()


@pytest.mark.parametrize(
    "text", ["a: !!python/object/apply:os.system ['touch ran']", "a: !!python/name:os.system", "a: !!python/tuple [1]"]
)
def test_yaml_that_names_python_objects_is_refused(board, text):
    Path("a.yaml").write_text(text)
    with pytest.raises(OptionError, match=r"a\.yaml is not valid YAML: could not determine a constructor"):
        Config("BPR", "board", config_file_list=["a.yaml"], config_dict=board)
    Path("run").mkdir()
    Path("run/config.yaml").write_text(text)
    with pytest.raises(DataError, match=r"config\.yaml is damaged"):
        recbole_adaptau.resume("run")


def test_a_file_beside_the_data_cannot_move_the_run_or_allow_pickles(board):
    for key in ("allow_pickle", "run_root", "checkpoint_dir", "dataset_save_path"):
        Path("data/board/board.yaml").write_text(f"{key}: theirs\n")
        with pytest.raises(DataError, match=rf"board\.yaml sets {key}: a file that comes with data has no say"):
            Config("AdapTauMF", "board", config_dict=dict(board))


@pytest.mark.parametrize("name", ["../board", "/etc", "a/b", "..", ".hidden", "", "nul\0"])
def test_a_dataset_name_cannot_leave_its_folder(board, name):
    with pytest.raises(AdapTauError):
        Config("AdapTauMF", name, config_dict=dict(board))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3), ("[64, 32]", [64, 32]), ("None", None), ("mean", "mean"), ("True", True), ("true", True),
        ("print", "print"), ("__import__('os').abort()", "__import__('os').abort()"), ("[" * 500, "[" * 500),
    ],
)  # fmt: skip
def test_settings_are_read_as_literals_and_never_run(board, text, value):
    assert Config("BPR", "board", config_dict={**board, "encoding": text})["encoding"] == value


def test_recboles_other_evals_read_literals_too():
    Path("space").write_text("learning_rate choice [0.1,0.2]\n")
    pytest.importorskip("hyperopt")
    assert "learning_rate" in HyperTuning._build_space_from_file("space")
    Path("space").write_text("x choice __import__('os').system('touch${IFS}ran')\n")
    with pytest.raises(NameError):
        HyperTuning._build_space_from_file("space")


@pytest.mark.parametrize("number", ["1e-3", "1.5e3", "2E5", "-1e4", "+.5e-3", "1.e2", "3", "0.1", "-7", ".inf"])
def test_numbers_in_yaml_are_what_recbole_reads(board, number):
    Path("a.yaml").write_text(f"encoding: {number}\n")
    note = Config("BPR", "board", config_file_list=["a.yaml"], config_dict=dict(board))["encoding"]
    assert note == float(number.replace(".inf", "inf"))
