"""The quantities behind tau_0, computed from all scores instead of by a closed form."""

import math
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from torch import Tensor

from ..core.closed_form import all_pair_moments, expected_gradient, positive_moments
from ..core.epoch_view import EpochView

# Users whose whole softmax is computed, spread evenly over the active ones: enough for three digits of a mean.
USERS = 2048
CHUNK = 256
# Items that stand for the catalogue in a row of training: the paper's number of negatives.
SAMPLED = 1024
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


@torch.no_grad()
def sampled_gradient(view: EpochView, tau: float, users: Tensor) -> dict[str, float]:
    """The same over the items of a row of training: one positive of each user and `SAMPLED` items drawn uniformly.

    E_u[2 / (r tau) s_u (1 − s_u)], s_u the softmax mass of the positive and r the length of the row. All rows have the
    same drawn items; one that is the row's own positive is left out. The draw is the same at every temperature.
    """
    everybody, items = view.embeddings
    data, generator = view.interactions, torch.Generator().manual_seed(0)
    places = (torch.rand(len(users), generator=generator).to(users.device) * data.user_counts[users]).long()
    positives = data.items[data.indptr[users] + places]
    drawn = (torch.randperm(data.n_real_items, generator=generator)[:SAMPLED] + 1).to(users.device)
    added = items.new_zeros(len(items)) if view.item_logits is None else view.item_logits.to(items)
    parts = []
    for rows, own in zip(users.split(CHUNK), positives.split(CHUNK), strict=True):
        positive = (everybody[rows] * items[own]).sum(1, keepdim=True) / tau + added[own].unsqueeze(1)
        others = everybody[rows] @ items[drawn].T / tau + added[drawn]
        others = others.masked_fill(drawn == own.unsqueeze(1), -torch.inf)
        parts.append(torch.cat([positive, others], dim=1).double().softmax(dim=1)[:, 0])
    mass = torch.cat(parts)
    found = expected_gradient(mass, torch.full_like(mass, tau), 1 + len(drawn))
    return {"sampled": found.mean().item(), "sampled_mass": mass.mean().item()}


def score_deviations(view: EpochView) -> dict[str, float]:
    """Standard deviations of the scores over all pairs and over the training positives, which Lemma 3 bounds."""
    users, items = view.embeddings
    data = view.interactions
    _, everything = all_pair_moments(users[data.active_users], items[1:])
    _, positive = positive_moments(users, items, data.users, data.items)
    return {"sigma": math.sqrt(everything), "sigma_positive": math.sqrt(positive)}


def gradient_curve(view: EpochView, taus: NDArray[np.float64]) -> dict[str, list[float]]:
    """`gradient` and `sampled_gradient` at each temperature, the embeddings staying what they are."""
    users = chosen_users(view)
    points = [gradient(view, float(tau), users) | sampled_gradient(view, float(tau), users) for tau in taus]
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
