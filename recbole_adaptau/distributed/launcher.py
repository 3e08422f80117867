"""A run in several processes on torch's own engine: torchrun's variables are the contract, --nproc calls its agent."""

import itertools
import json
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
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cached_property
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from recbole.utils import ModelType
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

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
        """What the ranks of this start, and no earlier one, have in common before they are a group."""
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        key = f"recbole_adaptau/{next(_meetings)}"
        try:
            if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
                return self._new_store(host, port, key)
            own = dist.TCPStore(host, port, None, self.rank == 0, self.wait, wait_for_workers=False, multi_tenant=True)
            return dist.PrefixStore(key, own)
        except (dist.DistError, ValueError) as error:
            raise ProcessError(
                f"rank {self.rank} could not meet the other {self.world_size - 1} at {host}:{port} within "
                f"{self.timeout:g} seconds. Are all started, and does no firewall keep them apart? ({error})"
            ) from error

    def _new_store(self, host: str, port: int, key: str) -> dist.Store:
        """Rank 0's; the agent's, which outlives a restart, only says where.

        After a restart the agent's store still has the addresses of ranks that are no more, and PyTorch connects to
        them (its issue 135712). Agents end their processes before they start others, so an old address is refused.
        """
        agent = dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=60))
        if self.rank == 0:
            store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=self.wait)
            agent.set(key, str(store.port))
            return store
        agent.set_timeout(self.wait)
        deadline = time.monotonic() + self.timeout
        while True:
            place = int(agent.get(key))
            try:
                socket.create_connection((host, place), 5.0).close()  # PyTorch would fill pages about one refused
            except OSError as error:
                if time.monotonic() > deadline:
                    raise dist.DistNetworkError(str(error)) from error
                time.sleep(0.1)
            else:
                return dist.TCPStore(host, place, is_master=False, timeout=self.wait)

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
            delay = GRACE if not isinstance(error, AdapTauError) else 0.0 if self.rank == 0 else 1.0
            time.sleep(delay if several else 0.0)
            _leave_word(error)
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
    heard = ",".join(number.name for number in _ends())
    newer: dict[str, Any] = {"signals_to_handle": heard, "shutdown_timeout": int(GRACE)}  # than PyTorch 2.6
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder, _agent_s_manners():
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=nproc,
            run_id=uuid.uuid4().hex,
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            rdzv_configs={"is_host": True},
            local_addr="localhost",
            max_restarts=max_restarts,
            logs_specs=DefaultLogsSpecs(folder),
            **{name: value for name, value in newer.items() if name in {field.name for field in fields(LaunchConfig)}},
        )
        try:
            return pickle.loads(elastic_launch(config, _process)((threads, timeout, work, args))[0])
        except ChildFailedError as failed:
            rank, failure = failed.get_first_failure()
            raise _error(rank, nproc, failure, max_restarts) from None


def _process(task: tuple[int | None, float, Callable[..., Any], tuple[Any, ...]]) -> bytes:
    """In a process that the agent has started: work, or leave word of what went wrong."""
    threads, timeout, work, args = task
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
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


def _leave_word(error: Exception) -> None:
    """For the agent, where it reads of errors: a sentence if it is one of ours, else the traceback."""
    if file := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        ours = isinstance(error, AdapTauError)
        told = f"{type(error).__name__}: {error}" if ours else "".join(traceback.format_exception(error))
        Path(file).write_text(json.dumps({"message": told, "timestamp": int(time.time())}), encoding="utf-8")


def _error(rank: int, nproc: int, failure: ProcessFailure, restarts: int) -> Exception:
    """What to raise for a failed rank: its own error, its traceback, or how it died."""
    again = f" after {restarts} restart{'s' * (restarts > 1)}" if restarts else ""
    if os.path.isfile(failure.error_file):
        kind, _, text = str(failure.message).partition(": ")
        if kind in (kinds := {known.__name__: known for known in AdapTauError.__subclasses__()}):
            return kinds[kind](text)
        return RuntimeError(f"rank {rank} of {nproc} failed{again}, and the others were ended:\n{failure.message}")
    # Python says the reason itself: a script that starts processes and is not guarded would start itself again.
    how = f"with exit code {failure.exitcode} (see above)"
    if failure.exitcode < 0:
        how = f"by {failure.signal_name()}" + (" (out of memory?)" if -failure.exitcode == signal.SIGKILL else "")
    return ProcessError(f"rank {rank} of {nproc} was ended {how}{again}, and the others with it.")


def end_with_parent() -> None:
    """For a thread: ends this process when the one that has started it is no more."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    else:
        agent = os.getppid()
        while os.getppid() == agent:
            time.sleep(0.5)
    os._exit(1)


def _ends() -> list[signal.Signals]:
    """The signals that end a command and are not ignored, as SIGHUP is below nohup."""
    known = (number for number in signal.Signals if number.name in ("SIGTERM", "SIGINT", "SIGHUP"))
    return [number for number in known if signal.getsignal(number) not in (signal.SIG_IGN, None)]


@contextmanager
def _agent_s_manners() -> Iterator[None]:
    """The agent's log is silenced and its signal handlers are taken back; the processes it starts hear no Ctrl-C.

    In a terminal Ctrl-C reaches every process. Those that are started inherit this thread's mask; here another thread
    takes the signal, and Python acts upon it in this one.
    """
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in _ends()} if main else {}
    resource_tracker.ensure_running()  # Python's own; starting it later would lift the mask
    over = threading.Event()
    threading.Thread(target=over.wait, daemon=True).start()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        over.set()
        for number, handler in before.items():
            signal.signal(number, handler)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        logging.disable(level)
