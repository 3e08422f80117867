"""Two processes really run: they compute what one process computes, and end together."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

import recbole_adaptau
from recbole_adaptau.distributed import ranks
from recbole_adaptau.distributed.launcher import ProcessError, launch
from recbole_adaptau.errors import DataError, OptionError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.training import checkpoint
from tests.conftest import checkerboard, write_inter
from tests.helpers import build, trainer_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.e2e

METRICS = ["Recall", "NDCG", "GAUC", "GiniIndex", "ItemCoverage", "AveragePopularity"]
UNDRAWN = {"negatives": "full"}
# 481 rows: in batches of 64 the last has 33, 17 for one rank and 16 for the other; in batches of 32 it has 1 and 0.
VARIANTS = {
    "mf": ("AdapTauMF", {**UNDRAWN, "record_groups": True}),
    "one row left": ("AdapTauMF", {**UNDRAWN, "train_batch_size": 32, "learner": "adam"}),
    "lightgcn with l2": ("AdapTauLightGCN", {**UNDRAWN, "reg_weight": 1e-3}),
    "learned_user": ("AdapTauMF", {**UNDRAWN, "tau_strategy": "learned_user"}),
    "row-wise, one row left": ("AdapTauMF", {**UNDRAWN, "learner": "row_adam", "train_batch_size": 32}),
}
# These draw negatives, each rank its own.
DRAWING = {
    "shared": ("AdapTauMF", {"num_negatives": 20}),
    "in_batch": ("AdapTauMF", {"negatives": "in_batch", "train_batch_size": 32, "positive_in_denominator": False}),
    "per_row": (
        "AdapTauMF",
        {"negatives": "per_row", "train_neg_sample_args": {"distribution": "uniform", "sample_num": 3}},
    ),
    "calibrated_user": ("AdapTauMF", {**UNDRAWN, "tau_strategy": "calibrated_user", "held_out_share": 0.2}),
    "recbole's BPR": ("BPR", {}),
    "recbole's LightGCN": ("LightGCN", {}),
}


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """The checkerboard with a row more to learn and a user fewer to validate, so that nothing is even."""
    folder = tmp_path_factory.mktemp("uneven")
    train, valid, test = checkerboard()
    for part, pairs in (("train", [*train, ("u0", "i1")]), ("valid", valid[:-1]), ("test", test)):
        write_inter(folder, "board", pairs, part)
    return {
        "data_path": str(folder),
        "checkpoint_dir": str(folder / "saved"),
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "show_progress": False,
        "state": "ERROR",
        "topk": [2, 5],
        "metrics": METRICS,
        "valid_metric": "NDCG@5",
        "embedding_size": 8,
        "train_batch_size": 64,
        "learning_rate": 0.01,
        "epochs": 3,
        "run_root": None,
    }


def trained(model, settings):
    """What training and validation came to, and the parameters, as plain data."""
    built = build(model, settings)
    trainer = trainer_of(built)
    score, _ = trainer.fit(built.train, built.valid, saved=False, show_progress=False)
    return {
        "state": {name: value.clone() for name, value in built.model.state_dict().items()},
        "losses": [trainer.train_loss_dict[epoch] for epoch in range(3)],
        "score": float(score),
        "valid": dict(trainer.evaluate(built.valid, load_best_model=False)),
        "draw": torch.rand(1).item(),
        "groups": (trainer._record or {}).get("groups"),
    }


def train_all(rank, settings):
    """On every rank, all variants one after another; rank 0 returns what all ranks have."""
    group = {"local_rank": rank.local_rank, "nproc": 2, "world_size": 2}
    with rank.group("gloo"):
        done = {name: trained(model, {**settings, **s, **group}) for name, (model, s) in (VARIANTS | DRAWING).items()}
        return ranks.gathered_states(done, torch.device("cpu"))


@pytest.fixture(scope="module")
def both(uneven):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["test"])
        return launch(2, train_all, uneven, threads=1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_ranks_with_half_the_batch_are_one_process(uneven, both, variant):
    model, changes = VARIANTS[variant]
    one, two = trained(model, {**uneven, **changes}), both[0][variant]
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-4)
    for name, value in one["state"].items():
        torch.testing.assert_close(two["state"][name], value, rtol=2e-3, atol=2e-4, msg=f"{variant}: {name}")
    assert two["valid"] == pytest.approx(one["valid"], abs=0.03)
    if variant == "mf":
        assert sum(two["groups"]["recall"]) == pytest.approx(two["valid"]["recall@5"], abs=1e-4)
        assert two["groups"]["positive_score"] == pytest.approx(one["groups"]["positive_score"], rel=1e-2)


@pytest.mark.parametrize("variant", [*VARIANTS, *DRAWING])
def test_ranks_agree_to_the_bit(both, variant):
    first, second = both[0][variant], both[1][variant]
    for name, value in first["state"].items():
        assert torch.equal(value, second["state"][name]), name
    assert first["valid"] == second["valid"] and first["losses"] == second["losses"]
    if variant in DRAWING:
        assert first["draw"] != second["draw"]  # each has random numbers of its own


@pytest.mark.parametrize("variant", ["mf", "lightgcn with l2", "recbole's LightGCN"])
def test_metrics_are_over_all_users_as_one_process_has_them(uneven, both, variant):
    model, changes = (VARIANTS | DRAWING)[variant]
    built = build(model, {**uneven, **changes})
    built.model.load_state_dict(both[0][variant]["state"])
    trainer = trainer_of(built)
    trainer.eval_collector.data_collect(built.train)
    assert both[0][variant]["valid"] == dict(trainer.evaluate(built.valid, load_best_model=False))


def fail(rank, how):
    with rank.group("gloo"):
        if rank.rank == 1:
            if how == "death":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "hang":
                time.sleep(600)
            if how == "data":
                raise DataError("nothing to learn from")
        dist.barrier()


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("death", ProcessError, r"rank 1 of 2 was ended by SIGKILL .* and the others with it"),
        ("data", DataError, "^nothing to learn from$"),
        ("hang", RuntimeError, r"rank 0 of 2 failed(.|\n)*barrier(.|\n)*[Tt]imed out"),
    ],
)
def test_one_rank_s_end_is_the_others_end(how, kind, message):
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(kind, match=message):
        launch(2, fail, how, timeout=10 if how == "hang" else 600)
    assert {child.pid for child in psutil.Process().children()} - before <= {tracker()}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def tracker():
    """Python's own helper of spawned processes, which stays."""
    from multiprocessing import resource_tracker

    return resource_tracker._resource_tracker._pid


def words_of(settings, *torchrun):
    """A command's words for settings, below torchrun where there are options for it."""
    words = [f"--{key}={value}" for key, value in settings.items() if key not in ("run_root", "checkpoint_dir")]
    start = ["-m", "torch.distributed.run", *torchrun] if torchrun else []
    return [sys.executable, *start, str(ROOT / "run_recbole_adaptau.py"), "-m=AdapTauMF", "-d=board", *words]


def started(settings, folder, epochs):
    """The command with two processes, after some epochs; and the processes it started."""
    process = subprocess.Popen(
        words_of({**settings, "run_folder": folder, "nproc": 2}),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in a shell's background job
    )
    deadline = time.monotonic() + 120
    while len(RunFolder(folder).read_epochs()) < epochs and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    ranks = [child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())]
    assert len(ranks) == 2
    return process, ranks


@pytest.fixture
def long(uneven):
    changes = {"epochs": 500, "stopping_step": 900, "num_negatives": 20, "lr_schedule": "constant", "state": "INFO"}
    return {**uneven, **changes}


def test_a_killed_rank_ends_the_run_and_resuming_gives_the_bits_of_two_machines_that_never_stopped(long):
    process, ranks = started(long, "killed", 2)
    ranks[1].kill()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2 and "Traceback" not in error
    assert "was ended by SIGKILL (out of memory?), and the others with it. Every finished epoch is saved. " in error
    assert error.splitlines()[-1].endswith("ontinue with: recbole-adaptau train --resume=killed")
    psutil.wait_procs(ranks, timeout=10)
    assert not any(rank.is_running() for rank in ranks)

    killed = RunFolder("killed")
    epochs = len(killed.read_epochs()) + 2
    killed.config.write_text(killed.config.read_text().replace("epochs: 500", f"epochs: {epochs}"))
    resumed = recbole_adaptau.resume("killed")
    assert [record["epoch"] for record in killed.read_epochs()] == list(range(epochs))

    # Two machines with a process each, as far as the processes can tell; torchrun names the folder of neither.
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    machine = ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}")
    words = words_of({**long, "epochs": epochs}, *machine, "--rdzv-id=test", "--max-restarts=1")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    machines = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(2)]
    told = [process.communicate(timeout=120)[0] for process in machines]
    assert [process.returncode for process in machines] == [0, 0]
    assert sorted(text.count("run folder: runs/board/AdapTauMF/") for text in told) == [0, 1]

    (folder,) = Path("runs/board/AdapTauMF").iterdir()
    whole = RunFolder(folder)
    assert whole.read_result()["restarts"] == 0 and len(whole.read_launches()) == 1
    assert resumed["test_result"] == whole.read_result()["test_result"]
    one, two = checkpoint.load(whole.last), checkpoint.load(killed.last)
    for name, value in one["state_dict"].items():
        assert torch.equal(value, two["state_dict"][name]), name
    for mine, other in zip(one["random_of_other_ranks"], two["random_of_other_ranks"], strict=True):
        assert torch.equal(mine["torch"], other["torch"])
    # Only rank 0 writes.
    log = (whole.path / "run.log").read_text()
    assert log.count("epoch 1 training") == 1 and len(list((whole.path / "tensorboard").glob("events.*"))) == 1
    config, model, *_ = recbole_adaptau.load_data_and_model(folder)
    assert config["single_spec"] and torch.equal(
        model.strategy.tau_u, checkpoint.load(whole.best)["state_dict"]["strategy.tau_u"]
    )
    with pytest.raises(OptionError, match="had 2 processes on several machines: start the same torchrun command"):
        whole.result.unlink()
        recbole_adaptau.resume(folder)


def test_below_torchrun_a_killed_rank_of_recbole_s_own_model_goes_on_by_itself(long):
    options = ("--standalone", "--nproc-per-node=2", "--max-restarts=1")
    words = words_of({**long, "model": "BPR", "epochs": 40, "state": "ERROR"}, *options)
    words = [word for word in words if word != "-m=AdapTauMF" and "lr_schedule" not in word and "num_neg" not in word]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(Path("runs").glob("board/BPR/*/last.pth")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    psutil.Process(process.pid).children()[1].kill()
    told, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    (folder,) = Path("runs/board/BPR").iterdir()
    run = RunFolder(folder)
    assert run.read_result()["restarts"] == 1 and f"run folder: {folder}" in told
    assert [record["epoch"] for record in run.read_epochs()] == list(range(run.read_result()["epochs"]))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ending_the_command_ends_all_ranks(long, number):
    process, ranks = started(long, "stopped", 2)
    process.send_signal(number)
    _, error = process.communicate(timeout=60)
    psutil.wait_procs(ranks, timeout=30)
    assert not any(rank.is_running() for rank in ranks)
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number and "Traceback" not in error
        assert "Continue with: recbole-adaptau train --resume=stopped" in error
