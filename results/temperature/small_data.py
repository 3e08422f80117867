"""Small datasets, sparse and dense, cut out of larger ones: `python results/temperature/small_data.py SOURCE OUTPUT`.

SOURCE holds ml-1m, electronic and gowalla in LightGCN's text format; OUTPUT gets a CSV of each for `data import`.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd


def interactions(folder: Path) -> pd.DataFrame:
    lines = [line.split() for file in ("train.txt", "test.txt") for line in (folder / file).read_text().splitlines()]
    rows = [(int(user), int(item)) for user, *items in lines for item in items]
    return pd.DataFrame(rows, columns=["user", "item"]).drop_duplicates()


def core(data: pd.DataFrame, of_user: int, of_item: int) -> pd.DataFrame:
    """What is left when users and items with fewer interactions have gone."""
    while True:
        enough = data.groupby("user").item.transform("size") >= of_user
        enough &= data.groupby("item").user.transform("size") >= of_item
        if enough.all():
            return data
        data = data[enough]


def main(source: Path, output: Path) -> None:
    rng = np.random.default_rng(7)

    def some_users(data: pd.DataFrame, number: int) -> pd.DataFrame:
        return data[data.user.isin(rng.choice(data.user.unique(), number, replace=False))]

    films = interactions(source / "ml-1m")
    twelve = films.groupby("user").sample(n=12, replace=True, random_state=1).drop_duplicates()
    shopped = interactions(source / "electronic").groupby("user").sample(n=10, replace=True, random_state=2)
    found = {
        "ml-thin": core(twelve, 5, 2),
        "ml-dense": core(some_users(films, 1500), 100, 20),
        "electronic-small": core(some_users(interactions(source / "electronic"), 6000), 5, 3),
        "electronic-thin": core(shopped.drop_duplicates(), 5, 3),
        "gowalla-small": core(some_users(interactions(source / "gowalla"), 5000), 10, 5),
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, data in found.items():
        data.sample(frac=1, random_state=3).to_csv(output / f"{name}.csv", index=False)
        print(f"{name}: {data.user.nunique()} users, {data.item.nunique()} items, {len(data)} interactions")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
