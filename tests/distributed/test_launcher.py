"""Processes that torchrun, or `launch`, has started: who they are, where they meet, how they end."""

import itertools
import json
import logging
import os
import pickle
import signal
import socket
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from recbole.utils import ModelType
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from recbole_adaptau.distributed import launcher
from recbole_adaptau.distributed.launcher import ProcessError, Rank, _error, _listens, _process, _signals_heard, launch
from recbole_adaptau.errors import DataError, OptionError

from .group import forked

VARIABLES = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in (*VARIABLES, "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)


def wait_until(holds) -> None:
    """For what another thread does; a busy machine may take its time."""
    deadline = time.monotonic() + 60.0
    while not holds() and time.monotonic() < deadline:
        threading.Event().wait(0.01)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def test_a_rank_is_what_torchruns_variables_say(monkeypatch):
    assert Rank.of_process() is None
    monkeypatch.setenv("MASTER_ADDR", "localhost")  # without a rank these two say nothing
    assert Rank.of_process() is None
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    assert Rank.of_process() == Rank(3, 8, 1, 2, "", 0, 1800.0)
    for name, value in (("LOCAL_WORLD_SIZE", "4"), ("RUN_ID", "job"), ("RESTART_COUNT", "2")):
        monkeypatch.setenv(name if name == "LOCAL_WORLD_SIZE" else f"TORCHELASTIC_{name}", value)
    rank = Rank.of_process(2.5)
    assert rank == Rank(3, 8, 1, 4, "job", 2, 2.5) and rank.wait == timedelta(seconds=2.5)
    assert Rank(0, 1) == Rank(0, 1, 0, 1, "", 0, 1800.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": "8"}, "there is no such rank"),
        ({"RANK": "-1"}, "there is no such rank"),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "there is no such rank"),
        ({"LOCAL_RANK": "-1", "LOCAL_WORLD_SIZE": "2"}, "there is no such rank"),
        ({"MASTER_PORT": "http"}, "a variable of torchrun's is not a number"),
        ({"WORLD_SIZE": "1", "RANK": None}, "but RANK is missing"),
        ({"MASTER_PORT": None}, "but MASTER_PORT is missing"),
    ],
)
def test_variables_that_name_no_rank_are_refused(monkeypatch, changes, message):
    for name, value in (VARIABLES | changes).items():
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match=message):
        Rank.of_process()


def test_what_several_processes_cannot_do_is_refused():
    config = {"device": torch.device("cpu"), "model": "M", "MODEL_TYPE": None, "train_batch_size": 4}
    config |= {"negatives": "in_batch", "save_dataloaders": False, "dataloaders_save_path": None}
    assert Rank(0, 2).check(config) == "gloo"
    assert Rank(0, 4).check({**config, "negatives": "shared"}) == "gloo"
    for changes, told in (
        ({"train_batch_size": 3}, "leaves each of 2 processes 1 rows"),
        ({"MODEL_TYPE": ModelType.TRADITIONAL}, "M learns by no gradient"),
        ({"MODEL_TYPE": ModelType.DECISIONTREE}, "M learns by no gradient"),
        ({"save_dataloaders": True}, "save_dataloaders = True: saved loaders"),
        ({"dataloaders_save_path": "x"}, "dataloaders_save_path = x: saved loaders"),
    ):
        with pytest.raises(OptionError, match=told):
            Rank(0, 2).check({**config, **changes})


def as_rank(place: int, port: int, local_world_size: int = 2) -> None:
    os.environ.update(VARIABLES, RANK=str(place), WORLD_SIZE="2", LOCAL_RANK="0", MASTER_PORT=str(port))
    os.environ["LOCAL_WORLD_SIZE"] = str(local_world_size)


def test_ranks_meet_at_the_address_as_often_as_they_like_and_form_a_group():
    port = free_port()

    def work(place, _):
        as_rank(place, port)
        rank = Rank.of_process(60.0)
        texts = [rank.text_of_first(key, f"{key} of {place}") for key in ("one", "two")]
        assert rank.store is rank.store
        for name in VARIABLES:  # the group meets at the store that is there already
            del os.environ[name]
        with rank.group("gloo"):
            total = torch.tensor(place + 1)
            dist.all_reduce(total)
            inside = dist.is_initialized(), dist.get_backend(), total.item(), os.environ.get("GLOO_SOCKET_IFNAME")
        return texts, inside, dist.is_initialized()

    for texts, inside, after in forked(2, work):
        assert texts == ["one of 0", "two of 0"] and after is False
        assert inside == (True, "gloo", 3, "lo" if "lo" in dict(socket.if_nameindex()).values() else None)


def test_a_group_that_was_left_inside_is_not_left_again_and_other_machines_keep_their_interface():
    port = free_port()

    def work(place, _):
        os.environ.pop("GLOO_SOCKET_IFNAME", None)
        as_rank(place, port, local_world_size=1)
        with Rank.of_process(60.0).group("gloo"):
            dist.destroy_process_group()
        return os.environ.get("GLOO_SOCKET_IFNAME")

    assert forked(2, work) == [None, None]


def agent_with_old_address(monkeypatch) -> tuple[dist.TCPStore, int]:
    """An agent's store outlives a restart: it still has the port of a rank 0 that is no more."""
    monkeypatch.setattr(launcher, "_meetings", itertools.count())
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    agent, old = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False), free_port()
    for prefix in ("", "/worker/attempt_0/"):  # the latter in PyTorch 2.6
        agent.set(f"{prefix}recbole_adaptau/0", str(old))
    return agent, old


def test_below_an_agent_ranks_meet_at_the_new_rank_0_and_not_at_an_old_one(monkeypatch):
    agent, _ = agent_with_old_address(monkeypatch)

    def work(place, _):
        as_rank(place, agent.port)
        if place == 0:
            time.sleep(0.5)
        rank = Rank.of_process(30.0)  # rank 0's has the store, which stays until the other has read it
        text = rank.text_of_first("key", f"of {place}")
        done = dist.TCPStore("localhost", agent.port, is_master=False)
        done.wait(["done"], timedelta(seconds=30)) if place == 0 else done.set("done", "1")
        return text, rank.store.port

    (text, port), other = forked(2, work)
    assert text == "of 0" and other == ("of 0", port) and port > 1023 and port != agent.port


def test_a_group_on_gpus_takes_its_own_and_one_that_cannot_be_joined_is_an_error(monkeypatch):
    """With PyTorch's own functions replaced: there is no GPU here."""
    asked = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: asked.append(number))
    monkeypatch.setattr(dist, "init_process_group", lambda *args, **kwargs: asked.append((args, kwargs)))
    rank = Rank(3, 8, 1, 4, timeout=7.0)
    rank.__dict__["store"] = "store"  # a cached property
    with rank.group("nccl"):
        pass
    joined = {"store": "store", "rank": 3, "world_size": 8, "timeout": timedelta(seconds=7)}
    assert asked == [1, (("nccl",), joined)]
    with rank.group("gloo"):
        pass
    assert asked[2:] == [(("gloo",), joined)]

    def fails(*_, **__):
        raise dist.DistNetworkError("no route")

    monkeypatch.setattr(dist, "init_process_group", fails)
    with pytest.raises(ProcessError, match=r"rank 3 could not join the other 7 \(no route\)"), rank.group("gloo"):
        pytest.fail("joined")


def test_below_an_agent_a_rank_0_that_does_not_come_is_an_error(monkeypatch):
    agent, old = agent_with_old_address(monkeypatch)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", str(agent.port))
    began = time.monotonic()
    told = rf"rank 3 could not meet the other 7 at localhost:{agent.port} within 1 seconds.*not at port {old}"
    with pytest.raises(ProcessError, match=told):
        _ = Rank.of_process(1.0).store
    assert time.monotonic() - began >= 1.0


def test_ports_that_somebody_listens_at():
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
        assert _listens("localhost", port) is True
    assert _listens("localhost", port) is False


@pytest.mark.parametrize(
    ("rank", "error", "sleeps"),
    [
        (Rank(0, 1), KeyError("x"), []),
        (Rank(0, 2), DataError("x"), []),
        (Rank(0, 2), KeyError("x"), [launcher.GRACE]),
        (Rank(1, 2), DataError("x"), [launcher.GRACE]),
    ],
)
def test_the_rank_to_blame_speaks_first(monkeypatch, tmp_path, rank, error, sleeps):
    file, slept = tmp_path / "error.json", []
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    monkeypatch.setattr(launcher.time, "sleep", slept.append)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(type(error)), rank.at_work():
        inside = signal.getsignal(signal.SIGINT)
        raise error
    assert inside == (signal.SIG_DFL if rank.world_size > 1 else handler) and signal.getsignal(signal.SIGINT) == handler
    assert slept == sleeps and type(error).__name__ in json.loads(file.read_text())["message"]["message"]


def test_only_the_main_thread_hears_signals_and_a_launched_rank_ends_with_its_agent(monkeypatch):
    watched = []
    monkeypatch.setattr(launcher, "end_with_parent", lambda: watched.append(threading.current_thread().daemon))

    def work():
        with Rank(0, 2, launch="job").at_work():
            pass

    thread = threading.Thread(target=work)  # in which signal.signal would be an error
    thread.start()
    thread.join()
    wait_until(lambda: watched)
    with Rank(0, 1).at_work():
        pass
    assert watched == [True]
    with Rank(0, 1, launch="job").at_work():
        pass
    wait_until(lambda: len(watched) == 2)
    assert watched == [True, True]


@pytest.mark.parametrize("by_multiprocessing", [False, True])
def test_a_process_ends_when_its_parent_is_no_more(monkeypatch, by_multiprocessing):
    class Ended(Exception):
        pass

    def leave(code):
        raise Ended(code)

    alive, slept = iter([True, True, False]), []
    parent = SimpleNamespace(is_alive=lambda: next(alive)) if by_multiprocessing else None
    parents = iter([7, 7, 7, 1]) if not by_multiprocessing else itertools.repeat(7)
    monkeypatch.setattr(launcher.multiprocessing, "parent_process", lambda: parent)
    monkeypatch.setattr(launcher.os, "getppid", lambda: next(parents))
    monkeypatch.setattr(launcher.os, "_exit", leave)
    monkeypatch.setattr(launcher.time, "sleep", slept.append)
    with pytest.raises(Ended, match="1"):
        launcher.end_with_parent()
    assert slept == [0.5, 0.5]


def test_a_launch_hears_signals_in_this_thread_and_leaves_everything_as_it_was():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    mask, level = signal.pthread_sigmask(signal.SIG_SETMASK, ()), logging.root.manager.disable
    logging.disable(logging.NOTSET)
    threads = set(threading.enumerate())
    try:
        # A shell starts what it leaves in the background with SIGINT ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with _signals_heard() as heard:
            assert heard == ["SIGTERM", "SIGINT"]
            assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
            assert logging.root.manager.disable == logging.CRITICAL
            (watcher,) = set(threading.enumerate()) - threads
            assert watcher.daemon
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as an agent leaves its own handlers
        watcher.join(10)
        assert not watcher.is_alive()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set() and logging.root.manager.disable == logging.NOTSET
        found = []
        thread = threading.Thread(target=lambda: found.append(_signals_heard().__enter__()))
        thread.start()
        thread.join()
        assert found == [[]]
    finally:
        logging.disable(level)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_launch_asks_torchs_agent_for_processes_of_this_machine(monkeypatch):
    asked = []

    def elastic_launch(config, entry):
        asked.append((config, entry))
        return lambda *args: asked.append(args) or {0: pickle.dumps("of rank 0"), 1: pickle.dumps("of rank 1")}

    monkeypatch.setattr(launcher, "elastic_launch", elastic_launch)
    assert launch(3, max, 1, 2, max_restarts=4, threads=5, timeout=6.0) == "of rank 0"
    (config, entry), args = asked
    assert entry is _process and args == (5, 6.0, max, (1, 2))
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node, config.max_restarts) == (1, 1, 3, 4)
    assert (config.rdzv_backend, config.rdzv_endpoint, config.local_addr) == ("c10d", "localhost:0", "localhost")
    assert config.shutdown_timeout == 5 and "SIGTERM" in config.signals_to_handle.split(",")
    assert "ranks-" in config.logs_specs.root_log_dir
    launch(1, max)
    (config, _), args = asked[2:]
    assert config.max_restarts == 0 and args == (None, 1800.0, max, ())


def test_a_failed_rank_is_the_launchs_error(monkeypatch):
    failure = ProcessFailure(1, 77, -9, "/nowhere")

    def fails(*_):
        raise ChildFailedError("work", {1: failure})

    monkeypatch.setattr(launcher, "elastic_launch", lambda *_: fails)
    with pytest.raises(ProcessError, match=r"rank 1 of 3 was ended by SIGKILL .out of memory\?. after 1 restart, and"):
        launch(3, max, max_restarts=1)


def test_how_a_rank_died_is_told():
    def told(exitcode, restarts=0):
        return str(_error(1, 2, ProcessFailure(0, 1, exitcode, "/nowhere"), restarts))

    assert told(-9) == "rank 1 of 2 was ended by SIGKILL (out of memory?), and the others with it."
    assert told(-11) == "rank 1 of 2 was ended by SIGSEGV, and the others with it."
    assert told(3, 2) == "rank 1 of 2 was ended with exit code 3 (see above) after 2 restarts, and the others with it."
    assert "exit code 0 (see above)" in told(0)


def test_a_started_process_works_with_its_threads_or_leaves_word():
    def work(rank, number):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        heard = signal.SIGINT not in blocked and signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        return rank.timeout, number, torch.get_num_threads(), heard

    def fails(rank):
        raise DataError("no data")

    def process(place, folder):
        os.environ.update(RANK="0", WORLD_SIZE="1", TORCHELASTIC_ERROR_FILE=str(folder / "error.json"))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        if place == 2:
            _process(None, 5.0, fails, ())
        return pickle.loads(_process(2 if place else None, 5.0, work, (place,)))

    assert forked(3, process) == [(5.0, 0, 1, True), (5.0, 1, 2, True), 1]
