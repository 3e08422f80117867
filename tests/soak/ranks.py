"""Kill ranks, agents and commands of runs in several processes, and compare with runs that nothing happened to."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from recbole_adaptau.runs.folder import RunFolder
from tests.conftest import board_settings

from .kills import differences

ROOT = Path(__file__).resolve().parents[2]
COMMON = {"epochs": 250, "stopping_step": 900, "learning_rate": 0.01, "lr_schedule": "constant"}
RUNS: dict[str, dict[str, Any]] = {
    "AdapTauMF, shared": {"model": "AdapTauMF", "num_negatives": 20},
    "AdapTauMF, in_batch": {"model": "AdapTauMF", "negatives": "in_batch"},
    "AdapTauMF, learned_user": {"model": "AdapTauMF", "negatives": "full", "tau_strategy": "learned_user"},
    "AdapTauLightGCN": {"model": "AdapTauLightGCN", "num_negatives": 20},
}
# Seconds in which everything has to be over after a signal.
SOON = 20.0


def soak(root: Path, kills: int, seed: int, few: bool) -> tuple[str, bool]:
    """All trials; returns a table, and whether all is as it should be."""
    rng = random.Random(seed)
    lines, good = ["| trial | came to |", "|---|---|"], True
    names = list(RUNS)[:1] if few or not kills else list(RUNS)
    for name, found in _trials(root, names, kills, rng):
        told, fine = found
        lines.append(f"| {name} | {'' if fine else 'FAULT '}{told} |")
        print(lines[-1], file=sys.stderr, flush=True)
        good &= fine
    return "\n".join(lines), good


def _trials(root: Path, names: list[str], kills: int, rng: random.Random) -> Iterator[tuple[str, tuple[str, bool]]]:
    wholes, first = {}, names[0]
    for name in names:
        wholes[name], span = _whole(root, name)
        if kills:
            yield f"{name}: ranks killed at random times", _random_kills(root, wholes[name], name, kills, span, rng)
    yield "rank 1 killed three times in a row, two restarts", _killed_three_times(root, first)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        yield f"{number.name} to the command", _signalled(root, first, number)
        yield f"{number.name} to torchrun", _signalled(root, first, number, torchrun=True)
    yield "Ctrl-C in a terminal while ranks start", _signalled(root, first, signal.SIGINT, whole_group=True)
    yield "one of two torchrun agents killed and started again", _machine_replaced(root, wholes[first], first)


def _words(root: Path, name: str, folder: Path, *torchrun: str) -> list[str]:
    settings = {**board_settings(root), **COMMON, **RUNS[name], "run_folder": str(folder)}
    start = ["-m", "torch.distributed.run", *torchrun] if torchrun else []
    words = [f"--{key}={value}" for key, value in settings.items()]
    return [sys.executable, *start, str(ROOT / "run_recbole_adaptau.py"), "--dataset=board", *words]


@contextmanager
def _started(words: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a session of its own; nothing of it is left afterwards."""
    with log.open("a") as out:
        process = subprocess.Popen(
            words,
            stdout=out,
            stderr=out,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    family = psutil.Process(process.pid)
    try:
        yield process
    finally:
        for left in [*family.children(recursive=True), family] if family.is_running() else []:
            left.kill()
        process.wait()


def _whole(root: Path, name: str) -> tuple[RunFolder, float]:
    """The run that nothing happens to, and its seconds."""
    run = RunFolder(root / f"{name}-whole")
    begun = time.monotonic()
    with _started([*_words(root, name, run.path), "--nproc=2"], root / "whole.out") as process:
        process.wait(600)
    assert run.is_complete, (root / "whole.out").read_text()
    return run, time.monotonic() - begun


def _ranks(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes that the command has started to train."""
    try:
        children = psutil.Process(process.pid).children()
        marks = ("spawn_main", "run_recbole_adaptau.py")
        return sorted(
            (child for child in children if any(mark in " ".join(child.cmdline()) for mark in marks)),
            key=lambda child: child.create_time(),
        )
    except psutil.NoSuchProcess:
        return []


def _await(condition: Any, seconds: float = 300.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def _random_kills(
    root: Path, whole: RunFolder, name: str, kills: int, span: float, rng: random.Random
) -> tuple[str, bool]:
    parts = RunFolder(root / f"{name}-parts")
    done, before = 0, set()
    log = root / f"{name}.out"
    words = [*_words(root, name, parts.path), "--nproc=2", f"--max-restarts={kills}"]
    with _started(words, log) as process:

        def anew() -> bool:
            return process.poll() is not None or (
                len(found := _ranks(process)) == 2 and not before & {rank.pid for rank in found}
            )

        while done < kills and _await(anew) and process.poll() is None:
            time.sleep(rng.uniform(0, span / 3))
            found = _ranks(process)
            if len(found) == 2:
                before = {rank.pid for rank in found}
                rng.choice(found).kill()
                done += 1
        process.wait(600)
    if not parts.is_complete:
        return f"no result: {log.read_text()[-300:]}", False
    restarts = parts.read_result()["restarts"]
    wrong = differences(whole, parts)
    told = f"{done} kills, {restarts} restarts in result.json, "
    return told + (f"other {', '.join(wrong)}" if wrong else "same bits"), not wrong and restarts == done > 0


def _grows(run: RunFolder) -> bool:
    epochs = len(run.read_epochs())
    time.sleep(0.5)
    return len(run.read_epochs()) > epochs


def _killed_three_times(root: Path, name: str) -> tuple[str, bool]:
    run = RunFolder(root / "three")
    log, killed = root / "three.out", set()
    with _started([*_words(root, name, run.path), "--nproc=2", "--max-restarts=2"], log) as process:
        while len(killed) < 3 and process.poll() is None:
            found = _ranks(process)
            if len(found) == 2 and found[1].pid not in killed and _await(lambda: _grows(run), 60):
                killed.add(found[1].pid)
                found[1].kill()
        process.wait(60)
    told = log.read_text().splitlines()[-1]
    expected = "was ended by SIGKILL (out of memory?) after 2 restarts, and the others with it. Every finished epoch"
    return f"exit code {process.returncode}: {told}", process.returncode == 2 and expected in told


def _signalled(
    root: Path, name: str, number: signal.Signals, torchrun: bool = False, whole_group: bool = False
) -> tuple[str, bool]:
    """Seconds until the command and all its processes are over, and how many were left."""
    folder = root / f"signal-{number}-{torchrun}-{whole_group}"
    log = folder.with_suffix(".out")
    options = ("--standalone", "--nproc-per-node=2") if torchrun else ()
    words = _words(root, name, folder, *options)
    with _started(words if torchrun else [*words, "--nproc=2"], log) as process:
        _await(lambda: len(_ranks(process)) == 2 and (whole_group or len(RunFolder(folder).read_epochs()) > 2))
        family = psutil.Process(process.pid).children(recursive=True)
        begun = time.monotonic()
        (os.killpg if whole_group else os.kill)(process.pid, number)
        process.wait(60)
        _, left = psutil.wait_procs(family, SOON)
        seconds = time.monotonic() - begun
        for orphan in left:
            orphan.kill()
    text = log.read_text()
    # What torchrun itself says and returns is its own.
    fine = not left and (torchrun or number == signal.SIGKILL or process.returncode == 128 + number)
    fine &= torchrun or "Traceback" not in text
    last = text.splitlines()[-1] if text and not torchrun and number != signal.SIGKILL else ""
    return f"exit code {process.returncode} in {seconds:.1f} s, {len(left)} processes left. {last}", bool(fine)


def _machine_replaced(root: Path, whole: RunFolder, name: str) -> tuple[str, bool]:
    """Two agents on this machine; the one without rank 0 is killed with its rank, and started again."""
    run = RunFolder(root / "machines")
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    options = ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}")
    words = _words(root, name, run.path, *options, "--rdzv-id=soak", "--max-restarts=3")
    new_store = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    first_log = root / "machine0.out"
    with _started(words, first_log, **new_store) as first:
        agent = psutil.Process(first.pid)
        _await(lambda: any(one.laddr.port == port for one in agent.net_connections()))
        with _started(words, root / "machine1.out", **new_store) as second:
            _await(lambda: len(run.read_epochs()) > 2)
            for rank in _ranks(second):
                rank.kill()
        with _started(words, root / "machine2.out", **new_store) as third:
            codes = first.wait(300), third.wait(60)
    if not run.is_complete:
        return f"exit codes {codes}: {first_log.read_text()[-300:]}", False
    wrong = [fault for fault in differences(whole, run) if "config" not in fault]
    restarts = run.read_result()["restarts"]
    return f"exit codes {codes}, restarts {restarts}, {wrong or 'same bits'}", codes == (0, 0) and not wrong
