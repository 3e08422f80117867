"""Starting the processes of a run on this machine, and ending them all when one ends before its time."""

import datetime
import faulthandler
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from logging import getLogger
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.distributed as dist
from recbole.utils import ModelType

from ..errors import AdapTauError, OptionError

# Several machines must name one port beforehand; this is RecBole's.
PORT = 5678
# How long a process waits for the others, in seconds: PyTorch's own default.
TIMEOUT = 1800
# Seconds in which the others may say what they know when one has failed, and then in which they have to end.
GRACE = 5.0
# Seconds after which the supervising thread looks up from its waiting: a signal that the system gave to another thread
# (PyTorch and its store have some) does not wake it, and Python acts upon signals in this one alone.
LOOK_UP = 1.0


class ProcessError(AdapTauError):
    """One of several processes ended before its time; the others were ended too."""


@dataclass(frozen=True)
class Group:
    """The processes of one run, and those of them on this machine.

    Attributes:
        nproc: Processes on this machine.
        world_size: Processes on all machines.
        ip: The machine of rank 0.
        port: Where the processes meet there; 0 for any free port, which one machine alone can do.
        offset: The rank of this machine's first process.
        timeout: Seconds a process waits for the others before it gives up.
    """

    nproc: int = 1
    world_size: int = 1
    ip: str = "localhost"
    port: int = 0
    offset: int = 0
    timeout: float = TIMEOUT

    @classmethod
    def checked(
        cls,
        nproc: int = 1,
        world_size: int = -1,
        ip: str = "localhost",
        port: int | str | None = None,
        offset: int = 0,
        timeout: float = TIMEOUT,
    ) -> "Group":
        """A group that can exist, or a clear error. `world_size` -1 means that all are on this machine."""
        if nproc < 1:
            raise OptionError(f"--nproc={nproc}: at least one process has to work.")
        world_size = nproc if world_size <= 0 else world_size
        if not 0 <= offset <= world_size - nproc:
            raise OptionError(
                f"--group_offset={offset} --nproc={nproc} --world_size={world_size}: the ranks of this machine are "
                f"{offset} to {offset + nproc - 1}, but there are only 0 to {world_size - 1}."
            )
        alone = nproc == world_size
        try:
            number = (0 if alone else PORT) if port is None else int(port)
        except ValueError:
            number = -1
        if not 0 <= number < 65536 or (number == 0 and not alone):
            raise OptionError(f"--port={port}: must be a number from 1 to 65535.")
        if not timeout > 0:
            raise OptionError(f"--rank_timeout={timeout}: must be a number of seconds above 0.")
        return cls(nproc, world_size, ip, number, offset, timeout)

    @property
    def is_one_machine(self) -> bool:
        return self.nproc == self.world_size

    def check(self, config: Any) -> str:
        """Refuse what several processes cannot do; returns the backend: gloo on the CPU, nccl on a GPU for each."""
        if config["MODEL_TYPE"] in (ModelType.TRADITIONAL, ModelType.DECISIONTREE):
            raise OptionError(f"{config['model']} learns by no gradient that processes could share: leave --nproc out.")
        for key in ("save_dataloaders", "dataloaders_save_path"):
            if config[key]:
                raise OptionError(f"{key} = {config[key]}: saved loaders are of one process; leave it or --nproc out.")
        rows = config["train_batch_size"] // self.world_size
        if config["negatives"] == "in_batch" and rows < 2:
            raise OptionError(
                f"train_batch_size = {config['train_batch_size']} leaves each of {self.world_size} processes {rows} "
                "rows, and negatives = in_batch needs two: give a larger train_batch_size."
            )
        if config["device"].type != "cuda":
            return "gloo"
        if torch.cuda.device_count() < self.nproc:
            raise OptionError(
                f"--nproc={self.nproc} needs as many GPUs, but gpu_id = {config['gpu_id']} makes "
                f"{torch.cuda.device_count()} available: list them as --gpu_id=0,1, or use the CPU with --gpu_id=''."
            )
        return "nccl"


def launch(group: Group, backend: str, work: Callable[..., Any], *args: Any) -> Any:
    """Call `work(local rank, *args)` in each process of this machine; returns what the first of them returned.

    When one fails or dies, the others are ended and the error says which and why. Ctrl-C and SIGTERM end all of them,
    and so does the death of this process.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if backend == "gloo" and group.nproc > cores:
        getLogger().warning(f"{group.nproc} processes share {cores} cores: more than {cores} gain nothing.")
    if not group.is_one_machine:
        getLogger().warning(
            f"Waiting up to {group.timeout:g} seconds at {group.ip}:{group.port} for the other "
            f"{group.world_size - group.nproc} of {group.world_size} processes."
        )
    # Kept for as long as the processes need it.
    store, group = _meeting_place(group)
    threads = None if "OMP_NUM_THREADS" in os.environ else max(1, cores // group.nproc)
    context = multiprocessing.get_context("spawn")
    processes, connections = [], []
    with _termination_as_interrupt():
        try:
            for local_rank in range(group.nproc):
                here, there = context.Pipe(duplex=False)
                process = context.Process(
                    target=_process, args=(local_rank, group, backend, threads, there, work, args)
                )
                with _interrupts_later():
                    process.start()
                there.close()  # so that the end of the process ends the connection
                processes.append(process)
                connections.append(here)
            return _supervised(group, processes, connections)
        finally:
            _end(processes)
            del store


def _meeting_place(group: Group) -> tuple[dist.TCPStore | None, Group]:
    """Where the processes find each other, kept by the machine of rank 0, and the group with the port it has."""
    if group.offset > 0:
        return None, group
    try:
        store = dist.TCPStore(
            group.ip, group.port, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=60)
        )
    except dist.DistNetworkError as error:
        if "EADDRINUSE" not in str(error):
            raise OptionError(f"--ip={group.ip} --port={group.port}: cannot be used for rank 0 ({error}).") from error
        raise OptionError(
            f"--port={group.port} is in use, perhaps by another run: give another"
            + (", or leave it out for any free one." if group.is_one_machine else " on every machine.")
        ) from error
    return store, Group(group.nproc, group.world_size, group.ip, store.port, group.offset, group.timeout)


def _process(
    local_rank: int,
    group: Group,
    backend: str,
    threads: int | None,
    connection: Connection,
    work: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    """A process of its own: joins the group, works, and sends back what came out or what went wrong, and when."""
    faulthandler.enable()  # one that is ended by a fault in compiled code says where it was
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it cannot be blocked from the start
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        if threads is not None:
            torch.set_num_threads(threads)
        join(group, local_rank, backend)
        _send(connection, True, work(local_rank, *args))
        return
    except AdapTauError as error:
        _send(connection, False, error)
    except BaseException:
        _send(connection, False, traceback.format_exc())
    sys.stderr.flush()
    # Not by returning: the group's own threads may wait for a rank that is no more.
    os._exit(1)


def _send(connection: Connection, succeeded: bool, what: Any) -> None:
    # As bytes: sent as they are, tensors would stay in memory that ends with this process.
    connection.send_bytes(pickle.dumps((succeeded, time.time(), what)))


def join(group: Group, local_rank: int, backend: str) -> None:
    """Become a rank of the group; returns when all have."""
    timeout = datetime.timedelta(seconds=group.timeout)
    if group.is_one_machine and "lo" in [name for _, name in socket.if_nameindex()]:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nobody else's business
    if backend == "nccl":
        torch.cuda.set_device(local_rank)
    try:
        store = dist.TCPStore(group.ip, group.port, is_master=False, timeout=timeout)
        dist.init_process_group(
            backend, store=store, rank=group.offset + local_rank, world_size=group.world_size, timeout=timeout
        )
    except dist.DistError as error:
        raise ProcessError(
            f"rank {group.offset + local_rank} could not meet the other {group.world_size - 1} at {group.ip}:"
            f"{group.port} within {group.timeout:g} seconds. Are they all started, with the same --world_size, --ip "
            f"and --port and a --group_offset of their own, and does no firewall keep them apart? ({error})"
        ) from error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _supervised(group: Group, processes: list[Any], connections: list[Connection]) -> Any:
    """Wait for all processes; the first's result, or the error of the one that failed first."""
    results: dict[int, Any] = {}
    failures: list[tuple[int, float, int, Any]] = []
    left: dict[Any, int] = dict(zip(connections, range(group.nproc), strict=True))
    deadline: float | None = None
    while left and (deadline is None or time.monotonic() < deadline):
        seconds = LOOK_UP if deadline is None else max(deadline - time.monotonic(), 0.0)
        ready: list[Any] = wait(list(left), seconds)
        for connection in ready:
            local_rank = left.pop(connection)
            try:
                succeeded, when, what = pickle.loads(connection.recv_bytes())
            except EOFError:  # died without a word
                processes[local_rank].join(GRACE)
                succeeded, when, what = False, 0.0, processes[local_rank].exitcode
            if succeeded:
                results[local_rank] = what
            else:
                # What follows from a failure elsewhere, a lost connection, comes last: after deaths and plain errors.
                kind = 0 if isinstance(what, int | None) else 1 if isinstance(what, AdapTauError) else 2
                failures.append((kind, when if kind == 2 else 0.0, local_rank, what))
                deadline = deadline or time.monotonic() + GRACE
    if failures:
        *_, local_rank, what = min(failures, key=lambda failure: failure[:3])
        raise _failure(group.offset + local_rank, group.world_size, what)
    for process in processes:
        process.join(GRACE)
    return results[0]


def _failure(rank: int, world_size: int, what: Any) -> Exception:
    """What to raise for a failed rank: its own error, its traceback, or how it died."""
    if isinstance(what, AdapTauError):
        return what
    if isinstance(what, str):
        return RuntimeError(f"rank {rank} of {world_size} failed, and the others were ended:\n{what}")
    # Python says the reason itself: a script that starts processes and is not guarded would start itself again.
    how = f"with exit code {what} (see above)"
    if isinstance(what, int) and what < 0:
        how = f"by {signal.Signals(-what).name}" + (" (out of memory?)" if -what == signal.SIGKILL else "")
    return ProcessError(f"rank {rank} of {world_size} was ended {how}, and the others with it.")


def _end(processes: list[Any]) -> None:
    """End those that still run, at once: files are written whole or not at all, so nothing is worth waiting for."""
    for process in processes:
        process.kill()
    for process in processes:
        process.join()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """What is started here never hears Ctrl-C, which in a terminal reaches every process; this one hears it after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM ends this process as Ctrl-C does: with the processes it started."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGTERM)
    # Where the host program handles it, it is left to it; Ray, which RecBole imports, does so without being asked.
    unhandled = before == signal.SIG_DFL or getattr(before, "__module__", "").startswith("ray.")
    ours = unhandled and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, before)
