"""How runs are carried out: one after the other in this process, or side by side in processes of Ray's."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TextIO, TypeVar

import torch
from tqdm import tqdm

from ..errors import AdapTauError, OptionError, need
from ..training.checkpoint import shielded_argv
from ..training.interrupt import StopRequest
from .folder import RunFolder


class Named(Protocol):
    @property
    def name(self) -> str: ...


Job = TypeVar("Job", bound=Named)


def check_workers(workers: int) -> None:
    if workers < 0:
        raise OptionError(f"--parallel {workers}: must be a number of processes, or 0 for this one.")


def each_done(
    jobs: Sequence[Job], make: Callable[[Job], None], workers: int, begun: Callable[[Job], None]
) -> Iterator[tuple[Job, Exception | None]]:
    """Carry out every job; yields each as it ends, with the exception it ended by, if any.

    Args:
        make: Does a job; importable by name, as another process may be the one that calls it.
        workers: How many processes; 0 for this one. A process makes one run and ends, so that nothing of one run
            (memory, random state, a crash) reaches the next.
        begun: Called here when a job starts.
    """
    if workers == 0:
        for job in jobs:
            begun(job)
            try:
                make(job)
            except Exception as error:
                yield job, error
            else:
                yield job, None
        return
    yield from _by_ray(jobs, make, workers, begun)


def _by_ray(
    jobs: Sequence[Job], make: Callable[[Job], None], workers: int, begun: Callable[[Job], None]
) -> Iterator[tuple[Job, Exception | None]]:
    need("ray", "runs side by side need", "parallel")
    import ray

    # An address keeps Ray from joining a cluster that happens to run here; nothing large goes through its store.
    ray.init(
        address="local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=100_000_000,
        _system_config={"worker_niceness": 0},  # Ray would have every other process of the machine go first
    )
    threads = max(torch.get_num_threads() // workers, 1)
    task: Any = ray.remote(num_cpus=1, max_calls=1, max_retries=0)(_in_process)
    waiting = list(jobs)
    running: dict[Any, Job] = {}
    try:
        # Entered only now: Ray has a handler of its own for SIGTERM, which ends the process with a dump.
        with StopRequest("stopping the runs; the epochs they have finished are saved") as stop:
            while waiting or running:
                while waiting and len(running) < workers:
                    job = waiting.pop(0)
                    begun(job)
                    running[task.remote(make, job, threads)] = job
                stop.check()
                for done in ray.wait(list(running), timeout=1.0)[0]:
                    job = running.pop(done)
                    try:
                        ray.get(done)
                    except ray.exceptions.RayTaskError as error:
                        error.cause.__cause__ = error  # it tells where in the other process
                        yield job, error.cause
                    except ray.exceptions.RayError as error:
                        yield job, AdapTauError(f"its process ended by itself ({error}); was there enough memory?")
                    else:
                        yield job, None
    finally:
        ray.shutdown()


def _in_process(make: Callable[[Job], None], job: Job, threads: int) -> None:
    torch.set_num_threads(threads)
    with shielded_argv():  # Ray's own arguments, which RecBole would take for settings
        make(job)


class Bars:
    """One bar over all runs, and below it one for each run under way, by the epochs its folder tells of."""

    def __init__(self, total: int, done: int, stream: TextIO):
        self._stream = stream
        self._all = tqdm(total=total, initial=done, unit="run", file=stream, disable=None)
        self._running: dict[str, tuple[RunFolder, Any]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()

    @contextmanager
    def shown(self) -> Iterator["Bars"]:
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield self
        finally:
            self._over.set()
            watcher.join()
            for _, bar in self._running.values():
                bar.close()
            self._all.close()

    def begin(self, name: str, run: RunFolder) -> None:
        bar = tqdm(desc=name, unit="epoch", file=self._stream, disable=None, leave=False)
        with self._lock:
            self._running[name] = run, bar

    def end(self, name: str, message: str) -> None:
        with self._lock:
            self._running.pop(name)[1].close()
        self._all.update()
        tqdm.write(message, file=self._stream)

    def _watch(self) -> None:
        while not self._over.wait(1.0):
            with self._lock:
                for run, bar in self._running.values():
                    if bar.total is None and run.config.is_file():
                        bar.total = run.settings().get("epochs")
                    if run.epochs.is_file():
                        bar.n = run.epochs.read_bytes().count(b"\n")
                        bar.refresh()
