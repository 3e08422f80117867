"""Where random numbers come from, as plain data, for a run that goes on as if it had not stopped."""

import random
from logging import getLogger
from typing import Any

import numpy as np
import torch
from recbole.utils import init_seed

from ..distributed import ranks


def generators(loader: Any) -> list[torch.Generator]:
    """What decides the order of a loader's batches; a knowledge-graph loader has two loaders inside."""
    inner = (loader, getattr(loader, "general_dataloader", None), getattr(loader, "kg_dataloader", None))
    found = (getattr(part, "generator", None) for part in inner)
    return [generator for generator in found if isinstance(generator, torch.Generator)]


def state() -> dict[str, Any]:
    """Python's, NumPy's and PyTorch's generators as plain data."""
    name, keys, *rest = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore(states: list[dict[str, Any]], seed: int) -> None:
    """Continue with this rank's numbers, of as many as there were; with new ones, where there were more or fewer."""
    if len(states) == ranks.world_size():
        _restore(states[ranks.rank()])
        return
    getLogger().warning(
        f"The run had {len(states)} processes and goes on with {ranks.world_size()}: random numbers start anew."
    )
    init_seed(seed + ranks.rank(), True)


def _restore(state: dict[str, Any]) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([part.cpu() for part in state["cuda"]])
