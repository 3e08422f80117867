"""The item-item ridge regression of the recipe part `item_regression`, ranking alone."""

from functools import cached_property
from typing import Any

import torch
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.utils import InputType, ModelType
from torch import Tensor, nn

from ..core.settings import SettingsModel, setting
from ..data.positives import training_positives
from ..recipe.item_regression import RegressionScores


class ItemRegression(GeneralRecommender):
    """Ranks by h(u, i), the prediction of an item from the user's other items; computed in closed form, not trained."""

    class Settings(SettingsModel):
        item_neighbours: int = setting(100, "Nearest items that an item is regressed on, at most.", ge=1, le=1 << 16)

    input_type = InputType.POINTWISE
    type = ModelType.TRADITIONAL

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        self.settings = self.Settings.read(config)
        self.interactions = training_positives(dataset)
        self.nothing = nn.Parameter(torch.zeros(1))  # RecBole's trainer wants a parameter

    @cached_property
    def scores(self) -> RegressionScores:
        return RegressionScores(self.interactions, self.settings.item_neighbours)

    def calculate_loss(self, interaction: Any) -> Tensor:
        return self.nothing.sum()

    def predict(self, interaction: Any) -> Tensor:
        """Shape: [B] scores of the given pairs."""
        return self.scores.of_pairs(interaction[self.USER_ID], interaction[self.ITEM_ID])

    def full_sort_predict(self, interaction: Any) -> Tensor:
        """Shape: [B · n_items] scores of all items for the given users."""
        users = interaction[self.USER_ID]
        scores = torch.zeros(len(users), self.n_items, device=users.device)
        self.scores.add_to(scores, users, torch.ones(len(users), device=users.device))
        return scores.view(-1)
