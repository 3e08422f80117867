"""Building blocks of the tests that go through RecBole's pipeline."""

from types import SimpleNamespace

import numpy as np
import recbole.data
import recbole.utils
from recbole.config import Config

import recbole_adaptau
from recbole_adaptau.core.interactions import Interactions

assert recbole_adaptau.__version__


def build(model: str, settings: dict, dataset: str = "board") -> SimpleNamespace:
    """Config, loaders and a fresh model, as RecBole's run_recbole makes them."""
    config = Config(model, dataset, config_dict=dict(settings))
    recbole.utils.init_seed(config["seed"], config["reproducibility"])
    data = recbole.data.create_dataset(config)
    train, valid, test = recbole.data.data_preparation(config, data)
    recbole.utils.init_seed(config["seed"], config["reproducibility"])
    made = recbole.utils.get_model(model)(config, train._dataset)
    return SimpleNamespace(config=config, dataset=data, train=train, valid=valid, test=test, model=made)


def trainer_of(built: SimpleNamespace):
    return recbole.utils.get_trainer(built.config["MODEL_TYPE"], built.config["model"])(built.config, built.model)


def interactions(matrix: np.ndarray) -> Interactions:
    """Users and items of a 0/1 matrix, numbered from 1 as RecBole does."""
    users, items = np.nonzero(matrix)
    return Interactions(users + 1, items + 1, matrix.shape[0] + 1, matrix.shape[1] + 1)
