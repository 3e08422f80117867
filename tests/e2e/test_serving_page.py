"""Every command and snippet of docs/serving.md, in order, on the guide's planted shop."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pandas as pd
import pytest

from recbole_adaptau import Recommender
from recbole_adaptau.runs.folder import RunFolder
from tests.e2e.test_guide import ITEMS, ROOT, colour, run, shop

pytestmark = pytest.mark.e2e
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")


def test_every_command_and_snippet_of_the_page():
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    bought, _ = shop()
    Path("shop.csv").write_text("\n".join(["user,item", *map(",".join, bought)]) + "\n", encoding="utf-8")
    Path("sold_out.txt").write_text("thing-7\n")
    Path("returned.csv").write_text("user,item\nanna,thing-8\n")
    Path("visitors.csv").write_text("user,item\nvisitor,tea-12\nvisitor,pot-3\n")
    new = [(f"late {number}", item) for number in range(40) for item in ITEMS if colour(item) == number % 4][::2]
    pd.DataFrame(new, columns=["user", "item"]).to_parquet("new.parquet")
    run("recbole-adaptau data import --source shop.csv --name shop")
    names: dict = {}
    quick = 'epochs=2, show_progress=False, state="ERROR"'
    with redirect_stdout(io.StringIO()):
        for language, content in re.findall(r"^```(python|bash)\n(.*?)^```$", PAGE, re.M | re.S):
            if language == "python":
                exec(compile(re.sub(r"epochs=\d+", quick, content), "serving.md", "exec"), names)
                continue
            for command in content.splitlines():
                run(f"{command} --epochs=2 --show_progress=False --state=ERROR" if " train " in command else command)
    top = pd.read_csv("visitors_top.csv")
    assert top["user"].tolist() == ["visitor"] * 5 and {colour(item) for item in top["item"]} == {0}
    assert RunFolder.serving("runs/production").path.parent.name == "versions"
    late = Recommender.load("runs/production").recommend("late 5", k=5)
    assert {colour(item) for item in late["item"]} == {1}
