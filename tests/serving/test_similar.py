"""Nearest items against brute force."""

import numpy as np
import pytest
import torch

from recbole_adaptau.serving.similar import neighbours


def test_neighbours_are_those_of_brute_force_and_never_the_item_itself():
    directions = torch.nn.functional.normalize(torch.randn(40, 6, generator=torch.Generator().manual_seed(3)), dim=1)
    cosines = (directions.double() @ directions.double().T).numpy()
    rows = list(neighbours(directions, 5, scores_at_once=40 * 7))
    assert len(rows) > 1 and torch.cat([items for items, _, _ in rows]).tolist() == list(range(1, 40))
    for item, near, found in zip(*(torch.cat(part).tolist() for part in zip(*rows, strict=True)), strict=True):
        others = [other for other in np.argsort(-cosines[item]) if other not in (0, item)]
        assert near == others[:5]
        assert found == pytest.approx(cosines[item, others[:5]].tolist(), abs=1e-5)
    assert [len(items) for items, _, _ in neighbours(directions, 5, scores_at_once=1)] == [1] * 39
    ((some, near, _),) = neighbours(directions, 5, of=[7, 3])
    assert some.tolist() == [7, 3] and near.tolist() == [
        torch.cat([part[1] for part in rows])[item - 1].tolist() for item in (7, 3)
    ]
