"""How runs are carried out: in this process, in one process after another, or side by side by Ray."""

import logging
import multiprocessing
import secrets
import shutil
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeVar

import torch
from tqdm import tqdm

from ..config.yaml_files import PROPERTIES
from ..distributed.launcher import end_with_parent
from ..errors import AdapTauError, OptionError, need
from ..training.checkpoint import shielded_argv
from ..training.interrupt import StopRequest
from .folder import RunFolder

# How often a run is begun again, on another machine if there is one, when its process dies on a cluster.
RETRIES = 3
STOPPING = "stopping the runs; the epochs they have finished are saved"


class Named(Protocol):
    @property
    def name(self) -> str: ...


Job = TypeVar("Job", bound=Named)


@dataclass(frozen=True)
class Workers:
    """Who makes the runs.

    Attributes:
        number: Runs at a time, each in a process of its own; 0 for one after the other in this process.
        address: Of a Ray cluster; None for this machine.
    """

    number: int = 0
    address: str | None = None

    @classmethod
    def checked(cls, number: int, address: str | None = None) -> "Workers":
        if number < 0:
            raise OptionError(f"--parallel {number}: must be a number of processes, or 0 for this one.")
        if number == 0 and address is not None:
            raise OptionError(f"--ray-address {address} needs --parallel N: how many runs the cluster makes at a time.")
        return cls(number, address)


@dataclass(frozen=True)
class Sent:
    """What a machine of the cluster may lack.

    Attributes:
        mark: A file of the study's folder, which is there where the storage is shared.
        folders: Folders by name, each a list with a reference to its files in Ray's object store.
    """

    mark: Path
    folders: Mapping[str, list[Any]]

    def unpack(self, name: str, folder: Path) -> None:
        import ray

        write_files(ray.get(self.folders[name][0]), folder)


def read_files(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by their paths in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def each_done(
    jobs: Sequence[Job],
    make: Callable[[Job, Sent | None], Any],
    workers: Workers,
    begun: Callable[[Job], None],
    root: Path,
    folders: Mapping[str, Path],
) -> Iterator[tuple[Job, Any, Exception | None]]:
    """Carry out every job; yields each as it ends, with what it returned and the exception it ended by, if any.

    Args:
        make: Does a job; importable by name, as another process may be the one that calls it.
        workers: How many processes, and where. A process makes one run and ends, so that nothing of one run (memory,
            random state, a crash) reaches the next.
        begun: Called here when a job starts.
        root: Where the jobs write.
        folders: What they read, for machines that have no such folders.
    """
    if workers.address is not None or workers.number > 1:
        yield from _by_ray(jobs, make, workers, begun, root, folders)
        return
    for job in jobs:
        begun(job)
        try:
            came = make(job, None) if workers.number == 0 else _in_own_process(make, job)
        except Exception as error:
            yield job, None, error
        else:
            yield job, came, None


def _in_own_process(make: Callable[[Job, Sent | None], Any], job: Job) -> Any:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, make, job, torch.get_num_threads()))
    try:
        with StopRequest(STOPPING) as stop:
            process.start()
            there.close()  # so that the end of the process ends the connection
            while not here.poll(0.5):
                stop.check()
            try:
                error, told = here.recv()
            except EOFError:
                stop.check()
                process.join()
                message = f"its process ended by itself (exit code {process.exitcode}); was there enough memory?"
                raise AdapTauError(message) from None
    finally:
        if process.pid is not None:
            process.terminate()  # a run that is under way saves what it has
            process.join()
    if error is not None:
        raise error from RuntimeError(told)  # it tells where in the other process


def _answer(connection: Connection, make: Callable[[Job, Sent | None], Any], job: Job, threads: int) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        _in_process(make, job, threads, None)
    except Exception as error:
        connection.send((error, traceback.format_exc()))
    except KeyboardInterrupt:  # told already
        raise SystemExit(130) from None
    else:
        connection.send((None, ""))


def _by_ray(
    jobs: Sequence[Job],
    make: Callable[[Job, Sent | None], Any],
    workers: Workers,
    begun: Callable[[Job], None],
    root: Path,
    folders: Mapping[str, Path],
) -> Iterator[tuple[Job, Any, Exception | None]]:
    need("ray", "runs side by side need", "parallel")
    try:
        import ray
    except ModuleNotFoundError as error:  # Ray 2.6, which RecBole's metadata asks for, with a setuptools of today
        raise OptionError(f"Ray cannot be imported ({error}): pip install --upgrade ray") from error

    mark = root / f".{secrets.token_hex(8)}.shared"
    if workers.address is None:
        # An address keeps Ray from joining a cluster that happens to run here; nothing large goes through its store.
        ray.init(
            address="local",
            num_cpus=workers.number,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=100_000_000,
            _system_config={"worker_niceness": 0},  # Ray would have every other process of the machine go first
        )
        threads, cores, sent = max(torch.get_num_threads() // workers.number, 1), 1, None
    else:
        _join(workers.address)
        mark.touch()
        threads = cores = _threads(ray.nodes(), workers.number)
        sent = Sent(mark, {name: [ray.put(read_files(path))] for name, path in folders.items() if path.is_dir()})
    retries = 0 if sent is None else RETRIES
    task: Any = ray.remote(num_cpus=cores, max_calls=1, max_retries=retries)(_in_process)
    waiting = list(jobs)
    running: dict[Any, Job] = {}
    try:
        # Entered only now: Ray has a handler of its own for SIGTERM, which ends the process with a dump.
        with StopRequest(STOPPING) as stop:
            while waiting or running:
                while waiting and len(running) < workers.number:
                    job = waiting.pop(0)
                    begun(job)
                    running[task.remote(make, job, threads, sent)] = job
                stop.check()
                for done in ray.wait(list(running), timeout=1.0)[0]:
                    job = running.pop(done)
                    try:
                        came = ray.get(done)
                    except ray.exceptions.RayTaskError as error:
                        error.cause.__cause__ = error  # it tells where in the other process
                        yield job, None, error.cause
                    except ray.exceptions.RayError as error:
                        yield (
                            job,
                            None,
                            AdapTauError(f"its process ended by itself ({error}); was there enough memory?"),
                        )
                    else:
                        yield job, came, None
    finally:
        if workers.address is not None:
            for under_way in running:
                ray.cancel(under_way, force=True)  # a cluster outlives this process
        ray.shutdown()
        mark.unlink(missing_ok=True)


def _join(address: str) -> None:
    """Become a driver of a cluster, with this package's code where Ray can send it."""
    import ray

    # Ray 2.6 sends code only with all of ray[default] installed; without it the machines have the package themselves.
    sends = find_spec("aiohttp") or find_spec("ray._private.runtime_env.agent")
    try:
        with tempfile.TemporaryDirectory() as folder:  # Ray uploads it before init returns
            code = {"py_modules": [str(package_in(Path(folder)))]} if sends else None
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=code)
    except (ConnectionError, ValueError, RuntimeError) as error:
        told = str(error).partition("\n")[0]
        raise OptionError(
            f"--ray-address {address}: no Ray cluster answers there ({told}). Start one with `ray start --head`."
        ) from error


def package_in(folder: Path) -> Path:
    """A copy of this package as a wheel installs it, with the properties that a checkout has beside it."""
    package = Path(__file__).parents[1]
    compiled = shutil.ignore_patterns("__pycache__")
    copy = shutil.copytree(package, folder / package.name, ignore=compiled)
    shutil.copytree(PROPERTIES, copy / "properties", ignore=compiled, dirs_exist_ok=True)
    return copy


def _threads(nodes: Sequence[Mapping[str, Any]], number: int) -> int:
    """Cores for each of so many runs at a time: a run is on one machine, and the smallest one has to do."""
    cores = [int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
    smallest = min((count for count in cores if count), default=1)
    return max(min(sum(cores) // number, smallest), 1)


def _in_process(make: Callable[[Job, Sent | None], Any], job: Job, threads: int, sent: Sent | None) -> Any:
    torch.set_num_threads(threads)
    with shielded_argv():  # Ray's own arguments, which RecBole would take for settings
        return make(job, sent)


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
