"""Reasons against a loop over a user's items."""

from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from recbole_adaptau.serving.explain import reasons


@given(st.integers(0, 10**6), st.booleans(), st.integers(0, 5), st.integers(1, 4))
def test_reasons_are_the_largest_positive_terms_or_the_nearest(seed, regression, own, number):
    rng = np.random.default_rng(seed)
    directions = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(9, 3))), dim=1)
    weights = np.where(rng.random((9, 9)) < 0.3, rng.normal(size=(9, 9)), 0.0)
    kept = SimpleNamespace(
        item_weights=(None, sp.csr_array(weights)) if regression else None, item_directions=directions
    )
    items, liked = rng.permutation(8)[:3] + 1, rng.permutation(8)[:own] + 1
    found = reasons(kept, items, liked, number)
    assert len(found) == 3
    for item, places in zip(items, found, strict=True):
        strength = {other: float(directions[item] @ directions[other]) for other in liked}
        terms = {other: weights[item, other] for other in liked if weights[item, other] > 0}
        strength = terms if regression and terms else strength
        assert places.tolist() == sorted(strength, key=lambda other: -strength[other])[:number]


def test_of_equally_strong_items_the_first_are_named():
    strengths = torch.tensor([1.0, 0.5, 0.25]).repeat(20).unsqueeze(1)  # items 0, 3, 6, … are the nearest
    kept = SimpleNamespace(item_weights=None, item_directions=strengths)
    (found,) = reasons(kept, np.array([0]), np.arange(2, 52), 20)
    assert found.tolist() == [*range(3, 52, 3), 4, 7, 10]
