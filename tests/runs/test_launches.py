"""Which folder a launch writes to, and when it goes on with a run."""

import pytest
from recbole.config import Config

from recbole_adaptau.distributed.launcher import Rank
from recbole_adaptau.errors import DataError
from recbole_adaptau.runs.quick_start import _folder_of_launch


def config(**settings):
    return Config("AdapTauMF", "ml-100k", config_dict={"record_run": True, **settings})


def folder(rank, **settings):
    run, goes_on = _folder_of_launch(rank, config(**settings))
    return run, goes_on


@pytest.fixture(autouse=True)
def master(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["test"])
    monkeypatch.setenv("MASTER_ADDR", "here")
    monkeypatch.setenv("MASTER_PORT", "1")


def test_a_launch_goes_on_with_its_own_unfinished_run_alone():
    first, goes_on = folder(Rank(0, 2, launch="a"))
    assert not goes_on and first.read_launches()
    again, goes_on = folder(Rank(0, 2, launch="a"))
    assert goes_on and again.path == first.path and len(again.read_launches()) == 2
    for other in (Rank(0, 2, launch="b"), Rank(0, 2)):
        run, goes_on = folder(other)
        assert not goes_on and run.path != first.path
    run, goes_on = folder(Rank(0, 2, launch="a"), learning_rate=0.5)
    assert not goes_on and run.path != first.path, "other settings are another run"


def test_a_complete_run_is_gone_on_with_after_a_restart_alone():
    first, _ = folder(Rank(0, 2, launch="a"))
    first.finish({})
    late, goes_on = folder(Rank(0, 2, launch="a", restarts=1))  # a rank died after rank 0 had written the result
    assert goes_on and late.path == first.path
    assert folder(Rank(0, 2, launch="a"))[0].path != first.path


def test_without_a_name_of_the_launch_only_a_restart_goes_on():
    first, _ = folder(Rank(0, 2, launch="none"))
    run, goes_on = folder(Rank(0, 2, launch="none"))
    assert not goes_on and run.path != first.path
    run, goes_on = folder(Rank(0, 2, launch="none", restarts=1))
    assert goes_on


def test_a_folder_that_was_given_is_begun_gone_on_with_or_refused():
    given = {"run_folder": "'given'"}
    assert folder(Rank(0, 2, launch="a"), **given)[1] is False
    run, goes_on = folder(Rank(0, 2, launch="a"), **given)
    assert goes_on and str(run.path) == "given"
    run.begin(config(**given))
    with pytest.raises(DataError, match="already holds a run"):
        folder(Rank(0, 2, launch="b"), **given)
