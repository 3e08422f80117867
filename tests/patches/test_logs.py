"""Each run in a process has its log, in its own folder when it has one."""

import logging
from pathlib import Path

import pytest
from recbole.config import Config
from recbole.trainer import trainer
from recbole.utils import get_tensorboard, init_logger

from recbole_adaptau.patches import logs


def take_down(handlers):
    for handler in handlers:
        logging.getLogger().removeHandler(handler)
        handler.close()
    logs._installed.clear()


@pytest.fixture(autouse=True)
def root_as_found():
    """No run before this one has left a log; afterwards the root logger gets its level and handlers back."""
    take_down(list(logs._installed))
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    take_down([handler for handler in root.handlers if handler not in handlers])
    root.setLevel(level)


def config(**given) -> Config:
    return Config(model="BPR", dataset="ml-100k", config_dict=given)


def test_the_second_run_has_a_log_of_its_own():
    texts = []
    for number in (1, 2):
        folder = f"run{number}"
        init_logger(config(run_folder=folder))
        logging.getLogger().info(f"said in run {number}")
        texts.append(folder)
    assert "said in run 1" in Path("run1/run.log").read_text() and "said in run 2" in Path("run2/run.log").read_text()
    assert "said in run 2" not in Path("run1/run.log").read_text()
    assert not Path("log").exists()


def test_without_a_run_folder_the_log_is_where_recbole_puts_it():
    init_logger(config())
    logging.getLogger().info("\033[1;32mcoloured\033[0m")
    files = list(Path("log/BPR").glob("BPR-ml-100k-*.log"))
    assert len(files) == 1
    text = files[0].read_text()
    assert "INFO  coloured" in text and "\033" not in text


def test_other_peoples_handlers_stay(tmp_path):
    root = logging.getLogger()
    mine = logging.FileHandler(tmp_path / "mine.log")
    root.addHandler(mine)
    before = [handler for handler in root.handlers if handler not in logs._installed]
    for number in (1, 2, 3):
        init_logger(config(run_folder=f"run{number}"))
    after = [handler for handler in root.handlers if handler not in logs._installed]
    assert after == before and mine in after
    assert len(root.handlers) == len(before) + 2
    logging.getLogger().info("still here")
    assert "still here" in (tmp_path / "mine.log").read_text()


def test_the_previous_runs_file_is_closed():
    init_logger(config(run_folder="run1"))
    files = [handler for handler in logging.getLogger().handlers if hasattr(handler, "run_folder")]
    assert [handler.run_folder for handler in files] == ["run1"]
    init_logger(config(run_folder="run2"))
    # FileHandler.close sets its stream to None.
    assert files[0].stream is None


def test_handlers_that_another_removed_are_closed_too():
    """RecBole's objective_function takes all handlers off the root without closing them."""
    root = logging.getLogger()
    before = list(root.handlers)
    init_logger(config(run_folder="run1"))
    file = next(handler for handler in root.handlers if hasattr(handler, "run_folder"))
    for handler in list(root.handlers):
        root.removeHandler(handler)
    init_logger(config(run_folder="run2"))
    assert file.stream is None
    for handler in before:
        root.addHandler(handler)


@pytest.mark.parametrize(("state", "level"), [("debug", 10), ("INFO", 20), ("warning", 30), ("ERROR", 40), ("odd", 20)])
def test_the_level_follows_state(state, level):
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    init_logger(config(state=state, run_folder="run"))
    file = next(handler for handler in root.handlers if hasattr(handler, "run_folder"))
    assert file.level == level
    assert root.level == min(level, logging.WARNING), "never raised: others log through it too"


def test_tensorboard_goes_to_the_run_folder():
    init_logger(config(run_folder="run1"))
    # The trainer's module imported the name for itself.
    writer = trainer.get_tensorboard(logging.getLogger())
    assert Path(writer.log_dir) == Path("run1/tensorboard").absolute(), "also once the program has changed its folder"
    writer.close()
    assert not Path("log_tensorboard").exists()


def test_tensorboard_without_a_run_folder_stays_where_recbole_puts_it():
    init_logger(config())
    writer = get_tensorboard(logging.getLogger())
    assert Path(writer.log_dir).parent == Path("log_tensorboard")
    writer.close()
