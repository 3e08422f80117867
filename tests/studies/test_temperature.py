"""Grids side by side: the shares, the choice by validation, and what is refused; nothing is trained."""

import json
from pathlib import Path

import pytest

from recbole_adaptau.cli.experiment import main
from recbole_adaptau.errors import DataError
from recbole_adaptau.studies import grid, temperature

from .test_experiments import ABOUT, RUNS


def left(folder, runs=RUNS, **more):
    """What `grid` leaves; strategies end at 0.15 and have records of three epochs."""
    path = Path(folder)
    path.mkdir(parents=True)
    found = []
    for number, run in enumerate(runs):
        name = f"runs/{number}"
        (path / name).mkdir(parents=True)
        taus = [0.3, 0.2, 0.15]
        lines = [json.dumps({"epoch": epoch, "tau_0": tau}) + "\n" for epoch, tau in enumerate(taus)]
        (path / name / "epochs.jsonl").write_text("".join(lines))
        found.append({**run, "folder": name, **({} if "tau" in run["settings"] else {"tau_0": 0.15})})
    data = grid.collected({**ABOUT, "runs_asked": len(found), **more}, found)
    (path / "grid.json").write_text(json.dumps(data))
    return path


def test_a_strategy_is_measured_by_the_tau_that_validates_best():
    (row,) = temperature.rows([temperature.Grid(left("a"))])
    # 0.1 validates best (0.31 to 0.30); its test NDCG is 0.21 and the strategy's 0.2205, though 0.2 would have 0.42.
    assert row["best"] == "0.1" and row["NDCG@20"]["mean"] == pytest.approx(0.21)
    assert row["adaptive"] == "1.050 (0.2205) at 0.150" and row["taus"] == "0.1 0.2" and row["noise"] == "0 %"


def test_the_page_keeps_notes_and_names_commands_and_noise(capsys):
    clean, noisy = left("grids/clean"), left("grids/noisy", given={"noise_ratio": 0.3}, command="the noisy command")
    out = Path("out")
    out.mkdir()
    (out / "README.md").write_text(f"# old\n\n{temperature.BY_HAND}\nby hand\n")
    assert main(["temperature", str(clean), str(noisy), "--output", str(out)]) == 0
    text = (out / "README.md").read_text()
    assert "the command\nthe noisy command\n" in text and "| 30 % |" in text and "# old" not in text
    assert text.endswith(f"{temperature.BY_HAND}\nby hand\n") and "abacus, 2 cores" in text
    assert (out / "temperature.png").stat().st_size > 1000 and (out / "temperature-by-epoch.png").is_file()
    assert f"written to {out}" in capsys.readouterr().out


def test_the_trace_has_a_panel_a_dataset_and_a_line_for_each_strategy_of_a_grid_with_its_best_fixed_tau():
    grids = [temperature.Grid(left("a")), temperature.Grid(left("b", given={"noise_ratio": 0.1}))]
    grids += [temperature.Grid(left("c", dataset="ml-1m"))]
    panel, other = temperature.trace_figure(grids).axes
    assert (panel.get_title(), other.get_title()) == ("gowalla", "ml-1m")
    lines = [line for line in panel.lines if not line.get_label().startswith("_")]
    assert [line.get_label() for line in lines] == ["AdapTauMF, adaptive", "AdapTauMF, 10 % false positives, adaptive"]
    assert all(list(line.get_ydata()) == [0.3, 0.2, 0.15] for line in lines)
    assert [line.get_ydata()[0] for line in panel.lines if line not in lines] == [0.1, 0.1]


def test_a_grid_without_fixed_temperatures_or_folders_is_still_a_row():
    only = [run for run in RUNS if "tau" not in run["settings"]]
    found = temperature.Grid(left("a", only))
    assert temperature.rows([found])[0]["adaptive"] == "0.2205 at 0.150"
    for run in (found.folder / "runs").iterdir():
        (run / "epochs.jsonl").unlink()
        run.rmdir()
    assert set(temperature.files([found])) == {"README.md"}
    other = temperature.Grid(left("b"))
    assert set(temperature.files([found, other])) == {"README.md", "temperature.png", "temperature-by-epoch.png"}
    assert len(temperature.files([found, other])["temperature.png"].axes) == 1


@pytest.mark.parametrize("content", [None, "{", "[]", '{"summary": [], "runs": []}'])
def test_what_is_no_grid_is_refused(content):
    Path("a").mkdir()
    if content:
        Path("a/grid.json").write_text(content)
    with pytest.raises(DataError, match=r"a has no readable grid\.json .*experiment grid"):
        temperature.Grid("a")
