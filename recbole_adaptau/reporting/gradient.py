"""The quantities behind tau_0, computed from all scores instead of by a closed form."""

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor

from ..core.closed_form import expected_gradient
from ..core.epoch_view import EpochView

# Users whose whole softmax is computed, spread evenly over the active ones: enough for three digits of a mean.
USERS = 2048
CHUNK = 256
# Where a temperature is looked for.
LOWEST, HIGHEST, STEPS = 0.01, 2.0, 40


def chosen_users(view: EpochView, number: int = USERS) -> Tensor:
    active = view.interactions.active_users
    places = torch.linspace(0, len(active) - 1, min(number, len(active)), device=active.device)
    return active[places.long()]


def masses(view: EpochView, users: Tensor, tau: float | Tensor) -> Tensor:
    """The softmax mass of each user's positives. Shape: users [B], tau a number or [B] → [B], float64."""
    taus = torch.as_tensor(tau, dtype=torch.float32, device=users.device).expand(len(users))
    parts = zip(users.split(CHUNK), taus.split(CHUNK), strict=True)
    return torch.cat([view.positive_mass(part, at) for part, at in parts]).double()


def gradient(view: EpochView, tau: float | Tensor, users: Tensor) -> dict[str, float]:
    """The mean gradient magnitude at a temperature, exactly and by the bound of the paper's Lemma 2.

    Exactly: E_u[2 / (m tau) s_u (1 − s_u)], s_u the mass of the user's positives. The bound: 2 / (m tau) times
    E s − (E s)², where the paper puts the lower bound T in place of tau.
    """
    mass = masses(view, users, tau)
    taus = torch.as_tensor(tau, dtype=torch.float64, device=mass.device).expand(len(users))
    mean, m = mass.mean().item(), view.interactions.n_real_items
    bound = 2.0 / m * (1.0 / taus).mean().item() * (mean - mean * mean)
    return {"exact": expected_gradient(mass, taus, m).mean().item(), "bound": bound, "mass": mean}


def gradient_curve(view: EpochView, taus: NDArray[np.float64]) -> dict[str, list[float]]:
    """`gradient` at each temperature, the embeddings staying what they are."""
    users = chosen_users(view)
    points = [gradient(view, float(tau), users) for tau in taus]
    return {"tau": [float(tau) for tau in taus], **{key: [point[key] for point in points] for key in points[0]}}


def half_mass_tau(view: EpochView) -> float | None:
    """The largest tau with E_u[sum of p over the user's positives] = 1/2; None where there is none."""
    users = chosen_users(view)

    def excess(log_tau: float) -> float:
        return masses(view, users, float(np.exp(log_tau))).mean().item() - 0.5

    grid = np.linspace(np.log(HIGHEST), np.log(LOWEST), STEPS)
    values = excess(grid[0])
    for above, below in pairwise(grid):
        following = excess(below)
        if values <= 0 <= following or following <= 0 <= values:
            return float(np.exp(brentq(excess, below, above, xtol=1e-5)))
        values = following
    return None


def best_tau(view: EpochView) -> float:
    """The tau of the largest mean gradient magnitude, found by looking everywhere and then closely."""
    users = chosen_users(view)
    grid = np.geomspace(LOWEST, HIGHEST, STEPS)
    values = [gradient(view, float(tau), users)["exact"] for tau in grid]
    place = int(np.argmax(values))
    bounds = np.log(grid[max(place - 1, 0)]), np.log(grid[min(place + 1, STEPS - 1)])
    found = minimize_scalar(
        lambda x: -gradient(view, float(np.exp(x)), users)["exact"],
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x))
