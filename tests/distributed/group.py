"""Real processes inside a test, forked so that no module is imported again, and groups of them that meet over gloo."""

import multiprocessing
import pickle
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

SECONDS = 60.0


def forked(number: int, work: Callable[[int, Path], Any]) -> list[Any]:
    """What `work(number of the process, a folder of all)` gives in each; the exit code of one that gives nothing."""
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("processes cannot be forked here")
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        processes = [context.Process(target=_process, args=(place, folder, work)) for place in range(number)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(SECONDS)
            process.kill()
            process.join()
        answers = [folder / f"answer{place}" for place in range(number)]
        return [
            pickle.loads(answer.read_bytes()) if answer.is_file() else process.exitcode
            for answer, process in zip(answers, processes, strict=True)
        ]


def in_group(world_size: int, work: Callable[[int], Any]) -> list[Any]:
    """What `work(rank)` gives on each rank of a group."""

    def as_rank(rank: int, folder: Path) -> Any:
        store = dist.FileStore(str(folder / "store"), world_size)
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=world_size, timeout=timedelta(seconds=SECONDS / 2)
        )
        answer = work(rank)
        dist.barrier()
        return answer

    return forked(world_size, as_rank)


def _process(place: int, folder: Path, work: Callable[[int, Path], Any]) -> None:
    torch.set_num_threads(1)
    answer = pickle.dumps(work(place, folder))
    (folder / f"part{place}").write_bytes(answer)
    (folder / f"part{place}").rename(folder / f"answer{place}")
