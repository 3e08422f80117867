"""A run by closed form is told when positives it was not trained on ask for another temperature."""

import pytest
import torch

import recbole_adaptau
from recbole_adaptau.cli.train import summary
from recbole_adaptau.core.calibration import Calibration
from recbole_adaptau.runs import temperature_check
from recbole_adaptau.runs.folder import RunFolder
from recbole_adaptau.runs.temperature_check import calibrated_temperatures, temperature_advice
from tests.conftest import checkerboard, write_inter
from tests.helpers import build


@pytest.fixture
def larger(tmp_path, board):
    """Ninety-six users, each with a validation positive: enough to measure on."""
    for part, pairs in zip(("train", "valid", "test"), checkerboard(users=96), strict=True):
        write_inter(tmp_path / "data", "board", pairs, part)
    return {**board, "epochs": 3, "num_negatives": 20}


# tau_0 by closed form, what validation positives say, and whether to warn: the relations found on electronic,
# gowalla-iid and ml-1m (docs/method.md).
KNOWN = [
    (0.086, Calibration(0.137, 2.0), True),
    (0.099, Calibration(0.16, 2.0), True),
    (0.089, Calibration(0.07, 1.5), False),
    (0.163, Calibration(0.125, 1.2), False),
    (0.5, Calibration(0.2, 1.0), True),
    (0.377, Calibration(96.2, 1.0), False),  # a model that has learned nothing
]


@pytest.mark.parametrize(("tau_0", "found", "warned"), KNOWN)
@pytest.mark.parametrize("strategy", ["adaptive", "adaptive_user"])
def test_advice(tau_0, found, warned, strategy):
    result = {
        "tau_strategy": strategy, "tau_0": tau_0, "calibrated_tau": found.new, "advised_tau": found.advised
    }  # fmt: skip
    advice = temperature_advice(result)
    assert (advice is not None) == warned
    if advice:
        assert (
            f"tau_0 = {tau_0:.3f}" in advice
            and f"--tau_strategy={strategy.replace('adaptive', 'calibrated')}." in advice
        )


@pytest.mark.parametrize("result", [{}, {"tau_0": 0.1, "tau_strategy": "fixed"}])
def test_nothing_measured_gives_no_advice(result):
    assert temperature_advice(result) is None


def run(settings, folder, **changes):
    recbole_adaptau.run_recbole_adaptau("AdapTauMF", "board", None, {**settings, **changes, "run_folder": folder})
    return RunFolder(folder)


def test_a_run_says_it_in_its_last_line_and_in_its_result(larger, monkeypatch):
    found = Calibration(1.9, 1.0)
    monkeypatch.setattr(temperature_check, "calibration", lambda *args: found)
    done = run(larger, "told")
    result = done.read_result()
    assert (result["calibrated_tau"], result["advised_tau"]) == (1.9, 1.9)
    assert summary(done).splitlines()[-1] == temperature_advice(result)
    assert "Try --tau_strategy=calibrated_user." in summary(done)


def test_the_measurement_changes_no_result(larger, monkeypatch):
    measured = run(larger, "measured").read_result()
    monkeypatch.setattr(temperature_check, "calibration", lambda *args: Calibration(0.1, 1.0))
    other = run(larger, "other").read_result()
    assert measured["calibrated_tau"] > 0 and measured["calibrated_tau"] != other["calibrated_tau"]
    assert all(measured[key] == other[key] for key in ("test_result", "best_valid_result", "tau_0", "tau_u"))


@pytest.mark.parametrize("strategy", ["fixed", "learned", "calibrated"])
def test_only_a_closed_form_is_measured(larger, strategy):
    assert "calibrated_tau" not in run(larger, "run", tau_strategy=strategy).read_result()


def test_too_few_validation_positives_measure_nothing(board):
    built = build("AdapTauMF", board)
    assert calibrated_temperatures(built.model, built.valid, seed=0) == {}
    assert calibrated_temperatures(built.model, None, seed=0) == {}


def test_it_is_the_minimum_over_validation_positives(larger):
    built = build("AdapTauMF", larger)
    model, data = built.model, built.valid._dataset.inter_feat
    with torch.no_grad():  # users near their validation items, so that the minimum is inside the range
        model.user_embedding.weight[data["user_id"]] = model.item_embedding.weight[data["item_id"]] + 0.1 * torch.randn(
            len(data), 8
        )
    found = calibrated_temperatures(model, built.valid, seed=0)["calibrated_tau"]
    users, items = model.view().embeddings
    scores = users[data["user_id"]] @ items[1:].T

    def nll(tau):
        return torch.nn.functional.cross_entropy(scores / tau, data["item_id"] - 1).item()

    assert nll(found) <= min(nll(0.9 * found), nll(1.1 * found))
