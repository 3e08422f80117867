"""A large shop through fit, load and recommending to all: minutes and memory. `python -m tests.soak.scale`."""

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from recbole_adaptau import Recommender
from recbole_adaptau.serving.tables import write_table


def synthetic(users: int, items: int, rows: int, seed: int = 0) -> pd.DataFrame:
    """Different pairs; the items' popularity falls by a power law, the users' activity is log-normal."""
    rng = np.random.default_rng(seed)
    popularity, activity = np.arange(1, items + 1) ** -0.8, rng.lognormal(0, 1, users)
    size = rows + rows // 4
    pairs = rng.choice(users, size, p=activity / activity.sum()) * items
    pairs = np.unique(pairs + rng.choice(items, size, p=popularity / popularity.sum()))
    rng.shuffle(pairs)
    return pd.DataFrame({"user": pairs[:rows] // items, "item": pairs[:rows] % items})


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Print how long something took and how much memory the process had at most."""
    process, done, peak = psutil.Process(), threading.Event(), [0]

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        minutes = (time.perf_counter() - wall) / 60, (time.process_time() - cpu) / 60
        done.set()
        thread.join()
        print(f"{what:<28}{minutes[0]:>8.2f} min{minutes[1]:>8.2f} min of CPU{peak[0] / 2**30:>8.2f} GB", flush=True)


def main() -> None:
    args = _parser().parse_args()
    table = synthetic(args.users, args.items, args.rows)
    found = table["user"].nunique(), table["item"].nunique()
    print(f"{args.model}: {found[0]:,} users, {found[1]:,} items, {len(table):,} interactions", flush=True)
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        split = {"split": {"RS": args.split}, "order": "RO", "group_by": "user", "mode": "full"}
        settings = {"run_folder": f"{folder}/run", "eval_args": split, "show_progress": False, "state": "WARNING"}
        with measured("fit, one epoch"):
            Recommender(args.model, epochs=1, **settings).fit(table)
        with measured("load"):
            recommender = Recommender.load(f"{folder}/run")
        with measured("top 20 of all, to Parquet"):
            rows = write_table(Path(folder) / "top.parquet", recommender.batches(k=20))
        with measured("one user, 100 times"):
            for _ in range(100):
                recommender.recommend(table["user"].iloc[0])
        size = sum(file.stat().st_size for file in Path(folder, "run").rglob("*") if file.is_file())
        print(f"{rows:,} rows; the run folder has {size / 1e6:.0f} MB")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.scale", description=__doc__)
    parser.add_argument("--model", default="AdapTauMF", help="default: %(default)s")
    for name, size in (("users", 100_000), ("items", 50_000), ("rows", 5_000_000)):
        parser.add_argument(f"--{name}", type=int, default=size, help="default: %(default)s")
    parser.add_argument("--split", type=float, nargs=3, default=[1, 0, 0], help="shares; default: all train")
    return parser


if __name__ == "__main__":
    main()
