"""Every command and snippet of docs/guide.md, in order, on a planted shop: what is recommended is known beforehand."""

import os
import re
import runpy
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from recbole_adaptau.cli.main import main

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
COLOURS, PER_COLOUR = 4, 30
ITEMS = ["tea-12", "pot-3", *(f"thing-{k}" for k in range(COLOURS * PER_COLOUR - 2))]
USERS = ["anna", "ben", *(f"person {k}" for k in range(598))]


def colour(item: str) -> int:
    """tea-12 and pot-3 are of one kind: two neighbours share it."""
    return ITEMS.index(item) // 2 % COLOURS


def shop() -> tuple[list[tuple[str, str]], dict[str, set[str]]]:
    """Everybody buys what is of their colour but two, which are then theirs to be recommended."""
    rng = np.random.default_rng(0)
    bought, missing = [], {}
    for number, user in enumerate(USERS):
        own = [item for item in ITEMS if colour(item) == number % COLOURS]
        rng.shuffle(own)
        missing[user] = set(own[:2])
        bought += [(user, item) for item in own[2:]]
    return bought, missing


def run(command: str) -> None:
    """A command of the guide in this process; a process of its own would spend its time on imports."""
    program, *words = shlex.split(command)
    if program == "recbole-adaptau":
        assert main(words) == 0, command
        return
    assert program == "python", command
    sys.argv = words
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    assert not ended.value.code, command


def test_every_command_of_the_guide(tmp_path, capsys):
    bought, missing = shop()
    rows = [f"{user},{item},{1_700_000_000 + 60 * number}" for number, (user, item) in enumerate(bought)]
    Path("shop.csv").write_text("\n".join(["user,item,timestamp", *rows]) + "\n", encoding="utf-8")
    Path("who.txt").write_text("ben\nperson 5\nnobody\n", encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", GUIDE, re.S | re.M)
    first, *others = (line for block in blocks for line in block.splitlines())
    assert len(re.findall(r"^(?:python|recbole-adaptau) ", GUIDE, re.M)) == 1 + len(others)
    printed = {}
    for command in (first, *others):
        run(command)
        printed[command] = capsys.readouterr()
        if "--output recommendations.csv" in command:
            item_file = "item_id:token\titem_name:token_seq\n" + "".join(f"{item}\tNice {item}\n" for item in ITEMS)
            (tmp_path / "dataset/shop/shop.item").write_text(item_file, encoding="utf-8")

    table = pd.read_csv("recommendations.csv")
    assert list(table.columns) == ["user", "rank", "item", "score"] and len(table) == len(USERS) * 20
    assert not set(zip(table["user"], table["item"], strict=True)) & set(bought)
    found = {user: set(own["item"][:2]) for user, own in table.groupby("user")}
    assert np.mean([found[user] == missing[user] for user in USERS]) > 0.9

    top = pd.read_parquet("top.parquet")
    assert top.groupby("user", sort=False).size().to_dict() == {"ben": 10, "person 5": 10}
    assert (top["name"] == "Nice " + top["item"]).all()
    by_option = {option: text for command, text in printed.items() for option in command.split() if "--" in option}
    assert "1 of 3 users not in the data, left out: nobody" in by_option["--users-file"].err
    assert "user anna" in by_option["--include-seen"].out and "Nice thing" in by_option["--include-seen"].out
    new = by_option["--liked"].out.splitlines()
    assert len(new) == 6 and not {"tea-12", "pot-3"} & set(" ".join(new).split())
    assert {colour(line.split()[1]) for line in new[1:]} == {0}

    arrays = load_file("exported/embeddings.safetensors")
    with np.load("exported/embeddings.npz", allow_pickle=False) as file:
        assert all((file[name] == arrays[name]).all() for name in ("users", "items"))
        assert set(file["user_ids"]) == set(USERS) and set(file["item_ids"]) == set(ITEMS)
    near = pd.read_csv("exported/neighbours.csv")
    assert near.groupby("item").size().eq(10).all()
    same = near["item"].map(colour) == near["neighbour"].map(colour)
    assert same.mean() > 0.95
    assert not [name for name in os.listdir(".") if name.startswith(".")]


def test_the_snippet_of_the_guide_follows_the_commands():
    """Run for itself on the same data: a snippet that does not work would raise."""
    bought, _ = shop()
    Path("shop.csv").write_text("\n".join(["user,item", *map(",".join, bought)]) + "\n", encoding="utf-8")
    convert, train, *_ = re.search(r"^```bash\n(.*?)^```", GUIDE, re.S | re.M).group(1).splitlines()
    run(convert)
    run(f"{train} --epochs=1")
    search, recommend = re.findall(r"^```python\n(.*?)^```", GUIDE, re.S | re.M)
    exec(compile(recommend, "guide.md", "exec"), {})
    pytest.importorskip("faiss", reason="the extra 'faiss' is not installed")
    run(re.search(r"^recbole-adaptau export .*$", GUIDE, re.M).group())
    exec(compile(search, "guide.md", "exec"), {})
