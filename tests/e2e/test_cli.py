"""The command as people type it."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recbole_adaptau.cli import train as cli
from recbole_adaptau.cli.train import main
from recbole_adaptau.runs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "run_recbole_adaptau.py")
pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-m", "AdapTauMF", "--tau_strategy=adaptiv"], "Did you mean 'adaptive'?"),
        (["-m", "AdaptauMF"], "Did you mean 'AdapTauMF'?"),
        (["-d", "nowhere"], "nowhere"),
        (["--config_files=missing.yaml"], "there is no file"),
        (["--resume=nothing"], "nothing is not a run folder"),
        (["--resume=nothing", "--epochs=3"], "--resume takes the settings of its run; remove epochs"),
        (["--protocol=paper"], "needs data with a given split"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, words, message):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.splitlines()[-1].startswith("error: ") and "Traceback" not in error
    assert not list(Path().glob("runs/*/*/*/result.json"))


def test_help_explains_the_options(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0
    for phrase in (
        "--tau_strategy=adaptive_user",
        "--n_layers=",
        "Lower bound of every temperature",
        "--resume",
    ):
        assert phrase in text


def test_the_command_prints_what_came_out(capsys):
    Path("a.yaml").write_text("epochs: 1\nshow_progress: False\n")
    Path("b.yaml").write_text("embedding_size: 8\n")
    assert main(["--model=AdapTauMF", "--config_files", "a.yaml b.yaml", "--seed=7"]) == 0
    out = capsys.readouterr().out
    folder = re.search(r"^run folder: (.+)$", out, re.M).group(1)
    assert RunFolder(folder).settings()["embedding_size"] == 8
    assert re.search(r"^test: recall@10 0\.\d{4} ", out, re.M)
    assert re.search(r"^tau_0: 0\.\d{4}   tau_u: min .* median .* max ", out, re.M)
    assert "AdapTauMF on ml-100k, seed 7" in out
    assert cli.summary(RunFolder(folder)) in out


def test_ctrl_c_says_how_to_go_on_and_going_on_works(tmp_path):
    words = [
        sys.executable,
        SCRIPT,
        "--model=AdapTauMF",
        "--epochs=200",
        "--stopping_step=500",
        "--run_folder=run",
    ]
    process = subprocess.Popen(
        [*words, "--embedding_size=8", "--num_negatives=16"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in a shell's background job
    )
    run = RunFolder(tmp_path / "run")
    deadline = time.monotonic() + 120
    while len(run.read_epochs()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error
    assert "Continue with: recbole-adaptau train --resume=run" in error
    done = len(run.read_epochs())
    assert run.last.is_file() and not run.is_complete and done >= 2
    # Go on, but not for two hundred epochs.
    settings = run.config.read_text().replace("epochs: 200", f"epochs: {done + 2}")
    run.config.write_text(settings)
    again = subprocess.run([sys.executable, SCRIPT, "--resume=run"], capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr[-2000:]
    assert f"Resuming from epoch {done} " in again.stderr and "test: recall@10" in again.stdout
    assert [record["epoch"] for record in run.read_epochs()] == list(range(done + 2))
