"""What every temperature strategy keeps to; one that is registered is tested here by itself."""

import numpy as np
import pytest
import torch

from recbole_adaptau.core.epoch_view import EpochView
from recbole_adaptau.core.interactions import Interactions
from recbole_adaptau.core.strategies import STRATEGIES
from tests.helpers import build, trainer_of

N_USERS, N_ITEMS, SIZE = 9, 30, 8


def view(epoch: int, poison: float = 0.0) -> EpochView:
    """Users 1 to 7 near their own items, user 8 without any; the padding's rows hold `poison`."""
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(N_USERS, SIZE)), rng.normal(size=(N_ITEMS, SIZE))
    pairs = np.array([(u, 3 * u + k) for u in range(1, 8) for k in range(2 + u % 2)])
    for u, i in pairs:
        items[i] += 2 * users[u]
    users, items = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (users, items))
    users[0], items[0] = poison, poison
    tables = torch.from_numpy(users).float(), torch.from_numpy(items).float()
    return EpochView(epoch, lambda: tables, Interactions(*pairs.T, N_USERS, N_ITEMS))


def made(name: str, poison: float = 0.0, epochs: int = 3):
    torch.manual_seed(1)
    strategy = STRATEGIES[name](N_USERS, SIZE)
    strategy.reset_parameters()
    for epoch in range(epochs):
        strategy.begin_epoch(view(epoch, poison))
    return strategy


def taus(strategy) -> torch.Tensor:
    with torch.no_grad():
        return strategy.tau(torch.arange(1, N_USERS), view(0).embeddings[0][1:])


@pytest.mark.parametrize("name", STRATEGIES)
class TestEveryStrategy:
    def test_temperatures_are_positive_numbers_of_the_right_shape(self, name):
        strategy = made(name)
        tau = taus(strategy)
        assert tau.shape == (N_USERS - 1,) and torch.isfinite(tau).all()
        assert (tau >= strategy.settings.tau_min - 1e-7).all()
        assert strategy.tau_0.dim() == 0 and strategy.tau_0 > 0

    def test_the_padding_changes_no_temperature(self, name):
        torch.testing.assert_close(taus(made(name)), taus(made(name, poison=50.0)), rtol=1e-5, atol=0)

    def test_all_state_is_in_the_checkpoint(self, name):
        one, two = made(name), made(name, epochs=0)
        two.load_state_dict(one.state_dict())
        assert torch.equal(taus(one), taus(two))
        for strategy in (one, two):
            torch.manual_seed(7)
            strategy.begin_epoch(view(3))
        assert torch.equal(taus(one), taus(two))

    def test_the_learning_rate_is_that_of_its_setting_where_it_has_one(self, name):
        kind = STRATEGIES[name]
        assert made(name).learning_rate is None
        if "tau_learning_rate" in kind.Settings.model_fields:
            assert kind(N_USERS, SIZE, kind.Settings(tau_learning_rate=0.25)).learning_rate == 0.25

    def test_the_log_line_says_its_name(self, name):
        assert name in made(name).describe()

    def test_a_model_trains_with_it(self, name, board):
        built = build("AdapTauMF", {**board, "tau_strategy": name, "epochs": 2})
        trainer_of(built).fit(built.train, built.valid, saved=False)
        assert all(torch.isfinite(parameter).all() for parameter in built.model.parameters())
