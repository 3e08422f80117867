"""The page about runs: what it says, and how it behaves in a real browser."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from recbole_adaptau import run_recbole_adaptau
from recbole_adaptau.cli.report import main
from recbole_adaptau.reporting.html.collect import GROUPS, POINTS, collect, find_runs, recall_by_popularity
from recbole_adaptau.reporting.html.page import render
from recbole_adaptau.reporting.palette import COLOURS
from recbole_adaptau.runs.folder import RunFolder

from .browser import Browser, executable

pytestmark = pytest.mark.e2e
MODELS = ("AdapTauMF", "AdapTauLightGCN", "BPR", "SimGCL")
METRICS = ["Recall", "NDCG", "GiniIndex", "ItemCoverage"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of four models on planted data, one run that goes on, one that failed and one that is damaged."""
    from tests.conftest import checkerboard, write_inter

    place = tmp_path_factory.mktemp("report")
    for part, pairs in zip(("train", "valid", "test"), checkerboard(), strict=True):
        write_inter(place / "data", "board", pairs, part)
    settings = {
        "data_path": str(place / "data"), "benchmark_filename": ["train", "valid", "test"], "show_progress": False,
        "load_col": {"inter": ["user_id", "item_id"]}, "state": "ERROR", "topk": [5, 20], "valid_metric": "NDCG@20",
        "embedding_size": 8, "train_batch_size": 64, "epochs": 3, "metrics": METRICS,
    }  # fmt: skip
    root = place / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["test"])
        patch.chdir(place)
        for model in MODELS:
            for seed in (1, 2):
                run_recbole_adaptau(
                    model, "board", None, {**settings, "seed": seed, "run_folder": f"{root}/{model}-{seed}"}
                )
    going_on = RunFolder(root / "BPR-2")
    going_on.result.unlink()
    cut = RunFolder(root / "SimGCL-1")
    cut.finish({**cut.read_result(), "stopped_by": "budget"})
    RunFolder(root / "Crashed-1").fail(RuntimeError("out of <memory> & patience"))
    damaged = RunFolder(root / "SimGCL-2")
    damaged.result.write_text('{"model": "SimG')
    (root / "empty").mkdir()
    return root


@pytest.fixture(scope="module")
def page(runs):
    file = runs.parent / "report.html"
    assert main([str(runs), str(runs / "empty"), "--output", str(file), "--title", "Board & more"]) == 0
    return file


def embedded(file):
    text = file.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_holds_what_the_folders_hold(runs, page, capsys):
    assert page.stat().st_size < 6_000_000
    assert main([str(runs), str(runs / "empty"), "nowhere", "--output", str(page)]) == 0
    said = capsys.readouterr().err
    for named in (
        "SimGCL-2/result.json is damaged",
        "empty: there is no run in it",
        "nowhere: there is no such folder",
    ):
        assert said.count(named) == 1
    data = embedded(page)
    rows = {row["label"]: row for row in data["rows"]}
    assert set(rows) == {*MODELS, "Crashed-1"}
    assert (rows["AdapTauMF"]["seeds"], rows["BPR"]["seeds"], rows["BPR"]["state"]) == (2, 1, "1 of 2 runs done")
    assert rows["SimGCL"]["state"] == "out of budget" and rows["AdapTauMF"]["state"] == "complete"
    assert (
        rows["Crashed-1"]["error"] == "RuntimeError: out of <memory> & patience"
        and rows["Crashed-1"]["state"] == "failed"
    )
    results = [RunFolder(runs / f"AdapTauMF-{seed}").read_result() for seed in (1, 2)]
    one, two = (result["test_result"]["ndcg@20"] for result in results)
    assert rows["AdapTauMF"]["test"]["ndcg@20"]["mean"] == pytest.approx((one + two) / 2)
    assert rows["AdapTauMF"]["cost"]["parameters"] == results[0]["parameters"] == 98 * 8
    entry = next(entry for entry in data["runs"] if entry["folder"] == "AdapTauMF-1")
    epochs = RunFolder(runs / "AdapTauMF-1").read_epochs()
    assert entry["curves"]["ndcg@20"] == pytest.approx([e["valid_result"]["ndcg@20"] for e in epochs], rel=1e-4)
    assert entry["temperature"]["tau_0"] == pytest.approx([e["tau_0"] for e in epochs], rel=1e-4)
    assert sum(entry["taus"]["share"]) == pytest.approx(1.0, abs=1e-3)
    assert data["palette"]["colours"] == list(COLOURS) and {row["protocol"] for row in data["rows"]} == {"honest"}
    text = page.read_text(encoding="utf-8")
    assert "<memory>" not in text, "what a run says must not become part of the page"
    assert str(runs.parent) not in text, "a page that is passed on must not tell where it was made"


def test_rows_are_named_by_the_method(runs, tmp_path):
    run = RunFolder(tmp_path / "plus")
    shutil.copytree(runs / "AdapTauMF-1", run.path)
    settings = yaml.safe_load(run.config.read_text())
    run.config.write_text(yaml.safe_dump({**settings, "recipe": "plus", "user_beta": 0.5}))
    data = collect([RunFolder(runs / "AdapTauMF-1"), run])
    assert {row["label"] for row in data["rows"]} == {"AdapTauMF", "AdapTauMF+"}


def test_a_title_is_text():
    text = render({"rows": [], "runs": [], "skipped": ["</script><b>"], "groups": []}, "a </title> & b")
    assert "<title>a &lt;/title&gt; &amp; b</title>" in text and "</script><b>" not in text


def test_nothing_to_report_is_an_error(tmp_path, capsys):
    (tmp_path / "runs").mkdir()
    assert main([str(tmp_path / "runs"), "--output", "r.html"]) == 2
    assert "none of these folders holds a run" in capsys.readouterr().err and not Path("r.html").exists()


def test_recall_by_popularity_against_a_loop():
    rng = np.random.default_rng(0)
    counts = np.concatenate([[0], rng.integers(1, 50, 40)])
    items = np.array([rng.permutation(40)[:6] + 1 for _ in range(30)])
    positives = [set((rng.permutation(40)[:4] + 1).tolist()) for _ in range(30)]
    hits = np.array([[item in own for item in row] for row, own in zip(items, positives, strict=True)])
    tested = {
        "items": items,
        "hits": hits,
        "item_counts": counts,
        "positive_items": np.concatenate([list(own) for own in positives]),
    }
    found = recall_by_popularity(tested)
    below, group = 0, {}
    for item in sorted(range(1, 41), key=lambda item: counts[item]):
        group[item] = int((below + counts[item] / 2) * len(GROUPS) / counts.sum())
        below += counts[item]
    for number in range(len(GROUPS)):
        held = [(user, item) for user, own in enumerate(positives) for item in own if group[item] == number]
        hit = [pair for pair in held if pair[1] in items[pair[0]]]
        assert found[number]["held_out"] == len(held) and found[number]["items"] == list(group.values()).count(number)
        assert found[number]["recall"] == pytest.approx(len(hit) / len(held), rel=1e-4)
    assert recall_by_popularity({key: value for key, value in tested.items() if key != "items"}) is None


def test_runs_of_one_model_with_other_settings_have_rows_of_their_own(runs, tmp_path):
    folders, _ = find_runs([runs / "AdapTauMF-1"])
    other = RunFolder(tmp_path / "other")
    other.path.mkdir()
    other.config.write_text((runs / "AdapTauMF-1/config.yaml").read_text().replace("epochs: 3", "epochs: 4"))
    labels = [row["label"] for row in collect([*folders, other])["rows"]]
    assert labels == ["AdapTauMF (epochs 3)", "AdapTauMF (epochs 4)"]


def copied(run, place, **changed):
    """A copy of a run folder with other settings."""
    made = RunFolder(place)
    shutil.copytree(run, made.path)
    made.config.write_text(yaml.safe_dump({**yaml.safe_load(made.config.read_text()), **changed}))
    return made


def test_a_label_says_what_differs_and_matters_in_few_words(runs, tmp_path):
    """Not what the run does not read, nor how it was watched; what columns say comes first, without its key."""
    source = runs / "AdapTauMF-1"
    made = [
        copied(source, tmp_path / "a", loss="bsl", tau_strategy="fixed", tau=0.2, psl_activation="tanh"),
        copied(source, tmp_path / "b", loss="softmax", tau=0.4, topk=[7, 20], bsl_ratio=3.0),
    ]
    data = collect(made)
    by_loss = {row["loss"]: row for row in data["rows"]}
    assert by_loss["bsl"]["label"] == "AdapTauMF (bsl, fixed 0.2)", "no other run reads bsl_ratio"
    assert by_loss["softmax"]["label"] == "AdapTauMF (softmax, adaptive_user)"
    assert [by_loss[name]["tau_strategy"] for name in ("bsl", "softmax")] == ["fixed 0.2", "adaptive_user"]
    assert by_loss["bsl"]["recipe"] == "none"
    other = copied(source, tmp_path / "e", loss="bsl", tau_strategy="fixed", tau=0.2, bsl_ratio=1.5)
    labels = {row["label"] for row in collect([*made, other])["rows"]}
    assert {f"AdapTauMF (bsl, fixed 0.2, bsl_ratio {ratio})" for ratio in (1.2, 1.5)} < labels
    many = {"learning_rate": 0.5, "embedding_size": 7, "epochs": 9, "reg_weight": 0.1, "train_batch_size": 9}
    made = [copied(source, tmp_path / "c", **many), copied(source, tmp_path / "d", **{**many, "topk": [3, 20]})]
    labels = [row["label"] for row in collect([RunFolder(source), *made])["rows"]]
    short = "AdapTauMF (embedding_size 7, epochs 9, learning_rate 0.5, reg_weight 0.1, 1 more)"
    assert {short, f"{short} #2"} <= set(labels), "what looks alike is not taken for one row"


def test_many_long_runs_fit_into_the_page(runs, tmp_path):
    run = copied(runs / "AdapTauMF-1", tmp_path / "long")
    records = [{**run.read_epochs()[-1], "epoch": epoch} for epoch in range(500)]
    run.epochs.write_text("".join(json.dumps(record) + "\n" for record in records))
    run.finish({**run.read_result(), "best_epoch": 373})
    data = collect([run])
    epochs = data["runs"][0]["epochs"]
    assert (epochs[0], epochs[-1]) == (0, 499) and 373 in epochs and len(epochs) <= POINTS + 1
    assert len(data["runs"][0]["curves"]["ndcg@20"]) == len(data["runs"][0]["seconds"]) == len(epochs)
    assert data["runs"][0]["temperature"]["epochs"] == epochs and data["runs"][0]["epochs_made"] == 500
    data["runs"] *= 240  # twenty models, four datasets, three seeds
    assert len(render(data, "Many").encode()) < 6_000_000


def test_runs_that_cannot_be_compared_do_not_tell_where_they_are(runs, tmp_path):
    made = [RunFolder(runs / "AdapTauMF-1"), copied(runs / "BPR-1", tmp_path / "b", seed=7)]
    result = made[1].read_result()
    made[1].finish({**result, "seed": 7})
    tested = dict(np.load(made[1].tested))
    np.savez_compressed(made[1].tested, **{**tested, "positives": tested["positives"] + 1})
    data = collect(made)
    assert [bool(row["significance"] and row["significance"]["error"]) for row in data["rows"]] == [False, True]
    assert str(tmp_path) not in json.dumps(data["rows"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if executable() is None:
        pytest.skip("no Chromium on this machine: install Debian's package chromium to test the page in a browser")
    made = Browser(tmp_path_factory.mktemp("chromium"))
    yield made
    made.close()


NAMES = "[...document.querySelectorAll('#leaderboard tbody td.name')].map((cell) => cell.textContent)"


def choose(browser, place, value, event="change"):
    browser.ask(
        f"(() => {{ const one = document.getElementById('{place}'); one.value = '{value}'; "
        f"one.dispatchEvent(new Event('{event}')); }})()"
    )


def drawn(browser):
    """How many traces each chart has; 0 for one that says that it has nothing to show."""
    return browser.ask(
        "[...document.querySelectorAll('.chart')].map((one) => one.classList.contains('empty') ? 0 : one.data.length)"
    )


def column(browser, title):
    place = f"[...document.querySelectorAll('#leaderboard th')].findIndex((th) => th.textContent === '{title}')"
    return browser.ask(
        f"[...document.querySelectorAll('#leaderboard tbody tr')].map((tr) => tr.cells[{place}].textContent)"
    )


def test_the_table_sorts_and_filters(browser, page):
    browser.console.clear()
    browser.open(page)
    names = browser.ask(NAMES)
    assert sorted(names) == sorted([*MODELS, "Crashed-1"]) and names[-1] == "Crashed-1"
    figures = [float(cell.split()[0]) for cell in column(browser, "ndcg@20")[:-1]]
    assert figures == sorted(figures, reverse=True)
    browser.ask("document.querySelector('button[data-key=name]').click()")
    assert browser.ask(NAMES) == sorted([*MODELS, "Crashed-1"])
    assert (
        browser.ask("document.querySelector('button[data-key=name]').closest('th').getAttribute('aria-sort')")
        == "ascending"
    )
    browser.ask("document.querySelector('button[data-key=name]').click()")
    assert browser.ask(NAMES) == sorted([*MODELS, "Crashed-1"], reverse=True)
    browser.ask("const f = document.getElementById('filter'); f.value = 'adaptau'; f.dispatchEvent(new Event('input'))")
    assert browser.ask(NAMES) == ["AdapTauMF", "AdapTauLightGCN"]
    assert browser.ask("document.getElementById('count').textContent") == "2 of 5 rows"
    browser.ask("const c = document.getElementById('columns'); c.value = 'cost'; c.dispatchEvent(new Event('change'))")
    assert column(browser, "parameters") == ["784", "784"]
    assert browser.console == []


def test_every_chart_draws_and_follows_the_boxes(browser, page):
    browser.console.clear()
    browser.open(page)
    charts = {"scatter": 4, "curves": 7, "trace": 12, "taus": 4, "popularity": 4}
    for name, traces in charts.items():
        browser.until(f"(document.getElementById('chart-{name}').data || []).length === {traces}")
        assert (
            browser.ask(f"document.querySelectorAll('#chart-{name} svg .trace, #chart-{name} svg .points path').length")
            > 0
        )
    colours = browser.ask("document.getElementById('chart-popularity').data.map((bar) => [bar.name, bar.marker.color])")
    blue, orange, green = "#0072b2", "#e69f00", "#009e73"
    expected = {"AdapTauLightGCN": blue, "AdapTauMF": orange, "BPR": green}
    assert dict(colours).items() >= expected.items(), "by name, whatever the rank"
    listed = browser.ask("[...document.querySelectorAll('#runs summary')].map((one) => one.textContent)")
    assert "SimGCL, seed 1: out of budget, 3 epochs" in listed and "BPR, seed 1: complete, 3 epochs" in listed
    browser.ask("document.querySelector('#leaderboard tbody input[aria-label*=\"AdapTauMF in\"]').click()")
    browser.until("document.getElementById('chart-trace').data.length === 6")
    browser.ask("const a = document.getElementById('axis'); a.value = 'seconds'; a.dispatchEvent(new Event('change'))")
    assert browser.ask("document.getElementById('chart-curves').layout.xaxis.title.text") == "seconds"
    browser.ask("document.querySelector('#chart-popularity + details summary').click()")
    browser.until("document.querySelectorAll('#chart-popularity + details tbody tr').length === 15")
    browser.ask("document.querySelector('#runs summary').click()")
    browser.until("document.querySelector('#runs pre').textContent.includes('learning_rate')")
    assert "out of <memory>" in browser.ask("document.querySelector('td.error').textContent")
    assert "SimGCL-2" in browser.ask("document.getElementById('skipped').textContent")
    assert (
        browser.ask("performance.getEntriesByType('resource').filter((one) => !one.name.startsWith('data:')).length")
        == 0
    )
    assert browser.console == []


def test_it_works_with_the_keyboard_alone(browser, page):
    browser.open(page)
    reached = []
    for _ in range(14):
        browser.press("Tab")
        focus = "document.activeElement"
        reached.append(browser.ask(f"{focus}.id || {focus}.dataset.key || {focus}.textContent"))
    assert reached[0] == "Skip to the leaderboard" and {"filter", "columns", "name", "ndcg@20"} <= set(reached)
    browser.ask("document.querySelector('button[data-key=name]').focus()")
    browser.press("Enter")
    assert browser.ask(NAMES) == sorted([*MODELS, "Crashed-1"])
    assert browser.ask("document.activeElement.dataset.key") == "name"
    browser.ask("document.getElementById('filter').focus()")
    for letter in "bpr":
        browser.press(letter)
    assert browser.ask(NAMES) == ["BPR"]


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1200, True)])
def test_a_phone_and_the_dark(browser, page, width, dark):
    browser.console.clear()
    browser.open(page, width=width, height=800, dark=dark)
    browser.until("document.getElementById('chart-popularity').data !== undefined")
    assert browser.ask("document.documentElement.scrollWidth") <= width, "the page itself must not scroll sideways"
    back = [int(part) for part in re.findall(r"\d+", browser.ask("getComputedStyle(document.body).backgroundColor"))]
    ink = browser.ask("document.getElementById('chart-curves').layout.font.color")
    assert (sum(back[:3]) < 150) == dark and (int(ink[1:3], 16) > 150) == dark
    assert browser.console == []


@pytest.fixture(scope="module")
def large(runs, tmp_path_factory):
    """Twenty methods on each of four datasets."""
    place = tmp_path_factory.mktemp("large")
    for dataset in ("one", "two", "three", "four"):
        for loss in ("softmax", "bsl", "psl", "slatk"):
            for recipe in ("none", "plus"):
                for strategy in ("adaptive_user", "calibrated"):
                    changed = {"dataset": dataset, "loss": loss, "recipe": recipe, "tau_strategy": strategy}
                    copied(runs / "AdapTauMF-1", place / f"{dataset}-{loss}-{recipe}-{strategy}", **changed)
        for model in ("BPR", "SGL", "NCL", "EASE"):
            copied(runs / "BPR-1", place / f"{dataset}-{model}", dataset=dataset, model=model)
    parts = ["popularity_prior", "item_regression", "user_weighting", "spectral_start"]
    for rate in (0.1, 0.2):
        name = f"four-parts-{rate}"
        copied(runs / "AdapTauMF-1", place / name, dataset="four", protocol="paper", recipe=parts, learning_rate=rate)
    page = place / "report.html"
    assert main([str(place), "--output", str(page)]) == 0
    assert page.stat().st_size < 6_000_000
    return page


def test_datasets_are_ranked_apart_and_a_choice_filters(browser, large):
    browser.console.clear()
    browser.open(large, width=390, height=800, dark=False)
    browser.until("document.getElementById('chart-popularity').data !== undefined")
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    selects = browser.ask("[...document.querySelectorAll('#choices select')].map((one) => one.id)")
    assert selects == [f"choice-{key}" for key in ("dataset", "protocol", "loss", "recipe", "tau_strategy")]
    assert browser.ask("document.getElementById('count').textContent") == "20 of 20 rows"
    assert len(browser.ask(NAMES)) == 20 and column(browser, "Loss").count("psl") == 4

    choose(browser, "choice-dataset", "two")
    assert browser.ask("document.getElementById('count').textContent") == "20 of 20 rows"
    choose(browser, "choice-loss", "psl")
    choose(browser, "choice-recipe", "plus")
    names = ["AdapTauMF+ (psl, adaptive_user)", "AdapTauMF+ (psl, calibrated)"]
    assert sorted(browser.ask(NAMES)) == names
    browser.until("document.getElementById('chart-scatter').data.length === 2")
    assert browser.console == []


@pytest.mark.parametrize("width", [390, 1280])
def test_all_of_the_page_follows_the_filters(browser, large, width):
    browser.console.clear()
    browser.open(large, width=width, height=800)
    browser.until("document.getElementById('chart-popularity').data !== undefined")
    choose(browser, "choice-dataset", "four")
    assert column(browser, "ndcg@20") == browser.ask(
        "[...document.querySelectorAll('#leaderboard tbody tr')].map((row) => row.cells[2].textContent)"
    ), "what ranks the rows is beside their names, where a phone shows it"
    listed = "document.querySelectorAll('#runs details').length"
    assert drawn(browser) == [20, 20, 16, 16, 20] and browser.ask(listed) == 20, "no bands of sixteen methods"
    # From twenty rows to two with long names, which nothing may be wider for.
    choose(browser, "choice-protocol", "paper")
    assert drawn(browser) == [2, 2, 6, 2, 2] and browser.ask(listed) == 2
    assert browser.ask("[...document.querySelectorAll('.chart')].every((one) => one._fullLayout._size.h > 200)"), (
        "the legend takes nothing from the plot"
    )
    browser.ask("document.querySelectorAll('details summary').forEach((one) => one.click())")
    browser.until("document.querySelectorAll('#runs pre').length === 2")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(
        "[...document.querySelectorAll('.chart')].every((one) => [...one.querySelectorAll('.legend .bg')]"
        ".every((legend) => legend.getBoundingClientRect().right <= one.getBoundingClientRect().right))"
    ), "a long name is folded"
    choose(browser, "choice-protocol", "honest")
    choose(browser, "filter", "bsl calibrated", "input")
    assert len(browser.ask(NAMES)) == 2 and drawn(browser) == [2, 2, 6, 2, 2] and browser.ask(listed) == 2
    choose(browser, "filter", "no such model", "input")
    assert drawn(browser) == [0] * 5 and browser.ask(listed) == 0
    said = browser.ask("document.querySelector('#leaderboard tbody').textContent")
    assert said == "No row has all that is chosen above."
    choose(browser, "filter", "", "input")
    browser.ask("document.querySelector('#leaderboard thead input').click()")
    assert drawn(browser) == [0] * 5 and len(browser.ask(NAMES)) == 20
    browser.ask("document.querySelector('#leaderboard tbody input').click()")
    assert drawn(browser)[0] == 1
    buttons = "[...document.querySelectorAll('.modebar-btn')].map((one) => one.dataset.title).join()"
    assert "Share" not in browser.ask(buttons), "the page sends nothing anywhere"
    assert browser.console == []
