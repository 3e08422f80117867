"""Checkpoints as plain data: written whole or not at all, read without running anything that is in them.

RecBole pickles its Config into every checkpoint, which PyTorch >= 2.6 refuses to read (RecBole issue 2215)
and which runs code when read. Here the Config becomes a dict of settings from which an equal one is rebuilt.
"""

import contextlib
import hashlib
import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from enum import Enum
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from recbole.config import Config

from ..errors import CheckpointError, did_you_mean
from ..files import write_whole

# What Config works out by itself; given back to it, some of these would change its course
# (a `local_rank` starts a process group) and the device may not exist on the machine that loads.
DERIVED = (
    "device",
    "MODEL_TYPE",
    "MODEL_INPUT_TYPE",
    "eval_type",
    "single_spec",
    "local_rank",
    "valid_neg_sample_args",
    "test_neg_sample_args",
    "valid_metric_bigger",
)

# Only the user's own word allows code in a file to run, never a file's.
USERS_WORD = ("allow_pickle", "strict_keys", "stored_settings")

_SPARSE = (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix)
_NUMBERS = (np.float64, np.float32, np.int64, np.int32, np.bool_, np.object_)

# Arrays that some of RecBole's models keep beside their weights (ItemKNN, EASE, SLIMElastic). They are data:
# reading one runs numpy's and scipy's own constructors and nothing from the file.
DATA_CLASSES: list[Any] = [
    np.zeros(0).__reduce__()[0],  # what rebuilds an array; its private module differs between versions
    np.float64(0).__reduce__()[0],
    np.ndarray,
    np.matrix,
    np.dtype,
    *(type(np.dtype(number)) for number in _NUMBERS),
    *_SPARSE,
]

_LEAVES = {
    type(None),
    bool,
    int,
    float,
    str,
    bytes,
    torch.Tensor,
    torch.nn.Parameter,
    torch.Size,
    torch.dtype,
}


def plain(value: Any) -> Any:
    """`value` as tensors, numbers, strings, lists, tuples and dicts; whatever else it holds becomes text.

    Numpy numbers become Python's, arrays become lists, a set a sorted list, an enum its name. The containers
    are new ones, so changing the result leaves `value` alone.
    """
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {plain(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return (tuple if isinstance(value, tuple) else list)(plain(entry) for entry in value)
    if isinstance(value, set | frozenset):
        return sorted((plain(entry) for entry in value), key=str)
    if value is None or isinstance(value, bool | int | float | str | torch.Tensor):
        return value
    return str(value)


def config_settings(config: Config) -> dict[str, Any]:
    """The settings from which `rebuild_config` makes an equal Config, on this machine or another."""
    settings = {key: plain(value) for key, value in config.final_config_dict.items() if key not in DERIVED + USERS_WORD}
    # RecBole joins the dataset's name on to data_path, and puts its own folder there for ml-100k whatever is
    # given; cutting the exact suffix off (no dirname) keeps the join equal to the letter.
    path, name = str(settings.pop("data_path", "")), settings["dataset"]
    if name != "ml-100k":
        settings["data_path"] = path[: -len(name)] if path.endswith(name) else path
    if settings.get("run_folder"):
        settings.pop("checkpoint_dir", None)  # the run folder is
    negatives = settings.get("train_neg_sample_args")
    if isinstance(negatives, dict) and negatives.get("distribution") == "none":
        settings["train_neg_sample_args"] = None
    return settings


def other_parameter(model: Any) -> dict[str, Any]:
    """What a RecBole model keeps beside its weights, without the modules some models list there.

    FDSA, DIN and a few others list an embedding layer, which is pickled with its whole dataset although its
    weights are in `state_dict` and the layer is rebuilt with the model.
    """
    listed = model.other_parameter() or {}
    return {name: value for name, value in listed.items() if not isinstance(value, torch.nn.Module)}


def fingerprint(dataset: Any) -> str:
    """Of the interactions of a RecBole dataset and of its users' and items' names, in their order."""
    digest = hashlib.sha256()
    for field in (dataset.uid_field, dataset.iid_field):
        if field in dataset.inter_feat:
            digest.update(dataset.inter_feat[field].numpy().tobytes())
            digest.update("\n".join(map(str, dataset.field2id_token.get(field, ()))).encode())
    return digest.hexdigest()


@contextlib.contextmanager
def shielded_argv() -> Iterator[None]:
    """Hide the host program's arguments, which RecBole's Config would take for its own."""
    argv = sys.argv
    sys.argv = argv[:1] or [""]
    try:
        yield
    finally:
        sys.argv = argv


def quoted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for a Config whose strings stay what they are.

    RecBole calls eval() on every string it is given. Quoted, a string evaluates to itself and nothing runs.
    """
    return {key: repr(value) if isinstance(value, str) else value for key, value in settings.items()}


def saved_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a file's settings may say when a Config is made of them again."""
    if "tau_strategy" in settings and "recipe" not in settings:
        raise CheckpointError(
            f"this run of {settings.get('model')} was made by version 0.1, whose settings had other names and whose "
            "defaults went beyond the paper: use it with that version, or train again with --recipe=plus, which is "
            "what its defaults were."
        )
    return {key: value for key, value in settings.items() if key not in USERS_WORD}


def rebuild_config(settings: Mapping[str, Any]) -> Config:
    """The Config that `config_settings` described; nothing but `settings` has a say in it."""
    settings = {**saved_settings(settings), "stored_settings": True}
    with shielded_argv():
        return Config(model=settings["model"], dataset=settings["dataset"], config_dict=quoted(plain(settings)))


def refuse_other_run(saved: Mapping[str, Any], settings: Any, path: Any) -> None:
    """Raise if a checkpoint with the settings `saved` is of another model or dataset than `settings` say."""
    for key in ("model", "dataset"):
        if saved.get(key) != settings[key]:
            raise CheckpointError(f"{path} is of {key} {saved.get(key)}, but this run has {settings[key]}.")


def _refuse_unreadable(value: Any, where: str) -> None:
    """Raise for what `load` would refuse, while the previous checkpoint is still in place."""
    kind = type(value)
    if kind in (dict, OrderedDict):
        for key, entry in value.items():
            _refuse_unreadable(key, f"a key of {where}")
            _refuse_unreadable(entry, f"{where}[{key!r}]")
    elif kind in (list, tuple):
        for position, entry in enumerate(value):
            _refuse_unreadable(entry, f"{where}[{position}]")
    elif kind in (np.ndarray, np.matrix):
        if value.dtype not in _NUMBERS or value.dtype == object:
            raise CheckpointError(f"cannot save {where}: an array of {value.dtype} is not plain data.")
    elif kind not in _LEAVES and kind not in _SPARSE:
        raise CheckpointError(
            f"cannot save {where}: a {kind.__module__}.{kind.__qualname__} is not plain data "
            "(tensors, numbers, text, lists, tuples, dicts)."
        )


def save(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write `state` to `path` so that a reader finds the old file or the new one, never a part.

    Raises:
        CheckpointError: something in `state` is not plain data, or the file system refused; the file that was
            at `path` before is untouched and nothing else is left behind.
    """
    _refuse_unreadable(state, "state")
    path = Path(path)
    # Serialised in memory first: torch.save hides a failed write behind an error about archive positions.
    content = io.BytesIO()
    torch.save(state, content)
    try:
        write_whole(path, content.getbuffer())
    except OSError as error:
        kept = " The last good checkpoint there was kept." if path.is_file() else ""
        raise CheckpointError(
            f"could not write the checkpoint {path.absolute()} ({content.tell() / 1e6:.1f} MB): "
            f"{error.strerror or error}.{kept} Free some space or write to another disk, then resume."
        ) from error


def load(path: str | os.PathLike[str], map_location: Any = "cpu", allow_pickle: bool = False) -> dict[str, Any]:
    """Read a checkpoint without running anything in it.

    Args:
        path: The file.
        map_location: Where tensors go, as for `torch.load`.
        allow_pickle: Read a file that holds more than plain data too, with a warning. The code in it runs.

    Raises:
        CheckpointError: no such file, a damaged one, or one that holds more than plain data.
    """
    path = Path(path)
    where = path.absolute()
    if not path.is_file():
        near = did_you_mean(path.name, (file.name for file in path.parent.glob("*.pth")))
        raise CheckpointError(f"there is no checkpoint file {where}.{near}")
    damaged = f"the checkpoint {where} is damaged or cut short"
    if not zipfile.is_zipfile(path):
        raise CheckpointError(f"{damaged}: it is not a PyTorch file (of version 1.6 or later).")
    try:
        _refuse_dishonest_archive(path)
        # On leaving, safe_globals also strikes off what was on the list before.
        listed = torch.serialization.get_safe_globals()
        ours = torch.serialization.safe_globals([cls for cls in DATA_CLASSES if cls not in listed])
        with ours, torch.sparse.check_sparse_tensor_invariants():
            state = torch.load(path, map_location=map_location, weights_only=True)
        _refuse_unsound(state)
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:  # its checksums are right, so this is how it was written
        if not allow_pickle:
            raise CheckpointError(
                f"the checkpoint {where} holds more than plain data, so it was refused and nothing in it was "
                "run. Files written by RecBole without recbole_adaptau are of this kind: train again or, if you trust "
                "whoever made the file with this whole machine, use load_data_and_model(FILE, allow_pickle=True)."
            ) from error
        getLogger().warning(f"allow_pickle: reading {where} runs whatever code is in it.")
        state = torch.load(path, map_location=map_location, weights_only=False)
    except Exception as error:  # damaged bytes surface as almost any exception
        raise CheckpointError(f"{damaged}: {str(error).splitlines()[0] if str(error) else error!r}") from error
    if not isinstance(state, dict):
        raise CheckpointError(f"the file {where} holds a {type(state).__name__}, not a checkpoint.")
    return state


def _refuse_dishonest_archive(path: Path) -> None:
    """Raise if the archive's bytes are not what it says, before memory is set aside for what it claims to hold.

    PyTorch stores its parts as they are, once each; it reads packed parts too, however large they unfold, and does not
    compare the checksums it writes.
    """
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise ValueError("its parts are packed, as PyTorch never writes them.")
        if sum(part.file_size for part in parts) > path.stat().st_size:
            raise ValueError("its parts claim to be larger than the file.")
        if len({part.filename for part in parts}) < len(parts):
            raise ValueError("two of its parts have the same name.")
        if archive.testzip() is not None:
            raise ValueError("its checksums do not match.")


def _refuse_unsound(value: Any) -> None:
    """Raise for tensors and sparse matrices that reach beyond what they hold: compiled code would follow them.

    PyTorch looks at what a tensor's strides reach, but a stride of zero makes a huge one out of a single number.
    """
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for entry in value:
            _refuse_unsound(entry)
    elif isinstance(value, torch.Tensor) and value.layout == torch.strided and value.device.type != "meta":
        reach = (value.storage_offset() + value.numel()) * value.element_size()
        if value.numel() and reach > value.untyped_storage().nbytes():
            raise ValueError("a tensor claims more numbers than are stored.")
    elif isinstance(value, sp.csr_matrix | sp.csc_matrix):
        value.check_format(full_check=True)
    elif isinstance(value, sp.coo_matrix):
        sp.coo_matrix((value.data, (value.row, value.col)), shape=value.shape)
    elif isinstance(value, sp.lil_matrix):
        height, width = value.shape
        if len(value.rows) != height or any(not 0 <= place < width for row in value.rows for place in row):
            raise ValueError("a sparse matrix has places outside its shape.")


def restore_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """`optimiser.load_state_dict`, which takes moments of any shape and hands them to compiled code."""
    optimiser.load_state_dict(state)
    for parameter, moments in optimiser.state.items():
        for name, value in moments.items():
            # All that our optimisers keep by row instead is RowAdam's count.
            fits = parameter.shape[:1] if name == "last_step" else parameter.shape
            if isinstance(value, torch.Tensor) and value.dim() and value.shape != fits:
                raise ValueError(f"{name} is {list(value.shape)} for a parameter of {list(parameter.shape)}")
