"""Whether tau_0 of a finished run suits positives it was not trained on; told to whoever uses a closed form."""

from typing import Any

import numpy as np
import torch

from ..core.calibration import calibration, spread_places
from ..model.base import AdapTauRecommender

# Validation positives that are looked at, at most.
MOST_POSITIVES = 1024
# Newton steps: from tau_0, a factor of two away at most each, then quadratic.
STEPS = 8
# Temperatures further apart than this cost more than a few per cent of accuracy.
TIMES_APART = 1.5
# At a higher temperature cosines make next to no difference: such a model has learned nothing yet.
HIGHEST = 2.0


@torch.no_grad()
def calibrated_temperatures(model: AdapTauRecommender, valid_data: Any, seed: int) -> dict[str, float]:
    """The temperature that calibrates validation positives, and the one that `calibrated` would train at.

    For strategies whose tau_0 is a closed form of training positives; empty for others, and where validation positives
    of users with a training positive are too few. Nothing of the model changes.
    """
    if valid_data is None or not model.strategy.closed_form:
        return {}
    data, dataset = model.interactions, valid_data._dataset
    users, items = (np.asarray(dataset.inter_feat[name]) for name in (dataset.uid_field, dataset.iid_field))
    known = data.user_counts.cpu().numpy()[users] > 0
    users, items = users[known], items[known]
    places = spread_places(users, MOST_POSITIVES, seed, kept=0)
    if not len(places):
        return {}
    who, what = (torch.from_numpy(ids[places]).to(data.users) for ids in (users, items))
    view, tau_0 = model.view(), model.strategy.tau_0.item()
    found = calibration(view.embeddings, (who, what), view.mean_positive(who), view.item_logits, tau_0, STEPS)
    return {"calibrated_tau": found.new, "advised_tau": found.advised}


def temperature_advice(result: dict[str, Any]) -> str | None:
    """What to try when a run's tau_0 is far from the advised one; None when it is not, or was not measured."""
    advised, tau_0 = result.get("advised_tau"), result.get("tau_0")
    if not advised or not tau_0 or advised > HIGHEST or 1 / TIMES_APART <= tau_0 / advised <= TIMES_APART:
        return None
    strategy = "calibrated_user" if result["tau_strategy"].endswith("_user") else "calibrated"
    return (
        f"note: tau_0 = {tau_0:.3f} comes from training positives; validation positives are calibrated at "
        f"{result['calibrated_tau']:.3f} and advise {advised:.3f}. Try --tau_strategy={strategy}."
    )
