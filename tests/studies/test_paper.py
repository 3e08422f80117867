"""The paper's experiments: their runs, their tables from planted runs, and bad input; nothing here is trained."""

import csv
import io
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from recbole_adaptau.cli.experiment import main
from recbole_adaptau.cli.experiment_parser import parser
from recbole_adaptau.core.closed_form import global_tau
from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.recipe import method_name
from recbole_adaptau.reporting.tables import as_csv, as_markdown
from recbole_adaptau.runs import runner
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.studies import paper
from recbole_adaptau.studies.leaderboard.board import Board
from recbole_adaptau.studies.leaderboard.entries import FIRST_SEED, MODELS, entries
from recbole_adaptau.studies.paper import (
    EXPERIMENTS,
    Asked,
    approximation,
    command,
    fairness,
    gradient,
    magnitude,
    noise_global,
    norm_ablation,
    significance,
    sota,
    strategies,
    tau_sweep,
)
from recbole_adaptau.studies.paper.base import eval_step
from recbole_adaptau.training.checkpoint import quoted
from tests.helpers import build

NAMES = {
    "norm-ablation", "strategies", "tau-sweep", "magnitude", "fairness", "noise-global", "noise-local", "gradient",
    "approximation", "sota", "significance",
}  # fmt: skip


def asked(name, **more):
    experiment = EXPERIMENTS[name]
    chosen = {"taus": experiment.taus, "shares": experiment.shares, "searched": experiment.searched, **more}
    return Asked(models=experiment.models, dataset="ml-100k", seeds=[1, 2], epochs=experiment.epochs, **chosen)


def made(spec, valid=0.3, recall=0.2, seconds=1.0, **more):
    """The record of a run as if it had been made."""
    figures = {"recall@20": recall, "ndcg@20": recall / 2}
    fairness_figures = dict.fromkeys(fairness.MEASURES, 0.5)
    return {
        "name": spec.name,
        "model": spec.model,
        "method": method_name(spec.model, spec.varied.get("recipe")),
        "folder": f"runs/{spec.name}",
        "settings": dict(spec.varied),
        "seed": spec.varied["seed"],
        "seconds": seconds,
        "train_seconds": seconds,
        "epochs": 4,
        "best_epoch": 3,
        "tau_0": 0.17,
        "best_valid_score": valid,
        "valid_score_bigger": True,
        "best_valid_result": figures,
        "test_result": {**figures, **fairness_figures},
        **more,
    }


def test_every_experiment_of_the_paper_is_there(capsys):
    assert set(EXPERIMENTS) == NAMES
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert {line.split()[0] for line in lines} == NAMES and all(len(line) < 121 for line in lines)


def test_a_new_file_is_a_new_experiment(tmp_path, monkeypatch):
    (tmp_path / "made_up.py").write_text(
        "from recbole_adaptau.studies.paper.base import Experiment\n"
        "EXPERIMENT = Experiment('made-up', 'A table.', lambda asked: [], lambda asked, runs: [])\n"
    )
    monkeypatch.setattr(paper, "__path__", [*paper.__path__, str(tmp_path)])
    assert set(paper.found()) == NAMES | {"made-up"} and paper.found()["made-up"].brief == "A table."
    (tmp_path / "forgotten.py").write_text("")
    with pytest.raises(AttributeError, match="EXPERIMENT"):
        paper.found()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_run_has_a_configuration_and_a_name_of_its_own(name, tmp_path):
    experiment = EXPERIMENTS[name]
    specs = experiment.runs(asked(name, taus=experiment.taus[:1], shares=experiment.shares[:2]))
    assert len({spec.name for spec in specs}) == len(specs) > 0
    for spec, config in zip(specs, runner.check(specs, tmp_path), strict=True):
        for key, value in spec.varied.items():
            assert config[key] == value
        assert config["epochs"] % config["eval_step"] == 0
        assert (config["recipe"] == "plus") == ("-plus-" in spec.name)


def test_the_same_name_means_the_same_settings_in_all_experiments():
    found = {}
    for name, experiment in EXPERIMENTS.items():
        for spec in experiment.runs(Asked(["AdapTauMF"], "ml-100k", [1], 8, (0.1, 0.2), (0.1, 0.2))):
            assert found.setdefault(spec.name, spec) == spec, name
    assert len(found) < sum(
        len(experiment.runs(Asked(["AdapTauMF"], "ml-100k", [1], 8, (0.1, 0.2), (0.1, 0.2))))
        for experiment in EXPERIMENTS.values()
    )


@given(st.integers(1, 2000))
def test_the_last_epoch_is_always_validated(epochs):
    step = eval_step(epochs)
    assert epochs % step == 0 and (step == 1 or 4 * step <= epochs)


def test_norm_ablation_takes_the_tau_that_validates_best():
    want = asked("norm-ablation", taus=(0.1, 0.2))
    # tau = 0.2 validates better for Y-N; 0.1 tests better, which has no say.
    runs = [
        made(spec, valid=spec.varied.get("tau", 0.0), recall=0.5 - spec.varied.get("tau", 0.0))
        for spec in norm_ablation.runs(want)
    ]
    rows = norm_ablation.table(want, runs)
    assert [row["users-items"] for row in rows] == ["N-N", "Y-N", "N-Y", "Y-Y"]
    assert [row["tau"] for row in rows] == [None, 0.2, 0.2, 0.2]
    assert rows[1]["recall@20"] == pytest.approx({"mean": 0.3, "std": 0.0})
    assert rows[1]["paper, yelp2018"] == "0.0709 / 0.0585"


def test_strategies_count_the_whole_grid_as_its_cost_and_show_the_paper():
    want = Asked(["AdapTauMF"], "ml-1m", [1, 2], 8, (0.1, 0.2, 0.4))
    runs = [made(spec, valid=-abs(spec.varied.get("tau", 1) - 0.2), seconds=10.0) for spec in strategies.runs(want)]
    rows = {row["temperature"]: row for row in strategies.table(want, runs)}
    assert list(rows) == [
        "No norm", "Grid search, tau = 0.2", "C-tau", "Cu-tau", "Adap-tau_0", "Adap-tau", "AdapTauMF+"
    ]  # fmt: skip
    grid = rows["Grid search, tau = 0.2"]
    assert (grid["runs a seed"], grid["seconds a seed"]) == (3, "30.0")
    assert rows["Adap-tau"]["seconds a seed"] == "10.0" and rows["Adap-tau"]["paper"] == "0.2815 / 0.2673"
    assert rows["AdapTauMF+"]["paper"] is None
    # Also from a part of the runs.
    assert strategies.table(want, runs[:1])[0]["temperature"] == "No norm" and strategies.table(want, []) == []


def test_strategies_search_the_baselines_settings_on_validation():
    searched = {"starts": (0.1, 0.3), "tau-rates": (1e-3, 1e-4), "reg-weights": (1e-2,)}
    want = Asked(["AdapTauMF"], "ml-1m", [1, 2], 8, (0.2,), searched=searched)
    specs = strategies.runs(want)
    by_strategy = Counter(spec.varied.get("tau_strategy", "plus") for spec in specs if spec.varied["seed"] == 1)
    assert by_strategy == {
        "none": 2, "fixed": 1, "learned": 5, "learned_user": 5, "adaptive": 1, "adaptive_user": 1, "plus": 1
    }  # fmt: skip
    # The seeds' mean decides: of C-tau a start of 0.3 at 1e-4; of Cu-tau and No norm the settings of all rows. What
    # tests best has no say.
    scores = {
        ("learned", 0.3, 1e-4): (0.1, 0.9),
        ("learned", 0.1, 1e-3): (0.8, 0.0),
        ("learned_user", None, None): (1, 1),
    }

    def trained(spec):
        settings = spec.varied
        strategy = settings.get("tau_strategy")
        point = strategy, settings.get("tau"), settings.get("tau_learning_rate")
        if strategy == "none":
            return made(spec, valid=-settings.get("reg_weight", 0.0), recall=0.1, seconds=10.0)
        return made(spec, valid=scores.get(point, (0, 0))[settings["seed"] - 1], recall=0.2, seconds=10.0)

    runs = [trained(spec) for spec in specs]
    rows = {row["temperature"]: row for row in strategies.table(want, runs)}
    assert list(rows) == [
        "No norm", "Grid search, tau = 0.2", "C-tau, tau = 0.3, tau_learning_rate = 0.0001", "Cu-tau", "Adap-tau_0",
        "Adap-tau", "AdapTauMF+",
    ]  # fmt: skip
    assert [row["runs a seed"] for row in rows.values()] == [2, 1, 5, 5, 1, 1, 1]
    assert rows["Cu-tau"]["seconds a seed"] == "50.0" and rows["Cu-tau"]["recall@20"] == {"mean": 0.2, "std": 0.0}
    assert (
        "reg_weight = 0.01"
        in strategies.table(want, [run for run in runs if "reg_weight" in run["settings"]])[0]["temperature"]
    )
    assert strategies.draw(want, runs).axes[0].get_xticklabels()[2].get_text().startswith("C-tau\ntau = 0.3\n")


def test_an_option_without_values_is_no_search():
    experiment = EXPERIMENTS["strategies"]
    for words, starts in (([], experiment.quick_searched["starts"]), (["--starts"], []), (["--starts", "0.3"], [0.3])):
        args, _ = parser().parse_known_args(["strategies", "--quick", *words])
        found = command.asked_of(args, experiment, {}).searched
        assert found == {**experiment.quick_searched, "starts": starts}


def test_noise_global_compares_under_the_same_noise():
    want = Asked(["AdapTauMF"], "yelp2018", [1], 8, (0.1, 0.3), (0.2, 0.1))
    runs = [
        made(spec, valid=spec.varied.get("tau", 0.0) * (spec.varied.get("noise_ratio", 0) - 0.15))
        for spec in noise_global.runs(want)
    ]
    rows = noise_global.table(want, runs)
    assert [row["noise"] for row in rows] == [f"{share} %" for share in (0, 10, 20) for _ in range(3)]
    assert [row["temperature"] for row in rows[:3]] == ["Grid search", "Adap-tau", "Adap-tau, gap assumed"]
    # A small tau validates best without much noise, a large one with it; Adap-tau shows its tau_0.
    assert [row["tau, or tau_0"] for row in rows] == [0.1, 0.17, 0.17, 0.1, 0.17, 0.17, 0.3, 0.17, 0.17]
    assert [row["paper, yelp2018"] for row in rows[6:]] == ["0.0703 / 0.0584", *["0.0717 / 0.0593"] * 2]
    lines = [line.get_label() for line in noise_global.draw(want, runs).axes[1].lines]
    assert lines == ["best tau of the grid", "tau_0 of Adap-tau", "tau_0 of Adap-tau, gap assumed"]


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_an_assumed_gap_holds_in_every_epoch_and_raises_tau_0_with_noise(board, share):
    want = Asked(["AdapTauMF"], "board", [1], 6, shares=(0.1,), given=quoted({**board, "metrics": ["NDCG"]}))
    by_noise = {
        spec.varied.get("noise_ratio", 0.0): spec
        for spec in noise_global.runs(want)
        if "tau_startup_epochs" in spec.varied
    }
    model = build("AdapTauMF", by_noise[share].settings(Path("run"))).model
    data = model.interactions
    assert len(data) == 480 * (1 + share)
    colours = (torch.arange(49) - 1) % 4
    buyers = torch.zeros(49, 4).index_put_((data.items, colours[data.users]), torch.ones(len(data)), accumulate=True)
    with torch.no_grad():  # everybody points to the colour
        model.user_embedding.weight[1:] = torch.eye(8)[colours[1:]]
        model.item_embedding.weight[1:] = torch.eye(8)[buyers.argmax(1)[1:]]
    assert model.view().gap > 0.3
    for epoch in (0, 5):
        tau_0 = model.begin_epoch(epoch)["tau_0"]
        assert tau_0 == pytest.approx(0.7 / math.log(48 * 48 / (2 * len(data))))


def test_approximation_also_counts_only_users_above_the_authors_quantile():
    """Two users have 2 positives, one 3, nine 4: the 20 % quantile is 3.2, so that nine count."""
    rng, generator = np.random.default_rng(1), torch.Generator().manual_seed(1)
    users, items = (normalize(torch.randn(number, 5, generator=generator)) for number in (13, 21))
    users[4:] = normalize(users[4:] + 2)  # so that the gap is positive: items 11 to 20 are liked
    items[11:] = normalize(items[11:] + 1)
    sizes = [2, 2, 3, *[4] * 9]
    pairs = [(user, item) for user, size in enumerate(sizes, 1) for item in rng.permutation(10)[:size] + 11]
    rows, columns = np.array(pairs).T
    view = EpochView(0, lambda: (users, items), Interactions(rows, columns, 13, 21))
    upper = approximation.upper_view(view)
    assert view.log_ratio == pytest.approx(math.log(12 * 20 / (2 * 43)))
    assert upper.log_ratio == pytest.approx(math.log(9 * 20 / (2 * 36)))
    scores, kept = (users.double() @ items.double().T).numpy(), rows > 3
    gap = scores[rows[kept], columns[kept]].mean() - scores[4:, 1:].mean()
    variances = scores[rows[kept], columns[kept]].var() - scores[4:, 1:].var()
    assert gap > 0.1
    found, ratio = approximation.closed_forms(upper), upper.log_ratio
    assert found["simplified"] == pytest.approx(gap / ratio, rel=1e-4)
    assert found["with_variances"] == pytest.approx(global_tau(gap, ratio, 0.0, math.inf, variances), rel=1e-3)
    want = asked("approximation")
    measured = dict.fromkeys(approximation.COLUMNS, 0.1) | {f"{key}_upper": tau for key, tau in found.items()}
    row = approximation.table(want, [made(approximation.runs(want)[0], measured=measured)])[0]
    assert row["simplified, users above the 20 % quantile"]["mean"] == found["simplified"]


def test_gradient_says_where_it_peaks_and_whether_lemma_3_may_be_used():
    want = asked("gradient", taus=(0.02, 0.1, 0.2))

    def trained(spec):
        tau = spec.varied.get("tau")
        measured = {"exact": -abs((tau or 0) - 0.1), "sampled": tau or 0, "bound": 1.0, "mass": 0.28}
        measured |= {"sampled_mass": 0.9, "sigma": 0.24, "sigma_positive": 0.2}
        if tau is None:
            points = np.arange(40.0)
            measured["curve"] = {"tau": gradient.CURVE.tolist(), "exact": (-points).tolist()}
            measured["curve"] |= {"bound": points.tolist(), "sampled": np.minimum(points, 20.0).tolist()}
        return made(spec, valid=tau or 0.0, measured=measured)

    runs = [trained(spec) for spec in gradient.runs(want)]
    rows = gradient.table(want, runs)
    assert [row["trained at"] for row in rows] == ["tau = 0.02", "tau = 0.1", "tau = 0.2", "Adap-tau_0"]
    assert (rows[2]["mean gradient, 1 + 1024 items"], rows[2]["sigma of scores"]) == (0.2, 0.24)
    _, peaks, premise = gradient.remarks(want, runs)
    assert "at tau = 0.1 over the catalogue and at tau = 0.2 over 1 + 1024 items" in peaks
    assert "the exact curve peaks at 0.020, the bound at 1.000" in peaks
    assert f"1 + 1024 items at {gradient.CURVE[20]:.3f}" in peaks
    assert "Lemma 3 does not hold" in premise and "tau_0 / 2 = 0.085" in premise and "0.280 of the softmax" in premise
    for sigma, word in ((0.084, "may hold"), (0.086, "does not hold")):  # tau_0 is 0.17
        calm = [{**run, "measured": {**run["measured"], "sigma": 0.02, "sigma_positive": sigma}} for run in runs]
        assert f"Lemma 3 {word}" in gradient.remarks(want, calm)[-1]
    assert EXPERIMENTS["gradient"].taus[0] == EXPERIMENTS["gradient"].quick_taus[0] == gradient.CURVE[0] == 0.02


def test_a_measurement_that_an_earlier_version_has_left_is_repeated_if_it_lacks_something(monkeypatch):
    calls = []
    experiment = replace(
        EXPERIMENTS["gradient"], measure=lambda run: calls.append(run) or dict.fromkeys(gradient.MEASURED, 0.5)
    )
    monkeypatch.setattr(command, "SavedRun", str)
    folder = Path("out/run")
    folder.mkdir(parents=True)
    (folder / "gradient.json").write_text('{"exact": 1.0}')
    for _ in range(2):
        (run,) = command.with_measures(experiment, [{"folder": "run"}], Path("out"))
        assert run["measured"] == dict.fromkeys(gradient.MEASURED, 0.5) and len(calls) == 1


def test_significance_pairs_users_and_seeds():
    want = Asked(["AdapTauMF"], "ml-1m", [1, 2], 8, (0.1,), root=Path("out"))
    rng = np.random.default_rng(0)
    base = rng.random((200, 20)) < 0.3

    def trained(spec):
        """The first place is a hit for everybody with Adap-tau, and as the others have it without."""
        hits = base.copy()
        hits[:, 0] |= spec.varied.get("tau_strategy") == "adaptive_user" and "recipe" not in spec.varied
        run = RunFolder(want.root / "runs" / spec.name)
        run.write_tested(
            {
                "user": np.arange(200).astype(str),
                "hits": hits,
                "positives": np.full(200, 20),
                "positive_items": np.arange(4000),
                "item_counts": np.ones(9),
            }
        )
        run.finish({"seed": spec.varied["seed"]})
        return made(spec, recall=hits.mean() + 0.001 * spec.varied["seed"])

    runs = [trained(spec) for spec in significance.runs(want)]
    found = {(name, metric): (users, seeds) for name, metric, users, seeds in significance.comparisons(want, runs)}
    assert set(found) == {
        (name, metric)
        for name in ("No norm", "Grid search", "Adap-tau_0", "AdapTauMF+")
        for metric in ("recall@20", "ndcg@20")
    }
    users, seeds = found["No norm", "recall@20"]
    gained = (~base[:, 0]).mean() / 20
    assert users.users == 200 and users.difference == pytest.approx(gained) and users.p < 1e-9 and seeds.users == 2
    assert seeds.difference == pytest.approx(gained)
    rows = significance.table(want, runs)
    assert len(rows) == 8 and rows[1]["metric"] == "NDCG@20" and significance.table(want, runs[:2]) == []
    assert significance.comparisons(want, [run for run in runs if run["name"].count("adaptive")])[0][2].p < 1e-9


def test_sota_has_the_runs_of_the_leaderboard():
    board = Board(entries(["AdapTauMF", "SGL"], "ml-1m"), "ml-1m", 1, 40.0, {"protocol": "'honest'"}, Path("out"))
    asked_for = {"protocol": "'honest'", "budget_minutes": 40}
    want = Asked(["AdapTauMF", "SGL"], "ml-1m", [FIRST_SEED], 0, given=asked_for)
    specs = sota.runs(want)
    assert specs == board.first_runs()
    assert "epochs" not in specs[0].settings(Path("x")) and specs[1].settings(Path("x"))["ssl_tau"] == 0.5
    assert sota.runs(replace(want, epochs=3))[0].settings(Path("x"))["epochs"] == 3
    rows = sota.table(want, [made(spec, seconds=8.0, stopped_by="budget") for spec in specs])
    assert [row["method"] for row in rows] == ["AdapTauMF", "SGL"]
    assert rows[1]["seconds an epoch"] == 2.0 and rows[1]["stopped by"] == "budget"
    want = replace(want, models=[*MODELS, "XSimGCL"])
    figure = sota.draw(want, [made(spec, stopped_by=None) for spec in sota.runs(want)])
    looks = {(line.get_marker(), line.get_color()) for line in figure.axes[0].lines}
    assert len(looks) == len({*MODELS, "XSimGCL"}), "every model can be told from the others"


def test_tables_from_nothing_and_pictures_from_planted_runs():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.table(asked(name), []) == []
    want = asked("tau-sweep", taus=(0.05, 0.2))
    spread = np.linspace(0.1, 0.3, len(tau_sweep.QUANTILES)).tolist()
    runs = [made(spec, measured={"tau_u": spread}) for spec in tau_sweep.runs(want)]
    rows = {row["temperature"]: row for row in tau_sweep.table(want, runs)}
    assert rows["Adap-tau"]["tau_u: 5 %, median, 95 %"] == "0.110, 0.200, 0.290"
    assert rows["tau = 0.05"]["recall@20 of the best fixed tau"] == "100.0 %"
    figure = tau_sweep.draw(want, runs)
    assert figure.get_suptitle().endswith("\nhonest protocol: epoch chosen on validation")
    assert figure.axes[0].get_xlabel() == "temperature tau (log scale)"
    drawn = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"Adap-tau: 1.000", "Adap-tau_0: 1.000", "tau_u of Adap-tau", "tau_u of Cu-tau"} <= set(drawn)


def test_normalisation_draws_the_tables_figures():
    want = asked("norm-ablation")
    runs = [made(spec, recall=0.1 * place) for place, spec in enumerate(norm_ablation.runs(want), start=1)]
    rows = norm_ablation.table(want, runs)
    figure = norm_ablation.draw(want, runs)
    points = {line.get_label(): line.lines[0].get_ydata() for line in figure.axes[0].containers}
    for name in ("recall@20", "NDCG@20"):
        assert list(points[name]) == [row[name]["mean"] for row in rows]


def test_an_empty_popularity_group_stays_a_gap():
    want = asked("magnitude")
    norms = [[1.0] * 9 + [None]] * 2
    measured = {
        "items": [5] * 9 + [0], "norms": norms, "recall": [[0.1] * 10] * 2, "positive_score": [1.0, 2.0],
        "test_recall": [0.02] * 10, "epoch": [0, 1], "valid_recall": [0.1, 0.2],
    }  # fmt: skip
    runs = [made(spec, measured=measured) for spec in magnitude.runs(want)]
    rows = magnitude.table(want, runs)
    assert (
        rows[0]["norm first → last epoch, No norm"] == "1.00 → 1.00"
        and "nan" in rows[9]["norm first → last epoch, No norm"]
    )
    assert len(magnitude.draw(want, runs).axes) == 4


def test_csv_and_markdown_hold_the_same_table():
    rows = [{"a": 0.123456789, "b": {"mean": 0.5, "std": 0.25}, "c": None}, {"a": "x", "d": 1234.5}]
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert read[0] == {"a": "0.123456789", "b": "0.5", "b std": "0.25", "c": "", "d": ""}
    assert read[1]["a"] == "x" and read[1]["d"] == "1234.5"
    assert as_markdown(rows)[2:] == ["| 0.1235 | 0.5000 ± 0.2500 | – | – |", "| x | – | – | 1,234 |"]
    assert as_markdown([]) == ["No run is finished yet."]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tau-sweep"], "tau-sweep needs --dataset NAME, or --quick"),
        (["tau-sweep", "--quick", "--taus", "0", "0.1"], "tau = 0.0: must be a number at least 0.0001"),
        (["tau-sweep", "--quick", "--taus", "0.01"], "tau = 0.01 is below tau_min"),
        (["tau-sweep", "--quick", "--taus", "0.1", "0.1"], "--taus: 0.1 is given twice"),
        (["strategies", "--quick", "--tau-rates", "0.1", "0.1"], "--tau-rates: 0.1 is given twice"),
        (["strategies", "--quick", "--tau-rates", "0"], "tau_learning_rate = 0.0: must be a number above 0"),
        (["strategies", "--quick", "--starts", "0.01"], "tau = 0.01 is below tau_min"),
        (["noise-global", "--quick", "--shares", "1.5"], "--shares 1.5: a share of noise lies between 0 and 1"),
        (["noise-local", "--quick", "--shares", "-0.1"], "--shares -0.1: a share of noise"),
        (["fairness", "--quick", "--epochs", "0"], "--epochs 0: must be at least 1"),
        (["fairness", "--quick", "--model", "AdapTauMF", "AdapTauLightGCN"], "takes one model at a time"),
        (["fairness", "--quick", "--model", "BPR"], "is about tau, which BPR does not have"),
        (["fairness", "--quick", "--tau=0.2"], "tau is set for each run by this command: use --taus"),
        (["fairness", "--quick", "--protocol", "paper"], "needs data with a given split"),
        (["fairness", "--dataset", "no-such-data"], "no-such-data"),
    ],
)
def test_bad_input_is_said_before_anything_is_trained_or_written(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "carry_out", lambda *_: pytest.fail("something is trained"))
    assert main(words) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    "words", [["tau-swep", "--quick"], ["tau-sweep", "--quick", "--taus"], ["tau-sweep", "--seeds", "x"]]
)
def test_what_the_parser_refuses(words, capsys):
    assert main(words) == 2
    assert "error" in capsys.readouterr().err
