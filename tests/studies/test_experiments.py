"""The experiments' own arithmetic and checks; nothing here is trained."""

import json
import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recbole_adaptau.cli.experiment import main
from recbole_adaptau.errors import DataError, OptionError
from recbole_adaptau.files import LOCK, alone_in
from recbole_adaptau.reporting import curves, tables
from recbole_adaptau.reporting.figures import curves_figure, grid_figure
from recbole_adaptau.runs import runner
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.studies import grid, repeat, tuning
from recbole_adaptau.studies.published import published

AT_20 = {"topk": [5, 20], "valid_metric": "'NDCG@20'"}


def made(strategy, tau, seed, valid, test, seconds):
    """A run's record: `valid` and `test` are (recall, NDCG)."""
    at = {} if tau is None else {"tau": tau}
    return {
        "method": "AdapTauMF",
        "settings": {"tau_strategy": strategy, **at, "seed": seed},
        "seed": seed,
        "seconds": seconds,
        "best_epoch": 3,
        "epochs": 9,
        "best_valid_score": valid[1],
        "valid_score_bigger": True,
        "best_valid_result": dict(zip(tables.METRICS, valid, strict=True)),
        "test_result": dict(zip(tables.METRICS, test, strict=True)),
        "environment": {"processor": "abacus", "cores": 2, "torch_threads": 1, "versions": {"torch": "2.x"}},
    }


# tau = 0.1 validates best (0.31 > 0.30), though 0.2 is better on test.
RUNS = [
    made("fixed", 0.1, 1, (0.40, 0.30), (0.38, 0.20), 10.0),
    made("fixed", 0.2, 1, (0.39, 0.29), (0.48, 0.40), 20.0),
    made("adaptive", None, 1, (0.41, 0.30), (0.39, 0.21), 6.0),
    made("fixed", 0.1, 2, (0.42, 0.32), (0.42, 0.22), 12.0),
    made("fixed", 0.2, 2, (0.41, 0.31), (0.52, 0.44), 22.0),
    made("adaptive", None, 2, (0.43, 0.30), (0.41, 0.231), 10.0),
]
ABOUT = {
    "command": "the command",
    "model": "AdapTauMF",
    "dataset": "gowalla",
    "protocol": "honest",
    "tau_strategies": ["fixed", "adaptive"],
    "valid_metric": "NDCG@20",
    "seeds": [1, 2],
    "runs_asked": 6,
}


def test_means_and_deviations_over_seeds():
    rows = grid.summary(RUNS)
    assert [(row["strategy"], row["tau"], row["seeds"]) for row in rows] == [
        ("fixed", 0.1, [1, 2]),
        ("fixed", 0.2, [1, 2]),
        ("adaptive", None, [1, 2]),
    ]
    # Of 0.2 and 0.22: mean 0.21, sample deviation sqrt(2 * 0.01²) = 0.014142.
    assert rows[0]["test"]["ndcg@20"] == pytest.approx({"mean": 0.21, "std": 0.0141421356})
    assert rows[0]["seconds"] == 11.0 and rows[1]["valid"]["recall@20"]["mean"] == pytest.approx(0.40)
    assert tables.spread([0.25]) == {"mean": 0.25, "std": None}
    assert tables.cell({"mean": 0.25, "std": None}) == "0.2500"


def test_the_best_tau_is_chosen_by_validation_and_never_by_test():
    assert grid.best_fixed(grid.summary(RUNS))["tau"] == 0.1
    changed = [{**run, "test_result": dict.fromkeys(tables.METRICS, 0.9 * run["seed"])} for run in RUNS]
    assert grid.best_fixed(grid.summary(changed))["tau"] == 0.1
    assert grid.best_fixed(grid.summary(RUNS), bigger=False)["tau"] == 0.2
    assert grid.best_fixed([row for row in grid.summary(RUNS) if row["tau"] is None]) is None


def test_the_grid_report_says_accuracy_and_cost():
    text = grid.text(grid.collected(ABOUT, RUNS))
    best = "**fixed, tau = 0.1, best by validation**"
    figures = "0.4100 ± 0.0141 | 0.3100 ± 0.0141 | 0.4000 ± 0.0283 | 0.2100 ± 0.0141"
    assert f"| {best} | {figures} | 2 | 11.0 |" in text
    assert text.count("best by validation**") == 1 and "\nthe command\n" in text and "abacus, 2 cores" in text
    # Recall 0.40 / 0.40; NDCG (0.21 + 0.231) / 2 / 0.21 = 1.05. Seconds (11 + 21) / 8.
    assert "against the best fixed tau, 0.1: 100.0 % of its test recall@20 and 105.0 % of its test NDCG@20" in text
    assert "The grid of 2 took 32.0 s a seed, the one adaptive run 8.0 s: 4.0 times as long." in text


def test_a_partial_grid_draws_no_conclusion():
    data = grid.collected(ABOUT, RUNS[:4])
    text = grid.text(data)
    assert data["best_fixed_tau"] is None and "4 of 6 runs are done" in text
    assert "best by validation**" not in text and "times as long" not in text
    grid_figure(data)


def test_the_paper_protocol_is_told_from_the_honest_one():
    honest = grid.text(grid.collected(ABOUT, RUNS))
    assert "**Honest protocol: epoch chosen on validation**" in honest and "No choice is made on test" in honest
    paper = grid.text(grid.collected({**ABOUT, "protocol": "paper"}, RUNS))
    assert "**Paper protocol: epoch chosen on the test set**" in paper and "No choice is made" not in paper
    for protocol in ("honest", "paper"):
        title = grid_figure(grid.collected({**ABOUT, "protocol": protocol}, RUNS)).get_suptitle()
        assert f"{protocol} protocol: epoch chosen on" in title


def test_every_report_names_the_method_that_ran():
    plus = [{**run, "method": "AdapTauMF+"} for run in RUNS]
    about = {**ABOUT, "protocol": "paper", "tau_strategies": ["adaptive_user"], "algo": "random", "best": None}
    assert grid.text(grid.collected(about, plus)).startswith("# AdapTauMF+ on gowalla: grid search over tau")
    assert grid_figure(grid.collected(about, plus)).get_suptitle().startswith("AdapTauMF+ on gowalla")
    repeated = repeat.text(repeat.collected(about, plus))
    assert repeated.startswith("# AdapTauMF+ on gowalla: 2 seeds") and "paper (Adap-tau)" not in repeated
    trials = [{**run, "name": f"trial {place}"} for place, run in enumerate(plus[:2])]
    assert tuning.text(tuning.collected(about, trials)).startswith("# AdapTauMF+ on gowalla: 2 trials")


def test_the_grid_figure_shows_each_tau_and_each_strategy():
    found = [{**run, "tau_0": 0.15} if "tau" not in run["settings"] else run for run in RUNS]
    figure = grid_figure(grid.collected(ABOUT, found))
    valid, test = figure.axes
    for panel, word, score in ((valid, "validation", 0.3), (test, "test", 0.2205)):
        assert panel.get_ylabel() == f"{word} NDCG@20"
        assert panel.get_xscale() == "log" and [text.get_text() for text in panel.get_xticklabels()] == ["0.1", "0.2"]
        handles, labels = panel.get_legend_handles_labels()
        of = dict(zip(labels, handles, strict=True))
        assert set(of) == {"fixed tau", "best tau by validation (0.1)", f"adaptive: {score:.4f} at 0.150"}
        (x,), (y,) = of[f"adaptive: {score:.4f} at 0.150"].lines[0].get_data()
        assert (x, y) == pytest.approx((0.15, score))
    tables.write(Path("a.png"), figure)
    tables.write(Path("b.png"), grid_figure(grid.collected(ABOUT, found)))
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes() and not list(Path().glob("*.tmp"))
    grid_figure(grid.collected({**ABOUT, "runs_asked": 2}, [run for run in RUNS if "tau" not in run["settings"]]))


def test_repeat_shows_the_papers_figure_only_where_it_can_be_compared():
    runs = [RUNS[2], RUNS[5]]
    about = {**ABOUT, "tau_strategies": ["adaptive_user"], "runs_asked": 2}
    assert "paper (Adap-tau)" not in repeat.text(repeat.collected(about, runs))
    text = repeat.text(repeat.collected({**about, "protocol": "paper"}, runs))
    # 0.40 / 0.1838 = 2.1763, 0.2205 / 0.1506 = 1.4641.
    assert "| recall@20 | 0.4200 ± 0.0141 | 0.4000 ± 0.0141 | 0.1838 | +117.6 % |" in text
    assert "| NDCG@20 | 0.3000 ± 0.0000 | 0.2205 ± 0.0148 | 0.1506 | +46.4 % |" in text
    assert "| 2 | 0.4300 | 0.3000 | 0.4100 | 0.2310 | 3 of 9 | 10.0 |" in text
    assert published("AdapTauLightGCN", "yelp2018", "paper", "adaptive_user") == {
        "recall@20": 0.0733,
        "ndcg@20": 0.0612,
    }
    assert published("AdapTauMF", "gowalla", "paper", "adaptive") is None
    assert published("BPR", "gowalla", "paper", None) is None


def test_every_run_of_a_grid_has_its_own_name():
    specs = grid.specs("AdapTauMF", "d", [0.2, 0.1], ["fixed", "adaptive"], [7, 8], {"epochs": 2})
    assert [spec.name for spec in specs] == [
        "fixed-tau0.1-seed7", "fixed-tau0.2-seed7", "adaptive-seed7",
        "fixed-tau0.1-seed8", "fixed-tau0.2-seed8", "adaptive-seed8",
    ]  # fmt: skip
    settings = specs[0].settings(Path("x"))
    assert settings["tau"] == 0.1 and settings["epochs"] == 2 and settings["tau_strategy"] == "'fixed'"
    assert "tau" not in specs[2].settings(Path("x"))


def store(spec, root, complete=True):
    """A run folder as such a run would have left it."""
    run = runner.folder_of(spec, root)
    run.begin(spec.config(run.path))
    if complete:
        run.finish({})
    return run


@pytest.mark.parametrize("complete", [True, False])
def test_a_folder_with_other_settings_is_refused(board, complete):
    (spec,) = repeat.specs("AdapTauMF", "board", [1], {**board, **AT_20, "epochs": 2})
    store(spec, Path("out"), complete)
    runner.check([spec], Path("out"))
    louder = runner.Spec(spec.name, spec.model, spec.dataset, spec.varied, {**spec.given, "state": "'INFO'"})
    runner.check([louder], Path("out"))
    changed = runner.Spec(spec.name, spec.model, spec.dataset, spec.varied, {**spec.given, "epochs": 3})
    state = "a finished run" if complete else "an interrupted run"
    with pytest.raises(DataError, match=rf"out/runs/seed1 holds {state} .*epochs = 2 there and 3 now.*--output"):
        runner.check([changed], Path("out"))
    other = runner.Spec(spec.name, "AdapTauLightGCN", spec.dataset, spec.varied, spec.given)
    with pytest.raises(DataError, match=r"\(model = 'AdapTauMF' there and 'AdapTauLightGCN' now;"):
        runner.check([other], Path("out"))


def test_metrics_the_reports_need_are_asked_for_before_training(board):
    (spec,) = repeat.specs("AdapTauMF", "board", [1], board)
    with pytest.raises(OptionError, match=r"need recall@20 and ndcg@20, but topk = \[2, 5\]"):
        runner.check([spec], Path("out"))


def test_two_processes_do_not_fill_one_folder():
    def enter():
        with alone_in(Path(), "give another --output"):
            return True

    with ThreadPoolExecutor() as elsewhere:
        with alone_in(Path(), "give another --output"):
            assert enter()  # the same thread may
            with pytest.raises(
                DataError, match=r"another process is filling \.: wait for it, or give another --output"
            ):
                elsewhere.submit(enter).result()
        assert elsewhere.submit(enter).result()
    assert not list(Path().iterdir()), "nothing stays behind"


def test_the_lock_of_a_process_that_was_killed_is_gone():
    fork = multiprocessing.get_context("fork")
    inside = fork.Event()

    def stay():
        with alone_in(Path(), "wait"):
            inside.set()
            time.sleep(60)

    process = fork.Process(target=stay)
    process.start()
    assert inside.wait(30)
    with pytest.raises(DataError, match="another process is filling"), alone_in(Path(), "wait"):
        pass
    process.kill()
    process.join()
    assert Path(LOCK).exists(), "it did not get to removing it"
    with alone_in(Path(), "wait"):
        pass
    assert not list(Path().iterdir())


def test_a_report_of_something_else_is_not_overwritten():
    tables.write(Path("grid.json"), dict(ABOUT))
    tables.refuse_others(Path("grid.json"), {**ABOUT, "seeds": [5]})
    with pytest.raises(OptionError, match=r"grid\.json is a report with protocol = honest: give another --output"):
        tables.refuse_others(Path("grid.json"), {**ABOUT, "protocol": "paper"})
    Path("grid.json").write_text("half of")
    tables.refuse_others(Path("grid.json"), ABOUT)


GIVEN = ["--model", "AdapTauMF", "--dataset", "ml-100k"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["grid", *GIVEN, "--tau=0.2"], "tau is set for each run by this command: use --taus"),
        (["grid", *GIVEN, "--seed=3"], "use --seeds"),
        (["repeat", *GIVEN, "--run_folder=x"], "use --output"),
        (["grid", *GIVEN, "--taus", "0.1", "0.10"], "--taus: 0.1 is given twice"),
        (["grid", *GIVEN, "--taus", "0.01"], "tau = 0.01 is below tau_min"),
        (["grid", *GIVEN, "--taus", "0.1", "--strategies", "adaptive"], "not among --strategies"),
        (["grid", "--model", "BPR", "--dataset", "ml-100k"], "grid varies tau, which BPR does not have"),
        (["repeat", "--model", "BPR", "--dataset", "ml-100k", "--topk=[10]"], "the reports need recall@20"),
        (["repeat", *GIVEN, "--protocol", "paper"], "needs data with a given split"),
        (["repeat", *GIVEN, "--config_files", "a.yaml"], "there is no file"),
        (["repeat", *GIVEN, "epochs=3"], "options are written --key=value"),
        (["curves", "nothing", "--output", "c.svg"], "nothing is not a run folder"),
        (["curves", "nothing", "--output", "c.txt"], "must end in .svg"),
        (["curves", "nothing", "--output", "c.svg", "--reference-run", "x"], "add --reference FILE.csv"),
        (["curves", "nothing", "--output", "c.svg", "--epochs=3"], "curves does not know --epochs=3"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(capsys, tmp_path, words, message):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.splitlines()[-1].startswith("error: ") and "Traceback" not in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["grid", "repeat", "curves"])
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"recbole-adaptau experiment {command} " in capsys.readouterr().out


def run_with_epochs(folder, records, **settings):
    run = RunFolder(folder)
    run.path.mkdir()
    known = {"model": "AdapTauMF", "dataset": "d", "tau_strategy": "fixed", "tau": 0.1, "seed": 1, "recipe": "none"}
    run.config.write_text(json.dumps(known | settings))
    for record in records:
        run.add_epoch(record)
    return run


@pytest.mark.parametrize("strategy", ["none", "adaptive_user"])
def test_a_run_is_known_by_what_it_uses(tmp_path, strategy):
    config = runner.Spec("a", "AdapTauMF", "ml-100k", {"tau_strategy": strategy}, {}).config(tmp_path / "a")
    run = RunFolder(tmp_path / "a")
    run.path.mkdir()
    run.begin(config)
    runner.refuse_if_changed(run, config)
    # Before a default changed: only where the temperature of users is used is it another run.
    run.config.write_text(run.config.read_text().replace("user_beta: 1.0", "user_beta: 0.7"))
    if strategy == "none":
        runner.refuse_if_changed(run, config)
    else:
        with pytest.raises(DataError, match=r"user_beta = 0\.7 there and 1\.0 now"):
            runner.refuse_if_changed(run, config)


def validated(epoch, recall, ndcg):
    return {"epoch": epoch, "valid_result": {"recall@20": recall, "ndcg@20": ndcg, "mrr@20": 0.5}}


def test_curves_are_read_from_run_folders():
    # Epoch 1 was not validated (eval_step = 2).
    epochs = [validated(0, 0.1, 0.2), {"epoch": 1}, validated(2, 0.3, 0.4)]
    run_with_epochs("a", epochs)
    run_with_epochs("b", epochs[:1])
    run_with_epochs("c", epochs, tau_strategy="adaptive", protocol="paper", recipe="plus")
    first, second, third = curves.read_runs(["a", "b", "c"])
    assert first.epochs == [0, 2] and first.values == {"recall@20": [0.1, 0.3], "ndcg@20": [0.2, 0.4]}
    assert first.label == "AdapTauMF on d, fixed 0.1, seed 1, honest protocol: epoch chosen on validation (a)"
    assert second.label.endswith("(b)")
    assert third.label == "AdapTauMF+ on d, adaptive, seed 1, paper protocol: epoch chosen on the test set"
    assert main(["curves", "a", "c", "--output", "c.svg"]) == 0
    assert Path("c.svg").read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"epoch": 0, "valid_result": {"recall@20": 0.1, "ndcg@10": 0.1}}], "r has no ndcg@20: .*recall@20, ndcg@10"),
        ([{"epoch": 0}], "r has no curve: no epoch was validated"),
    ],
)
def test_a_run_without_the_metrics_is_named(records, message):
    run_with_epochs("r", records)
    with pytest.raises(DataError, match=message):
        curves.read_runs(["r"])


def test_a_damaged_run_is_named():
    run_with_epochs("r", []).epochs.write_text('{"epoch": 0, "val\n')
    with pytest.raises(DataError, match=r"epochs\.jsonl is damaged"):
        curves.read_runs(["r"])


REFERENCE = """data,strategy,epoch,tau_0,recall@20,ndcg@20
d,ours (mean),0,0.1,0.01,0.02
d,ours (mean),1,0.1,0.03,0.04
d,ours_0,0,0.1,0.05,0.06
"""


def test_references_are_found_by_name_or_a_part_of_it():
    Path("r.csv").write_text(REFERENCE)
    (curve,) = curves.read_references("r.csv", ["d/ours ("])
    assert curve.label == "d/ours (mean)" and curve.epochs == [0, 1] and curve.is_reference
    assert curve.values == {"recall@20": [0.01, 0.03], "ndcg@20": [0.02, 0.04]}
    both = curves.read_references("r.csv", ["d/ours_0", "MEAN"])
    assert [curve.label for curve in both] == ["d/ours_0", "d/ours (mean)"]
    for name, count in (("ours", "2 runs"), ("theirs", "no run")):
        with pytest.raises(OptionError, match=rf"'{name}' fits {count} of r\.csv; choose one of \n  d/ours \(mean\)\n"):
            curves.read_references("r.csv", [name])
    with pytest.raises(OptionError, match="holds 2 runs: choose with --reference-run"):
        curves.read_references("r.csv", [])
    run_with_epochs("a", [validated(0, 0.1, 0.2)])
    left, right = curves_figure([*curves.read_runs(["a"]), *both]).axes
    assert left.lines[0].get_label() == "reference: d/ours_0" and len(right.lines) == 3
    assert list(right.lines[1].get_ydata()) == [0.02, 0.04]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("run,epoch,recall@20\na,0,0.1\n", r"has no column ndcg@20; it has run, epoch, recall@20"),
        ("run,epoch,recall@20,ndcg@20\na,0,0.1,x\n", "line 2: epoch, recall@20, ndcg@20 must be numbers"),
        ("run,epoch,recall@20,ndcg@20\n", "holds no curve"),
        ("", "it has none"),
    ],
)
def test_an_unusable_reference_is_said_plainly(content, message):
    Path("r.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        curves.read_references("r.csv", [])
    with pytest.raises(DataError, match=r"missing\.csv cannot be read as CSV"):
        curves.read_references("missing.csv", [])
