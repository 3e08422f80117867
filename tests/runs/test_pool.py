"""Runs in processes of their own, and on machines that share no storage."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from recbole_adaptau.config.yaml_files import PROPERTIES
from recbole_adaptau.errors import AdapTauError, DataError, OptionError
from recbole_adaptau.runs import pool, runner
from recbole_adaptau.runs.pool import Sent, Workers, each_done, read_files, write_files
from recbole_adaptau.runs.runner import Spec, folder_of
from recbole_adaptau.training.checkpoint import quoted


@dataclass(frozen=True)
class Job:
    name: str


def do(job, sent):
    if job.name == "wrong":
        raise DataError("nothing to learn from")
    if job.name == "dead":
        os._exit(7)
    Path(job.name).write_text(str(os.getpid()))


def test_one_at_a_time_each_has_a_process_of_its_own():
    begun = []
    jobs = [Job("wrong"), Job("dead"), Job("done")]
    ended = list(each_done(jobs, do, Workers(1), begun.append, Path(), {}))
    assert begun == jobs == [job for job, *_ in ended]
    wrong, dead, done = (error for *_, error in ended)
    assert type(wrong) is DataError and str(wrong) == "nothing to learn from"
    assert "in do" in str(wrong.__cause__), "it tells where in the other process"
    assert type(dead) is AdapTauError and "ended by itself (exit code 7)" in str(dead)
    assert done is None and Path("done").read_text() != str(os.getpid())


def test_workers_that_cannot_be():
    assert Workers.checked(2, "auto") == Workers(2, "auto")
    with pytest.raises(OptionError, match="--parallel -1: must be a number of processes"):
        Workers.checked(-1)
    with pytest.raises(OptionError, match="--ray-address auto needs --parallel N"):
        Workers.checked(0, "auto")


def test_the_cores_of_a_run_are_on_one_machine():
    nodes = [{"Alive": alive, "Resources": {"CPU": cpus}} for alive, cpus in ((True, 8.0), (True, 4.0), (False, 64.0))]
    assert [pool._threads(nodes, number) for number in (1, 3, 12, 50)] == [4, 4, 1, 1]


def test_the_package_sent_to_a_cluster_brings_its_properties(tmp_path):
    package = pool.package_in(tmp_path)
    code = "from recbole_adaptau.config.yaml_files import PROPERTIES; print(PROPERTIES)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert Path(told.strip()) == package / "properties"
    assert read_files(package / "properties") == read_files(PROPERTIES)


def test_folders_are_sent_whole(tmp_path):
    (tmp_path / "from" / "deep").mkdir(parents=True)
    (tmp_path / "from" / "deep" / "file").write_bytes(b"\0\1")
    write_files(read_files(tmp_path / "from"), tmp_path / "to")
    assert (tmp_path / "to" / "deep" / "file").read_bytes() == b"\0\1"


class Elsewhere(Sent):
    """A machine that has neither our data nor our study's folder; what Ray would bring is at hand."""

    def unpack(self, name, folder):
        write_files(self.folders[name][0], folder)


@pytest.mark.e2e
def test_without_shared_storage_a_run_comes_back_as_if_made_here(board, tmp_path):
    data = Path(board.pop("data_path"))
    given = quoted({**board, "topk": [5, 20], "valid_metric": "NDCG@20", "epochs": 1, "data_path": str(data)})
    spec = Spec("one", "AdapTauMF", "board", {"seed": 1}, given)
    root = tmp_path / "study"
    sent = Elsewhere(tmp_path / "no mark", {"board": [read_files(data / "board")]})
    files = runner._make(spec, sent, root)
    assert not root.exists()
    write_files(files, folder_of(spec, root).path)
    runner.check([spec], root)  # the settings are those of a run made here
    (record,) = runner.records([spec], root)
    assert record["test_result"]
    runner._make(Spec("two", "AdapTauMF", "board", {"seed": 1}, given), None, root)
    assert (
        runner.folder_of(spec, root).read_result()["test_result"]
        == (folder_of(Spec("two", "AdapTauMF", "board", {}, given), root).read_result()["test_result"])
    )
