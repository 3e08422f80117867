"""The parts of a checkpoint one by one: what is saved of a Config, what is read back, what is refused."""

import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from recbole.config import Config

from recbole_adaptau.core.row_adam import RowAdam
from recbole_adaptau.errors import CheckpointError
from recbole_adaptau.training import checkpoint


def config(**values) -> SimpleNamespace:
    """What `config_settings` reads of a Config."""
    return SimpleNamespace(final_config_dict={"dataset": "mine", "model": "BPR", **values})


def test_neither_what_is_worked_out_nor_the_users_own_word_is_saved():
    derived = {key: "x" for key in (*checkpoint.DERIVED, *checkpoint.USERS_WORD)}
    assert checkpoint.config_settings(config(epochs=np.int64(3), **derived)) == {
        "dataset": "mine", "model": "BPR", "epochs": 3, "data_path": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "saved"),
    [
        ({"data_path": "data/mine"}, {"data_path": "data/"}),
        ({"data_path": "data/other"}, {"data_path": "data/other"}),
        ({"data_path": "/site-packages/ml-100k", "dataset": "ml-100k"}, {"dataset": "ml-100k"}),
        ({"run_folder": "runs/a", "checkpoint_dir": "saved"}, {"run_folder": "runs/a", "data_path": ""}),
        ({"run_folder": "", "checkpoint_dir": "a"}, {"run_folder": "", "checkpoint_dir": "a", "data_path": ""}),
        ({"train_neg_sample_args": {"distribution": "none"}}, {"train_neg_sample_args": None, "data_path": ""}),
        (
            {"train_neg_sample_args": {"distribution": "uniform"}},
            {"train_neg_sample_args": {"distribution": "uniform"}, "data_path": ""},
        ),
        ({"train_neg_sample_args": "none"}, {"train_neg_sample_args": "none", "data_path": ""}),
    ],
)  # fmt: skip
def test_what_is_saved_gives_the_same_config_again(given, saved):
    assert checkpoint.config_settings(config(**given)) == {"dataset": "mine", "model": "BPR", **saved}


def test_plain_values_are_new_containers_and_sets_are_sorted():
    inner = [1, (2, {"a": np.array([[1.5]])})]
    made = checkpoint.plain({"x": inner, "s": frozenset((3, 20, 1))})
    assert made == {"x": [1, (2, {"a": [[1.5]]})], "s": [1, 20, 3]}  # as text
    made["x"].append(0)
    assert inner == [1, (2, {"a": np.array([[1.5]])})]
    tensor = torch.ones(2)
    assert checkpoint.plain(tensor) is tensor and checkpoint.plain(b"x") == "b'x'"


def test_modules_are_left_out_of_what_is_kept_beside_the_weights():
    values = {"layer": torch.nn.Linear(1, 1), "table": torch.ones(2)}
    model = SimpleNamespace(other_parameter=lambda: values)
    assert list(checkpoint.other_parameter(model)) == ["table"]
    assert checkpoint.other_parameter(SimpleNamespace(other_parameter=lambda: None)) == {}


@pytest.mark.parametrize("argv", [["host", "--epochs=3"], []])
def test_arguments_are_hidden_and_given_back_also_after_an_error(argv, monkeypatch):
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(ZeroDivisionError), checkpoint.shielded_argv():
        assert sys.argv == [*argv[:1]] or sys.argv == [""]
        assert len(sys.argv) == 1
        raise ZeroDivisionError
    assert sys.argv is argv


def test_strings_are_quoted_and_nothing_else():
    assert checkpoint.quoted({"a": "it's", "b": 1, "c": ["x"]}) == {"a": '"it\'s"', "b": 1, "c": ["x"]}


def test_a_files_settings_have_no_say_in_what_the_user_decides():
    assert checkpoint.saved_settings({"model": "BPR", "allow_pickle": True, "strict_keys": False}) == {"model": "BPR"}
    assert checkpoint.saved_settings({"tau_strategy": "fixed", "recipe": "none"})["tau_strategy"] == "fixed"


def test_a_run_of_another_model_or_dataset_is_refused():
    saved = {"model": "BPR", "dataset": "a"}
    checkpoint.refuse_other_run(saved, {**saved, "epochs": 3}, "x.pth")
    for key, message in (("model", "x.pth is of model BPR, but"), ("dataset", "x.pth is of dataset a, but")):
        with pytest.raises(CheckpointError, match=message):
            checkpoint.refuse_other_run(saved, {**saved, key: "other"}, "x.pth")


@pytest.mark.parametrize(
    ("state", "place"),
    [
        ({"a": {"b": [0, {1}]}}, r"state\['a'\]\['b'\]\[1\]: a builtins.set is not"),
        ({"a": OrderedDict(x=(1, object()))}, r"state\['a'\]\['x'\]\[1\]: a builtins.object"),
        ({("a", frozenset()): 1}, r"a key of state\[1\]: a builtins.frozenset"),
        ({"a": np.array(["x"])}, r"state\['a'\]: an array of <U1"),
        ({"a": np.matrix([[1j]])}, r"state\['a'\]: an array of complex128"),
        ({"a": np.float64(1)}, r"state\['a'\]: a numpy.float64"),
        ({"a": sp.eye(2, format="dok")}, r"state\['a'\]: a scipy.*dok"),
    ],
)
def test_what_is_no_plain_data_is_named_by_its_place(state, place):
    with pytest.raises(CheckpointError, match=place):
        checkpoint.save(state, "a.pth")


def test_what_cannot_be_written_says_how_large_it_is(monkeypatch):
    def refuse(path, content):
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(checkpoint, "write_whole", refuse)
    with pytest.raises(CheckpointError) as refusal:
        checkpoint.save({"a": torch.zeros(1_000_000)}, "a.pth")
    assert "(4.0 MB): Permission denied. Free" in str(refusal.value) and "was kept" not in str(refusal.value)


def test_tensors_go_where_they_are_asked_to():
    checkpoint.save({"a": torch.ones(3)}, "a.pth")
    assert checkpoint.load("a.pth")["a"].device.type == "cpu"
    assert checkpoint.load("a.pth", map_location="meta")["a"].device.type == "meta"
    torch.save({"a": torch.ones(3), "b": Config}, "b.pth")
    assert checkpoint.load("b.pth", "meta", allow_pickle=True)["a"].device.type == "meta"


def test_pickles_are_read_on_the_users_word_alone_and_with_a_warning(caplog):
    torch.save({"a": SimpleNamespace(x=1)}, "a.pth")
    with pytest.raises(CheckpointError, match="holds more than plain data"):
        checkpoint.load("a.pth")
    assert checkpoint.load("a.pth", allow_pickle=True)["a"].x == 1
    assert "runs whatever code is in it" in caplog.text
    torch.save([SimpleNamespace(x=1)], "a.pth")
    with pytest.raises(CheckpointError, match="holds a list, not a checkpoint"):
        checkpoint.load("a.pth", allow_pickle=True)


def test_classes_that_were_safe_before_stay_so_and_ours_do_not():
    """One of ours that the program has listed itself must still be listed afterwards."""
    checkpoint.save({"a": 1}, "a.pth")
    with torch.serialization.safe_globals([SimpleNamespace, np.ndarray]):
        before = set(torch.serialization.get_safe_globals())
        checkpoint.load("a.pth")
        assert set(torch.serialization.get_safe_globals()) == before
    assert np.ndarray not in torch.serialization.get_safe_globals()


def test_an_archive_of_exactly_its_size_is_read_and_larger_claims_are_not(monkeypatch):
    checkpoint.save({"a": torch.ones(3)}, "a.pth")
    parts = SimpleNamespace(compress_type=zipfile.ZIP_STORED, filename="x")

    class Archive:
        def __init__(self, path):
            self.wrong = None

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def infolist(self):
            return [parts]

        def testzip(self):
            return self.wrong

    monkeypatch.setattr(checkpoint.zipfile, "ZipFile", Archive)
    size = Path("a.pth").stat().st_size
    for claimed, fine in ((size, True), (size + 1, False)):
        parts.file_size = claimed
        if fine:
            checkpoint._refuse_dishonest_archive(Path("a.pth"))
        else:
            with pytest.raises(ValueError, match="larger than the file"):
                checkpoint._refuse_dishonest_archive(Path("a.pth"))


def test_an_archive_of_which_one_part_is_packed_is_refused():
    """However large it unfolds: what it claims is not looked at before."""
    checkpoint.save({"a": torch.arange(50)}, "a.pth")
    with zipfile.ZipFile("a.pth") as source, zipfile.ZipFile("b.pth", "w") as target:
        for place, name in enumerate(source.namelist()):
            target.writestr(name, source.read(name), zipfile.ZIP_STORED if place else zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="its parts are packed"):
        checkpoint.load("b.pth")


def test_files_of_before_version_1_6_are_refused_also_with_plain_data():
    torch.save({"a": 1}, "a.pth", _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match=r"not a PyTorch file \(of version 1\.6 or later\)"):
        checkpoint.load("a.pth")


def wrong_csr() -> sp.csr_matrix:
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices[1] = 3
    return matrix


def lil(width: int, place: int) -> sp.lil_matrix:
    matrix = sp.lil_matrix((2, width))
    matrix.rows[1], matrix.data[1] = [place], [1.0]
    return matrix


def cut_lil() -> sp.lil_matrix:
    matrix = sp.lil_matrix((2, 3))
    matrix.rows = matrix.rows[:1]
    return matrix


def wide(values: int, *shape: int, offset: int = 0) -> torch.Tensor:
    """A tensor of a shape over fewer numbers, with strides of zero."""
    return torch.ones(values).as_strided(shape, [0] * len(shape), offset)


def wrong_coo() -> sp.coo_matrix:
    matrix = sp.coo_matrix(np.eye(3))
    matrix.row[1] = 3
    return matrix


@pytest.mark.parametrize(
    ("value", "sound"),
    [
        (torch.ones(4), True),
        (torch.ones(4)[2:], True),
        (torch.ones(4).expand(1, 4), True),
        (wide(4, 5), False),
        (wide(4, 2, 2), True),
        (wide(4, 2, offset=2), True),
        (wide(4, 2, offset=3), False),
        (torch.ones(4, dtype=torch.float64)[1:], True),
        (torch.ones(0), True),
        (torch.empty(0).as_strided((0, 5), (5, 1), 9), True),
        (torch.ones(9, device="meta"), True),
        (torch.eye(3).to_sparse(), True),
        (sp.eye(3, format="csr"), True),
        (sp.eye(3, format="lil").tocsc().asformat("csc"), True),
        (sp.coo_matrix(np.eye(3)), True),
        (wrong_coo(), False),
        (wrong_csr(), False),
        (wrong_csr().T, False),
        (lil(3, 2), True),
        (lil(3, 0), True),
        (lil(3, 3), False),
        (lil(3, -1), False),
        (cut_lil(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_nothing_may_reach_beyond_what_is_stored(value, sound):
    for nested in (value, {"a": value}, [1, (value,)], {"a": [{"b": value}]}):
        if sound:
            checkpoint._refuse_unsound(nested)
        else:
            with pytest.raises(ValueError, match=r"claims more|outside its shape|row index|exceeds|greater|must be"):
                checkpoint._refuse_unsound(nested)


@pytest.mark.parametrize("optimiser", [RowAdam, torch.optim.Adam])
def test_moments_of_another_shape_are_refused(optimiser):
    def stepped(rows):
        table = torch.nn.Parameter(torch.ones(rows, 2))
        made = optimiser([table], lr=0.1)
        sparse = torch.sparse_coo_tensor([[1]], torch.ones(1, 2), (rows, 2))
        table.grad = sparse if optimiser is RowAdam else sparse.to_dense()
        made.step()
        return made

    state = stepped(3).state_dict()
    fresh = stepped(3)
    checkpoint.restore_optimiser(fresh, state)
    assert fresh.state_dict()["state"].keys() == state["state"].keys()
    for name, moment in state["state"][0].items():
        if moment.dim():
            changed = {**state, "state": {0: {**state["state"][0], name: moment[:2]}}}
            with pytest.raises(ValueError, match=rf"{name} is \[2.*for a parameter of \[3, 2\]"):
                checkpoint.restore_optimiser(stepped(3), changed)
            flat = {**state, "state": {0: {**state["state"][0], name: torch.ones(6)}}}
            with pytest.raises(ValueError, match=rf"{name} is \[6\]"):
                checkpoint.restore_optimiser(stepped(3), flat)
