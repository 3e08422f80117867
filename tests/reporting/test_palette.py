"""One palette for every picture, and a look of its own for each line."""

import re
from pathlib import Path

import recbole_adaptau
from recbole_adaptau.reporting import palette, plots

PACKAGE = Path(recbole_adaptau.__file__).parent


def test_colours_stand_in_one_place():
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js")]:
        if path.name != "palette.py":
            assert not re.search(r"tab:\w+|['\"]#[0-9a-f]{6}", path.read_text(encoding="utf-8")), path


def test_sixty_lines_look_different():
    looks = [(look["color"], str(look["linestyle"]), look["marker"]) for look in map(plots.style, range(60))]
    assert len(set(looks)) == len(looks)


def test_plotly_gets_the_same():
    found = palette.for_plotly()
    assert found["colours"] == list(palette.COLOURS) and found["dashes"][:2] == ["solid", "6px,2px"]
    assert len(found["dashes"]) == len(plots.HATCHES) == len(palette.COLOURS)
