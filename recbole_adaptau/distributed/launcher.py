"""A run in several processes on torch's own engine: torchrun's variables are the contract, --nproc calls its agent."""

import itertools
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from multiprocessing import resource_tracker
from typing import Any

import torch
import torch.distributed as dist
from recbole.utils import ModelType
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, get_error_handler
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.rendezvous import rendezvous

from ..errors import AdapTauError, OptionError

# How long a process waits for the others, in seconds: PyTorch's own default.
TIMEOUT = 1800.0
# Seconds by which an error that may follow from another rank's end is told later than that end.
GRACE = 5.0
# Torchrun's variables; a group needs all of them.
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")

_meetings = itertools.count()  # a process may be in one group after another


class ProcessError(AdapTauError):
    """One of several processes ended before its time; the others were ended too."""


@dataclass(frozen=True)
class Rank:
    """This process as one of those that torchrun, or `launch`, has started.

    Attributes:
        rank, world_size: Among the processes of all machines.
        local_rank, local_world_size: Among those of this machine.
        launch: Torchrun's name of the launch, the same after a restart; empty if the variables were set by hand.
        restarts: How often the agent of this machine has restarted its processes.
        timeout: Seconds to wait for the others.
    """

    rank: int
    world_size: int
    local_rank: int = 0
    local_world_size: int = 1
    launch: str = ""
    restarts: int = 0
    timeout: float = TIMEOUT

    @property
    def wait(self) -> timedelta:
        return timedelta(seconds=self.timeout)

    @classmethod
    def of_process(cls, timeout: float = TIMEOUT) -> "Rank | None":
        """From torchrun's variables; None where nobody has set them."""
        if not timeout > 0:
            raise OptionError(f"--rank_timeout={timeout:g}: must be a number of seconds above 0.")
        given = {name: os.environ[name] for name in VARIABLES if os.environ.get(name)}
        if not given.keys() & {"RANK", "WORLD_SIZE", "LOCAL_RANK"}:
            return None
        needed = VARIABLES if given.get("WORLD_SIZE") != "1" else ("RANK",)
        if missing := [name for name in needed if name not in given]:
            raise OptionError(
                f"{', '.join(given)} in the environment make this process one of several, but {', '.join(missing)} "
                "is missing: start it with torchrun, which sets all, or unset them to train in one process."
            )
        try:
            rank, world_size, local_rank = (int(given.get(name, 0)) for name in VARIABLES[:3])
            here = int(os.environ.get("LOCAL_WORLD_SIZE", local_rank + 1))
            restarts, _ = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)), int(given.get("MASTER_PORT", 0))
        except ValueError as error:
            raise OptionError(f"a variable of torchrun's is not a number: {error}.") from error
        if not 0 <= rank < world_size or not 0 <= local_rank < here:
            told = f"RANK={rank} WORLD_SIZE={world_size} LOCAL_RANK={local_rank} LOCAL_WORLD_SIZE={here}"
            raise OptionError(f"{told}: there is no such rank; ranks count from 0.")
        return cls(rank, world_size, local_rank, here, os.environ.get("TORCHELASTIC_RUN_ID", ""), restarts, timeout)

    def check(self, config: Any) -> str:
        """Refuse what several processes cannot do; returns the backend: gloo on the CPU, nccl on a GPU for each."""
        if config["MODEL_TYPE"] in (ModelType.TRADITIONAL, ModelType.DECISIONTREE):
            raise OptionError(f"{config['model']} learns by no gradient that processes could share: start one process.")
        for key in ("save_dataloaders", "dataloaders_save_path"):
            if config[key]:
                raise OptionError(f"{key} = {config[key]}: saved loaders are of one process; leave it out.")
        rows = config["train_batch_size"] // self.world_size
        if config["negatives"] == "in_batch" and rows < 2:
            raise OptionError(
                f"train_batch_size = {config['train_batch_size']} leaves each of {self.world_size} processes {rows} "
                "rows, and negatives = in_batch needs two: give a larger train_batch_size."
            )
        if config["device"].type != "cuda":
            return "gloo"
        if torch.cuda.device_count() < self.local_world_size:
            raise OptionError(
                f"{self.local_world_size} processes on this machine need as many GPUs, but gpu_id = {config['gpu_id']} "
                f"makes {torch.cuda.device_count()} available: list them as --gpu_id=0,1, or use the CPU with "
                "--gpu_id=''."
            )
        return "nccl"

    @cached_property
    def store(self) -> dist.Store:
        """What the ranks of this start, and no earlier one, have in common before they are a group.

        An agent's store outlives a restart and has the addresses of ranks that are no more, to which PyTorch connects
        (its issue 135712). It only says where rank 0's is: agents end their processes before they start others, so
        that an old address is refused.
        """
        host, key = os.environ["MASTER_ADDR"], f"recbole_adaptau/{next(_meetings)}"
        try:
            met, *_ = next(rendezvous("env://", timeout=self.wait))
            if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
                return dist.PrefixStore(key, met)
            if self.rank == 0:
                own = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=self.wait)
                met.set(key, str(own.port))
                return own
            deadline = time.monotonic() + self.timeout
            while not _listens(host, port := int(met.get(key))):
                if time.monotonic() > deadline:
                    raise dist.DistNetworkError(f"rank 0 is not at port {port}")
                time.sleep(0.1)
            return dist.TCPStore(host, port, is_master=False, timeout=self.wait)
        except (dist.DistError, ValueError) as error:
            raise ProcessError(
                f"rank {self.rank} could not meet the other {self.world_size - 1} at {host}:{os.environ['MASTER_PORT']}"
                f" within {self.timeout:g} seconds. Are all started, and does no firewall keep them apart? ({error})"
            ) from error

    def text_of_first(self, key: str, text: str) -> str:
        """Rank 0's text, on every rank."""
        if self.world_size == 1:
            return text
        if self.rank == 0:
            self.store.set(key, text)
            return text
        return self.store.get(key).decode()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Around all that this process does as a rank: it ends with its agent, and the rank to blame speaks first."""
        if self.launch:
            threading.Thread(target=end_with_parent, daemon=True).start()
        several = self.world_size > 1
        main = several and threading.current_thread() is threading.main_thread()
        # In a collective operation Python would hear it too late.
        before = signal.signal(signal.SIGINT, signal.SIG_DFL) if main else None
        try:
            yield
        except Exception as error:
            # Rank 0 speaks for all that are refused alike; a lost connection is told after what it follows from.
            if several and (self.rank > 0 or not isinstance(error, AdapTauError)):
                time.sleep(GRACE)
            get_error_handler().record_exception(error)  # where the agent reads of errors
            raise
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)

    @contextmanager
    def group(self, backend: str) -> Iterator[None]:
        """The ranks as a process group; after an error it is left by the end of the process alone."""
        if self.local_world_size == self.world_size and "lo" in [name for _, name in socket.if_nameindex()]:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody else's business
        if backend == "nccl":
            torch.cuda.set_device(self.local_rank)
        try:
            dist.init_process_group(
                backend, store=self.store, rank=self.rank, world_size=self.world_size, timeout=self.wait
            )
        except dist.DistError as error:
            raise ProcessError(f"rank {self.rank} could not join the other {self.world_size - 1} ({error})") from error
        yield
        if dist.is_initialized():  # RecBole's run_recbole has left it already
            dist.destroy_process_group()


def launch(
    nproc: int,
    work: Callable[..., Any],
    *args: Any,
    max_restarts: int = 0,
    threads: int | None = None,
    timeout: float = TIMEOUT,
) -> Any:
    """Call `work(rank, *args)` in each of so many processes of this machine; returns what rank 0 returned.

    When one fails or dies, all are started again, at most `max_restarts` times; then the error says which and why.

    Raises:
        SignalException: SIGINT, SIGTERM or SIGHUP came; all processes are ended.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder, _signals_heard() as heard:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=nproc,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=max_restarts,
            logs_specs=DefaultLogsSpecs(folder),
        )
        # Not above: PyTorch 2.6 has neither.
        config.signals_to_handle, config.shutdown_timeout = ",".join(heard), int(GRACE)
        try:
            return pickle.loads(elastic_launch(config, _process)(threads, timeout, work, args)[0])
        except ChildFailedError as failed:
            rank, failure = failed.get_first_failure()
            raise _error(rank, nproc, failure, max_restarts) from None


def _process(threads: int | None, timeout: float, work: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    """In a process that the agent has started: work, or leave word of what went wrong."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if threads is not None:
        torch.set_num_threads(threads)
    rank = Rank.of_process(timeout)
    assert rank is not None, "the agent sets the variables"
    try:
        with rank.at_work():
            return pickle.dumps(work(rank, *args))
    except Exception:
        sys.stderr.flush()
        # Not by returning: the group's own threads may wait for a rank that is no more.
        os._exit(1)


def _error(rank: int, nproc: int, failure: ProcessFailure, restarts: int) -> Exception:
    """What to raise for a failed rank: its own error, its traceback, or how it died."""
    again = f" after {restarts} restart{'s' * (restarts > 1)}" if restarts else ""
    if isinstance(failure.message, dict):  # what `record_exception` wrote
        kind, _, text = failure.message["message"].partition(": ")
        for known in AdapTauError.__subclasses__():
            if known.__name__ == kind:
                return known(text)
        told = failure.message["extraInfo"]["py_callstack"]
        return RuntimeError(f"rank {rank} of {nproc} failed{again}, and the others were ended:\n{told}")
    # Python says the reason itself: a script that starts processes and is not guarded would start itself again.
    how = f"with exit code {failure.exitcode} (see above)"
    if failure.exitcode < 0:
        how = f"by {failure.signal_name()}" + (" (out of memory?)" if -failure.exitcode == signal.SIGKILL else "")
    return ProcessError(f"rank {rank} of {nproc} was ended {how}{again}, and the others with it.")


def _listens(host: str, port: int) -> bool:
    """Whether anybody is at this port; PyTorch itself would fill pages about a refused connection."""
    try:
        socket.create_connection((host, port), 5.0).close()
    except OSError:
        return False
    return True


def end_with_parent() -> None:
    """For a thread: ends this process when the one that has started it is no more."""
    parent, agent = multiprocessing.parent_process(), os.getppid()
    while os.getppid() == agent if parent is None else parent.is_alive():
        time.sleep(0.5)
    os._exit(1)


@contextmanager
def _signals_heard() -> Iterator[list[str]]:
    """The signals that end a launch: those not ignored, as SIGHUP is below nohup. The agent's log is silenced.

    In a terminal Ctrl-C reaches every process. Those that are started inherit this thread's mask and hear none; here
    another thread takes the signal, and Python acts upon it in this one.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if main}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    level, over = logging.root.manager.disable, threading.Event()
    logging.disable(logging.CRITICAL)
    resource_tracker.ensure_running()  # Python's own; starting it later would lift the mask
    threading.Thread(target=over.wait, daemon=True).start()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield [number.name for number in before]
    finally:
        over.set()
        for number, handler in before.items():
            signal.signal(number, handler)  # the agent leaves its own
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        logging.disable(level)
