"""The closed forms of Adap-tau as pure functions, in float64.

Symbols: f(u, i) is the score a temperature divides (a cosine), F its distribution over all user-item pairs,
F+ over the training positives; mu, sigma² and mu+, sigma+² are their means and variances; n users, m items,
|D| positives; tau_0 is the global temperature, tau_u a user's own.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import lambertw
from torch import Tensor

_BRANCH_POINT = -1.0 / math.e  # the real Lambert W begins here, at W = -1


def all_pair_moments(users: Tensor, items: Tensor) -> tuple[float, float]:
    """Mean and variance of u·i over every user-item pair, without visiting the n·m pairs.

    mu = mean(u)·mean(i) and E[f²] = tr(C_u C_i) with C the d×d second moments: O((n + m) d²).

    Shape: users [n, d], items [m, d].
    """
    u, i = users.double(), items.double()
    mu = (u.mean(0) @ i.mean(0)).item()
    second = ((u.T @ u) * (i.T @ i)).sum().item() / (len(u) * len(i))
    return mu, max(second - mu * mu, 0.0)


def positive_sums(users: Tensor, items: Tensor, indptr: Tensor, columns: Tensor) -> Tensor:
    """Each user's sum of u·i over its own items, as one sparse product: no pair is gathered.

    Shape: users [n, d], items [m, d]; user u's items are columns[indptr[u]:indptr[u + 1]] → [n].
    """
    ones = torch.ones(len(columns), dtype=items.dtype, device=items.device)
    size = (len(users), len(items))
    matrix = torch.sparse_csr_tensor(indptr.int(), columns.int(), ones, size, check_invariants=False)
    return (users * (matrix @ items)).sum(1).double()


def positive_moments(
    users: Tensor, items: Tensor, pair_users: Tensor, pair_items: Tensor, chunk: int = 1 << 16
) -> tuple[float, float]:
    """Mean and variance of u·i over the given pairs, in chunks so that memory stays bounded.

    Shape: users [n, d], items [m, d], pair_users [P], pair_items [P] (rows of `users` and `items`).
    """
    total = square = 0.0
    for u, i in zip(pair_users.split(chunk), pair_items.split(chunk), strict=True):
        scores = (users[u] * items[i]).sum(1).double()
        total += scores.sum().item()
        square += scores.square().sum().item()
    mean = total / len(pair_users)
    return mean, max(square / len(pair_users) - mean * mean, 0.0)


def quantile(values: Tensor, share: float) -> float:
    """The value below which a share of the given ones lies; `torch.quantile` refuses more than 16 million."""
    return float(np.quantile(values.cpu().numpy(), share))


def log_odds(n_users: int, n_items: int, n_positives: int) -> float:
    """log(n·m / 2|D|): positive exactly when the data is sparser than one half."""
    return math.log(n_users * n_items / (2.0 * n_positives))


def global_tau(
    gap: float, log_ratio: float, tau_min: float, tau_max: float, variance_gap: float | None = None
) -> float:
    """tau_0, the temperature at which a user's positives hold half of the softmax (paper, Lemmas 2 and 3).

    Simplified: (mu+ − mu) / log(nm / 2|D|). With variances, the paper's quotient is multiplied out to
    (gap + sqrt(gap² + 2 Δ L)) / 2L, which is the same number but has no 0/0 at Δ = sigma+² − sigma² = 0.
    Where the root is not real, one half is never reached and the closest point, tau = −Δ / gap, is taken.

    Data denser than one half (L <= 0) has its positives above one half at every temperature: the larger the
    temperature the closer, so the answer is `tau_max`. A gap that is not positive gives `tau_min`.

    Args:
        gap: mu+ − mu.
        log_ratio: L = log(nm / 2|D|), see `log_odds`.
        tau_min: The paper's lower bound T.
        tau_max: Upper bound.
        variance_gap: sigma+² − sigma² for the form with variances; None for the simplified form.
    """
    if log_ratio <= 0:
        return tau_max
    if gap <= 0:
        return tau_min
    if variance_gap is None:
        tau = gap / log_ratio
    else:
        discriminant = gap * gap + 2 * variance_gap * log_ratio
        tau = (gap + math.sqrt(discriminant)) / (2 * log_ratio) if discriminant >= 0 else -variance_gap / gap
    return min(max(tau, tau_min), tau_max)


def user_taus(
    tau_0: float, losses: NDArray[np.float64], threshold: float, beta: float, tau_min: float, tau_max: float
) -> NDArray[np.float64]:
    """tau_u = tau_0 · exp(W(max(−1/e, (L(u) − m_u) / 2 beta))), the paper's closed form.

    It minimises tau_0 (L(u) − m_u) / tau_u + beta (log tau_u − log tau_0)². The paper's superloss has no tau_0 in its
    first term; taken to the letter its minimiser would divide by 2 beta tau_0. We follow the closed form, as the
    authors' code does.

    Shape: losses [n] → [n], each within [tau_min, tau_max].
    """
    argument = np.maximum((np.asarray(losses, dtype=np.float64) - threshold) / (2.0 * beta), _BRANCH_POINT)
    # At the branch point itself scipy may return a tiny imaginary part or nan; W is -1 there.
    w = np.nan_to_num(lambertw(argument).real, nan=-1.0)
    return np.clip(tau_0 * np.exp(w), tau_min, tau_max)


def expected_gradient(mass: Tensor, tau: Tensor, n_items: int) -> Tensor:
    """E_i |dL/df(u, i)| = 2 / (m tau) · s (1 − s), s the softmax mass of the user's positives at temperature tau.

    Shape: mass [U], tau [U] → [U].
    """
    return 2.0 / (n_items * tau) * mass * (1.0 - mass)
