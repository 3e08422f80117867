"""The training pairs in the forms that others compute with."""

import numpy as np

from recbole_adaptau.core.interactions import diagonal


def test_a_diagonal_has_the_values_and_zeros_beside_them():
    values = np.array([3.0, -1.0, 0.0, 2.5])
    np.testing.assert_array_equal(diagonal(values).toarray(), np.diag(values))
    np.testing.assert_array_equal((diagonal(values) @ np.ones((4, 2)))[:, 0], values)
