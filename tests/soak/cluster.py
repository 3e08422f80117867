"""A leaderboard over a Ray cluster of two raylets on this machine; one is killed half-way."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from recbole_adaptau.runs.folder import RunFolder
from tests.conftest import board_settings

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("AdapTauMF", "AdapTauLightGCN", "ItemKNN", "Pop")


def soak(root: Path) -> tuple[str, bool]:
    """Returns a table, and whether all runs are there."""
    from ray.cluster_utils import Cluster

    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    os.environ["PYTHONPATH"] = str(ROOT)  # the raylets' workers are this checkout's
    options = {"include_dashboard": False, "object_store_memory": 100_000_000}
    options["_system_config"] = {"worker_niceness": 0, "agent_register_timeout_ms": 300_000}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **options})
    # By another address: a driver attaches itself to a raylet of its own address, and dies with that.
    other = cluster.add_node(num_cpus=2, object_store_memory=100_000_000, node_ip_address="127.0.0.1")
    out, log = root / "board", root / "cluster.out"
    settings = {**board_settings(root), "epochs": 150, "stopping_step": 150, "state": "INFO"}
    data, *_ = (settings.pop(key) for key in ("data_path", "topk", "valid_metric"))
    words = [
        sys.executable, "-m", "recbole_adaptau", "compare", "--dataset=board", f"--data-path={data}", "--models",
        *MODELS, "--seeds", "1", "--parallel", "3", "--ray-address", cluster.address, "--output", str(out),
        *(f"--{key}={value}" for key, value in settings.items()),
    ]  # fmt: skip
    try:
        with log.open("w") as file:
            process = subprocess.Popen(words, stdout=file, stderr=file, env=environment, cwd=root)
        killed: list[str] = []
        while process.poll() is None and not killed:
            under_way = [path for path in out.glob("runs/*/epochs.jsonl") if not RunFolder(path.parent).is_complete]
            if sum(path.read_bytes().count(b"\n") > 3 for path in under_way) >= 2:
                killed = [path.parent.name for path in under_way]
                raylet = psutil.Process(other.all_processes["raylet"][0].process.pid)
                for lost in [raylet, *raylet.children(recursive=True)]:  # as a machine's end takes all
                    lost.kill()
            time.sleep(0.2)
        code = process.wait(1500)
    finally:
        process.kill()
        cluster.shutdown()
    if not (out / "leaderboard.json").is_file():
        return f"exit code {code}: {log.read_text()[-1000:]}", False
    rows = json.loads((out / "leaderboard.json").read_text())["rows"]
    folders = [RunFolder(path) for path in sorted((out / "runs").iterdir())]
    logs = {run.path.name: run.path / "run.log" for run in folders}
    resumed = [name for name, log in logs.items() if log.is_file() and "Resuming from epoch" in log.read_text()]
    complete = [run for run in folders if run.is_complete]
    errors = [f"{run.path.name}: {run.read_error()}" for run in folders if run.error.is_file()]
    errors += [log.read_text()[-1000:]] if code else []
    told = (
        f"exit code {code}; {len(rows)} rows, {len(complete)} complete runs; under way when the raylet was killed: "
        f"{', '.join(killed) or 'none'}; resumed from their folders: {', '.join(resumed) or 'none'}. "
        + "; ".join(errors)
    )
    whole = code == 0 and len(rows) == len(MODELS) == len({row["method"] for row in rows})
    return told, whole and bool(killed) and bool(resumed)
