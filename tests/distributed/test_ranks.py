"""What ranks share, against PyTorch's own samplers and plain arithmetic."""

import shlex
import socket

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure
from torch.utils.data import BatchSampler, RandomSampler

from recbole_adaptau.cli.train import main
from recbole_adaptau.distributed import ranks
from recbole_adaptau.distributed.launcher import ProcessError, Rank, _error
from recbole_adaptau.distributed.ranks import RankSampler
from recbole_adaptau.errors import AdapTauError, DataError, OptionError
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.runs.recorder import restarts


def samplers(world_size, number, step, seed=None, contiguous=False):
    """Each rank's sampler, its generator seeded as every loader's is."""
    made = []
    for rank in range(world_size):
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ranks, "rank", lambda rank=rank: rank)
            patch.setattr(ranks, "world_size", lambda: world_size)
            made.append(RankSampler(number, step, generator, contiguous))
    return made


sizes = {"world_size": st.integers(1, 5), "number": st.integers(5, 200), "step": st.integers(1, 40)}


@settings(max_examples=200, deadline=None)
@given(**sizes, seed=st.integers(0, 99))
def test_the_ranks_batches_together_are_one_process_s(world_size, number, step, seed):
    generator = torch.Generator().manual_seed(seed)
    whole = list(BatchSampler(RandomSampler(range(number), generator=generator), step * world_size, drop_last=False))
    ranks = samplers(world_size, number, step, seed)
    batches = [list(BatchSampler(sampler, step, drop_last=False)) for sampler in ranks]
    for sampler, own in zip(ranks, batches, strict=True):
        assert len(own) == len(whole) == -(-len(sampler) // step)
        assert torch.equal(sampler.generator.get_state(), generator.get_state())
    for number_of_batch, expected in enumerate(whole):
        counted = [
            row
            for sampler, own in zip(ranks, batches, strict=True)
            if sampler.weight(number_of_batch)
            for row in own[number_of_batch]
        ]
        assert sorted(counted) == sorted(expected)


@settings(max_examples=100, deadline=None)
@given(**sizes, seed=st.integers(0, 99))
def test_the_weighted_mean_of_the_ranks_means_is_the_mean_over_all_rows(world_size, number, step, seed):
    values = torch.rand(number, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    ranks = samplers(world_size, number, step, seed)
    drawn = [sampler.draw() for sampler in ranks]
    order = torch.randperm(number, generator=torch.Generator().manual_seed(seed))
    for batch, rows in enumerate(order.split(step * world_size)):
        means = [own.split(step)[batch] for own in drawn]
        mean = sum(s.weight(batch) * values[own].mean() for s, own in zip(ranks, means, strict=True)) / world_size
        assert mean.item() == pytest.approx(values[rows].mean().item(), rel=1e-12)


@given(**sizes)
def test_evaluation_s_parts_follow_one_another(world_size, number, step):
    ranks = samplers(world_size, number, step, contiguous=True)
    assert [row for sampler in ranks for row in sampler] == list(range(number))
    assert all(len(sampler) == len(list(sampler)) > 0 for sampler in ranks)


def test_too_few_rows_are_refused_on_every_rank():
    with pytest.raises(DataError, match="3 processes cannot share 2 rows: give a smaller --nproc"):
        samplers(3, 2, 1)
    with pytest.raises(DataError, match="2 processes cannot share 1 rows"):
        samplers(2, 1, 1)
    assert [len(sampler) for sampler in samplers(3, 0, 1, contiguous=True)] == [0, 0, 0]


def test_a_rank_without_rows_computes_no_loss():
    *_, last = samplers(2, 9, 2, seed=1)  # batches of 4, 4 and 1: rank 1 has 2, 2 and 0 rows
    model = torch.nn.Linear(1, 1)
    loss = ranks.weighted_loss(lambda _: (model.weight.sum(), model.bias.sum()), last, model)
    assert loss(None) == (model.weight.sum(), model.bias.sum())
    loss(None)
    assert [part.item() for part in loss(None)] == [0.0, 0.0]


def test_a_zero_in_which_every_parameter_has_a_part_keeps_sparse_gradients_sparse():
    model = torch.nn.ModuleDict({"table": torch.nn.Embedding(5, 2, sparse=True), "layer": torch.nn.Linear(2, 1)})
    ranks.zero_of_all(model).backward()
    assert model["table"].weight.grad.is_sparse and model["table"].weight.grad.coalesce().indices().tolist() == [[0]]
    assert all(p.grad is not None and not p.grad.to_dense().any() for p in model.parameters())


def test_without_a_group_there_is_one_rank_that_keeps_what_it_has(tmp_path):
    tensor = torch.arange(3)
    ranks.share([tensor])
    assert ranks.is_first() and ranks.world_size() == 1
    assert [part.tolist() for part in ranks.gathered(tensor, tensor.device)] == [[0, 1, 2]]
    assert ranks.averaged((1.0, 2.0), tensor.device) == (1.0, 2.0)
    with ranks.file_of_first(tmp_path / "x", tensor.device) as path:
        assert path == tmp_path / "x"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nproc=0"], "--nproc=0 --max-restarts=0: at least one process"),
        (["--nproc=2", "--max-restarts=-1"], "--nproc=2 --max-restarts=-1: at least one process, and at least no"),
        (["--nproc=2", "--rank_timeout=0"], "--rank_timeout=0: must be a number of seconds above 0"),
        (["--nproc=2", "-m", "Pop"], "Pop learns by no gradient that processes could share"),
        (["--nproc=2", "--save_dataloaders=True"], "saved loaders are of one process"),
        (["--nproc=2", "--negatives=in_batch", "--train_batch_size=3"], "leaves each of 2 processes 1 rows"),
        (["--nproc=2", "--tau_strategy=adaptiv"], "Did you mean 'adaptive'?"),
    ],
)
def test_impossible_requests_are_refused_before_any_process_starts(capsys, monkeypatch, words, message):
    monkeypatch.setattr("recbole_adaptau.runs.quick_start.launch", lambda *args, **kwargs: pytest.fail("started"))
    assert main(words) == 2
    assert message in capsys.readouterr().err


VARIABLES = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({"MASTER_ADDR": None, "MASTER_PORT": None}, [], "MASTER_ADDR, MASTER_PORT is missing: start it with torchrun"),
        ({"RANK": None}, [], "WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT in the environment"),
        ({"RANK": "2"}, [], "RANK=2 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1: there is no such rank"),
        ({"WORLD_SIZE": "two"}, [], "is not a number"),
        ({}, ["-m", "Pop"], "Pop learns by no gradient"),
        ({}, ["--tau_strategy=adaptiv"], "Did you mean 'adaptive'?"),
        ({}, ["--nproc=2"], "torchrun has started this process already; leave both out"),
    ],
)
def test_a_group_that_cannot_be_is_refused_in_one_sentence(capsys, monkeypatch, changes, words, message):
    for name, value in (VARIABLES | changes).items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_variables_of_one_process_ask_for_no_meeting_place(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    rank = Rank.of_process()
    assert rank == Rank(0, 1) and rank.text_of_first("key", "text") == "text"


def test_a_rank_that_nobody_joins_says_where_it_waited(monkeypatch):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    for name, value in (VARIABLES | {"MASTER_PORT": str(port)}).items():
        monkeypatch.setenv(name, value)
    told = rf"rank 0 could not meet the other 1 at localhost:{port} within 1 seconds.* 1/2 clients joined"
    with pytest.raises(ProcessError, match=told):
        Rank.of_process(timeout=1.0).text_of_first("key", "text")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            "-m AdapTauMF --nproc=4 --world_size=8 --ip=node1 --port=5678 --group_offset=4 --epochs=3",
            "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=node1:5678 --rdzv-id=RUN "
            "-m recbole_adaptau train -m AdapTauMF --epochs=3",
        ),
        (
            "--world_size 2 -m BPR",
            "torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-endpoint=HOST:29500 --rdzv-id=RUN "
            "-m recbole_adaptau train -m BPR",
        ),
    ],
)
def test_recbole_s_options_for_several_machines_end_with_torchrun_s_line(capsys, words, line):
    assert main(shlex.split(words)) == 2
    told = capsys.readouterr().err
    assert "is torchrun's business. On each machine: " + line + "\n" in told


def test_a_gpu_for_each_process_or_a_clear_error(monkeypatch):
    config = {"device": torch.device("cuda"), "gpu_id": "0", "MODEL_TYPE": None, "train_batch_size": 64}
    config |= dict.fromkeys(("negatives", "save_dataloaders", "dataloaders_save_path"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert Rank(0, 2, 0, 2).check(config) == "nccl"
    with pytest.raises(OptionError, match="3 processes on this machine need as many GPUs, but gpu_id = 0 makes 2"):
        Rank(0, 3, 0, 3).check(config)
    assert Rank(0, 3, 0, 3).check({**config, "device": torch.device("cpu")}) == "gloo"


def test_what_failed_is_told_in_words(tmp_path, monkeypatch):
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))

    def failure(exitcode, error=None):
        file.unlink(missing_ok=True)
        if error is not None:
            with pytest.raises(type(error)), Rank(0, 1).at_work():
                raise error
        return ProcessFailure(0, 1, exitcode, str(file))

    killed = "rank 1 of 2 was ended by SIGKILL (out of memory?)"
    assert str(_error(1, 2, failure(-9), 0)) == f"{killed}, and the others with it."
    assert str(_error(1, 2, failure(-9), 2)) == f"{killed} after 2 restarts, and the others with it."
    assert "exit code 3" in str(_error(0, 2, failure(3), 0))
    error = _error(0, 2, failure(1, DataError("as it was: here")), 0)
    assert type(error) is DataError and str(error) == "as it was: here"
    error = _error(1, 2, failure(1, KeyError("x")), 1)
    assert not isinstance(error, AdapTauError)
    told, trace, *_, last = str(error).splitlines()
    assert told == "rank 1 of 2 failed after 1 restart, and the others were ended:"
    assert trace.startswith("Traceback") and last == "KeyError: 'x'"


def test_restarts_are_counted_over_all_launches(tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    assert restarts(run.read_launches()) == 0
    for launch in ("a", "a", "a", "b"):
        run.add_launch(launch)
    assert restarts(run.read_launches()) == 2
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "3")  # three starts died before they met
    assert restarts(run.read_launches()) == 5
