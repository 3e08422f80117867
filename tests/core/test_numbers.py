"""Finite for every configuration in the allowed ranges, and the same bits for the same seed."""

import copy
import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recbole.config import Config

from recbole_adaptau.core.closed_form import global_tau, user_taus
from recbole_adaptau.core.row_adam import RowAdam
from recbole_adaptau.core.settings import TAU_LEAST, TAU_MOST
from recbole_adaptau.core.strategies import STRATEGIES
from recbole_adaptau.errors import TrainingError
from recbole_adaptau.model import AdapTauLightGCN, AdapTauMF
from recbole_adaptau.recipe import PARTS
from tests.conftest import write_inter
from tests.helpers import build, trainer_of

SAMPLED = {"distribution": "uniform", "sample_num": 3}
PER_ROW = {"negatives": "per_row", "train_neg_sample_args": SAMPLED}
SIZE = 6
# NUMBERS_CASES=5000 for a long run.
CASES = int(os.environ.get("NUMBERS_CASES", "100"))


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """Users with one interaction, with several and with nearly all; an item everybody has, and one nobody trains on."""
    folder = tmp_path_factory.mktemp("plant")
    train = [("one", "i0"), ("other", "i1")] + [(f"u{u}", f"i{i}") for u in range(6) for i in range(8) if (u + i) % 3]
    train += [(f"u{u}", "i8") for u in range(6)] + [("heavy", f"i{i}") for i in range(9)] * 2
    for part, pairs in {"train": train, "valid": [("u1", "i9")], "test": [("u2", "i9"), ("cold", "i10")]}.items():
        write_inter(folder, "plant", pairs, part)
    common = {
        "data_path": str(folder), "benchmark_filename": ["train", "valid", "test"], "topk": [2],
        "valid_metric": "NDCG@2", "embedding_size": SIZE, "show_progress": False, "state": "ERROR",
        "train_batch_size": 4096,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["test"])
        rows = build("AdapTauLightGCN", common, "plant")
        per_row = build(
            "AdapTauLightGCN", {**common, "negatives": "per_row", "train_neg_sample_args": SAMPLED}, "plant"
        )
    return {"built": rows, "batch": next(iter(rows.train)), "per_row": next(iter(per_row.train))}


def log_uniform(least: float, most: float):
    return st.floats(np.log10(least), np.log10(most)).map(lambda power: float(np.clip(10.0**power, least, most)))


@st.composite
def configurations(draw) -> dict:
    """Any configuration that the settings allow, as far as numbers come of it."""
    strategy = draw(st.sampled_from(list(STRATEGIES)))
    bounds = sorted([draw(log_uniform(TAU_LEAST, TAU_MOST)), draw(log_uniform(TAU_LEAST, TAU_MOST))])
    values = {
        "tau_strategy": strategy,
        "tau_min": bounds[0],
        "tau_max": bounds[1],
        "tau_form": draw(st.sampled_from(["simplified", "with_variances"])),
        "tau_startup_gap": draw(log_uniform(TAU_LEAST, TAU_MOST)),
        "tau_startup_min_gap": draw(st.sampled_from([0.0, 0.2, 10.0])),
        "tau_user_quantile": draw(st.sampled_from([0.0, 0.2, 0.99])),
        "tau_user_balance": draw(st.floats(0, 10)),
        "positive_in_denominator": draw(st.booleans()),
        "normalization": "auto",
        "test_score": "auto" if strategy == "none" else draw(st.sampled_from(["auto", "cosine", "inner_product"])),
        "recipe_parts": draw(st.lists(st.sampled_from(list(PARTS)), unique=True)),
        "negatives": draw(st.sampled_from(["shared", "in_batch", "full", "per_row"])),
        "num_negatives": draw(st.integers(1, 50)),
        "negative_distribution": draw(st.sampled_from(["uniform", "popularity"])),
        "negative_alpha": draw(st.floats(0, 10)),
        "mask_hits": draw(st.booleans()),
        "logq_correction": draw(st.booleans()),
        "embedding_dropout": draw(st.sampled_from([0.0, 0.5, 0.99])),
        "reg_weight": draw(st.sampled_from([0.0, 1e-9, 1.0, 1e6])),
        "reg_negatives": draw(st.booleans()),
        "learner": draw(st.sampled_from(["adam", "row_adam"])),
        "n_layers": draw(st.integers(0, 3)),
        "edge_dropout": draw(st.sampled_from([0.0, 0.9])),
    }
    if strategy != "none":
        values["tau"] = max(draw(log_uniform(TAU_LEAST, TAU_MOST)), bounds[0])
        values["user_beta"] = draw(log_uniform(1e-6, 1e6))
        values["user_threshold"] = draw(st.sampled_from(["mean", 0.01, 0.9]))
        values["user_loss_tau"] = draw(st.one_of(st.just("tau_0"), log_uniform(TAU_LEAST, TAU_MOST)))
    if strategy.startswith("learned") or strategy == "fixed":
        values["normalization"] = draw(st.sampled_from(["Y-Y", "Y-N", "N-Y", "N-N"]))
    if not strategy.startswith("learned"):
        values["positive_tau"] = draw(st.sampled_from(["tau_u", "tau_0"]))
    if values["negatives"] == "per_row":
        values["train_neg_sample_args"] = {**SAMPLED, "alpha": 1.0, "dynamic": False, "candidate_num": 0}
    return values


KINDS = st.sampled_from([AdapTauMF, AdapTauLightGCN])
EMBEDDINGS = st.sampled_from(["as made", "zero", "some zero", "all alike", "opposite", "1e-30", "1e-12", "1e3", "1e6"])


def shape_embeddings(model, how: str) -> None:
    """Overwrite the tables with what training or bad luck may leave there; the padding stays zero."""
    with torch.no_grad():
        for table in (model.user_embedding.weight, model.item_embedding.weight):
            rows = table[1:]
            if how == "zero":
                rows.zero_()
            elif how == "some zero":
                rows[::2] = 0.0
            elif how in ("all alike", "opposite"):
                rows[:] = rows[0].clone()
            elif how != "as made":
                rows.mul_(float(how))
        if how == "opposite":
            model.item_embedding.weight[1:] *= -1


def finite(*tensors) -> bool:
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    configurations(), EMBEDDINGS, st.booleans(), st.sampled_from([AdapTauMF, AdapTauLightGCN]), log_uniform(1e-9, 100.0)
)
def test_temperatures_losses_gradients_and_scores_are_finite(plant, values, how, half, kind, rate):
    config = copy.copy(plant["built"].config)
    config.final_config_dict = {**config.final_config_dict, **values}
    torch.manual_seed(0)
    model = kind(config, plant["built"].train._dataset)
    shape_embeddings(model, how)
    optimiser = (RowAdam if values["learner"] == "row_adam" else torch.optim.Adam)(model.parameters(), lr=rate)
    batch = plant["per_row" if values["negatives"] == "per_row" else "batch"]
    for epoch in range(3):
        state = model.begin_epoch(epoch)
        assert all(np.isfinite(value) for value in state.values()), state
        tau = model.user_temperatures()
        assert finite(tau) and (tau > 0).all()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = model.calculate_loss(batch)
        assert finite(loss)
        optimiser.zero_grad()
        loss.backward()
        assert finite(*(p.grad.to_dense() for p in model.parameters() if p.grad is not None))
        optimiser.step()
        assert finite(*model.parameters())
        assert not model.user_embedding.weight[0].any() and not model.item_embedding.weight[0].any()
        model.eval()
        assert finite(*model.test_embeddings(), model.score_items(torch.arange(model.n_users)))
        model.train()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20),
    log_uniform(TAU_LEAST, TAU_MOST),
    log_uniform(1e-6, 1e6),
)
def test_extreme_user_losses_give_bounded_and_ordered_temperatures(losses, tau_0, beta):
    ordered = np.sort(np.array(losses))
    with np.errstate(over="ignore"):
        tau = user_taus(tau_0, ordered, float(np.median(ordered)), beta, TAU_LEAST, TAU_MOST)
    assert np.isfinite(tau).all() and (tau >= TAU_LEAST).all() and (tau <= TAU_MOST).all()
    assert (np.diff(tau) >= -1e-9 * tau[1:]).all(), "a higher loss never has a lower temperature"


@given(
    st.floats(-2, 2),
    st.floats(-30, 30),
    st.one_of(st.none(), st.floats(-1, 1)),
    log_uniform(TAU_LEAST, 1.0),
    log_uniform(1.0, TAU_MOST),
)
def test_tau_0_is_within_its_bounds_whatever_the_moments(gap, log_ratio, variance_gap, tau_min, tau_max):
    assert tau_min <= global_tau(gap, log_ratio, tau_min, tau_max, variance_gap) <= tau_max


REPEATED = {
    **{strategy: ("AdapTauMF", {"tau_strategy": strategy}) for strategy in STRATEGIES},
    "shared by popularity": ("AdapTauMF", {"num_negatives": 9, "negative_distribution": "popularity"}),
    "shared, few": ("AdapTauMF", {"num_negatives": 9}),
    "in_batch": ("AdapTauMF", {"negatives": "in_batch"}),
    "full": ("AdapTauMF", {"negatives": "full", "mask_hits": True}),
    "per_row": ("AdapTauMF", PER_ROW),
    "row-wise Adam": ("AdapTauMF", {"learner": "row_adam", "num_negatives": 9}),
    "dense Adam": ("AdapTauMF", {"learner": "adam", "num_negatives": 9}),
    "half precision": ("AdapTauMF", {"enable_amp": True}),
    "LightGCN with all dropouts": (
        "AdapTauLightGCN", {"edge_dropout": 0.3, "message_dropout": 0.2, "embedding_dropout": 0.1}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REPEATED)
def test_same_seed_same_bits(board, case):
    model, changes = REPEATED[case]

    def run(seed):
        built = build(model, {**board, **changes, "epochs": 2, "seed": seed})
        trainer = trainer_of(built)
        trainer.fit(built.train, built.valid, saved=False)
        result = trainer.evaluate(built.test, load_best_model=False)
        return built.model.state_dict(), result

    (first, result), (second, again), (other, _) = run(1), run(1), run(2)
    assert result == again and first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["user_embedding.weight"], other["user_embedding.weight"])


def test_a_run_that_diverges_ends_with_what_to_do(board):
    """Plain gradient descent on unbounded inner products at the largest rate grows without end."""
    settings = {
        **board,
        "tau_strategy": "none",
        "learner": "sgd",
        "learning_rate": 100,
        "reg_weight": 1e6,
        "epochs": 50,
    }
    built = build("AdapTauMF", settings)
    with pytest.raises(
        TrainingError, match=r"(?s)the training loss has become (nan|inf).*Lower learning_rate \(now 100"
    ):
        trainer_of(built).fit(built.train, built.valid, saved=False)


def test_the_allowed_ranges_are_those_of_this_test():
    """What is drawn above is let through by the configuration, at both ends."""
    for value in (TAU_LEAST, TAU_MOST):
        Config("AdapTauMF", "ml-100k", config_dict={"tau_min": TAU_LEAST, "tau_max": TAU_MOST, "user_loss_tau": value})
    for value in ({"user_beta": 1e-6, "reg_weight": 0}, {"user_beta": 1e6, "reg_weight": 1e6, "learning_rate": 100}):
        Config(
            "AdapTauMF", "ml-100k", config_dict={**value, "negative_alpha": 10, "negative_distribution": "popularity"}
        )
