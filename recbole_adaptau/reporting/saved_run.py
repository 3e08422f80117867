"""A saved run with all that can be asked of it, each computed once and only when asked."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..core.epoch_view import EpochView
from ..core.interactions import Interactions
from ..data.positives import training_positives
from ..errors import DataError
from ..model import AdapTauRecommender
from ..runs.folder import RunFolder
from ..runs.quick_start import load_data_and_model
from ..training.toplists import GROUPS, TopLists, group_norms, popularity_groups, top_lists


class SavedRun:
    """The model of a run's best epoch, its data, and its records."""

    def __init__(self, folder: str | Path):
        self.folder = RunFolder.existing(folder)
        self.config, self.model, self.dataset, self.train, self.valid, self.test = load_data_and_model(folder)
        self.model.eval()

    @cached_property
    def interactions(self) -> Interactions:
        return training_positives(self.train._dataset).cpu()

    @cached_property
    def groups(self) -> Tensor:
        """[n_items] the popularity group of each item."""
        return popularity_groups(self.interactions.item_counts)

    @cached_property
    def test_lists(self) -> TopLists:
        """The top 20 of every test user."""
        if not len(self.test):
            raise DataError(f"{self.folder.path} has no test part; of a refit, analyse {self.folder.path}/validation.")
        return top_lists(self.model, self.test, 20)

    @cached_property
    def view(self) -> EpochView:
        """The scores as a temperature strategy sees them."""
        if not isinstance(self.model, AdapTauRecommender):
            raise DataError(f"{self.folder.path} is a run of {self.config['model']}, which has no temperature.")
        return self.model.view()

    @cached_property
    def temperatures(self) -> NDArray[np.float64]:
        """[active users] tau_u of each user with a training positive, in the order of `interactions.active_users`."""
        assert isinstance(self.model, AdapTauRecommender)
        taus = self.model.user_temperatures().cpu()[self.interactions.active_users]
        return taus.double().numpy()

    @cached_property
    def item_norms(self) -> NDArray[np.float64]:
        """[10] mean length of the item embeddings by popularity group; NaN for an empty group.

        Of RecBole's own models it is the table `item_embedding`, which nearly all have; NaN without one.
        """
        with torch.no_grad():
            if isinstance(self.model, AdapTauRecommender):
                _, items = self.model.encode()
            elif isinstance(getattr(self.model, "item_embedding", None), torch.nn.Embedding):
                items = self.model.item_embedding.weight
            else:
                return np.full(GROUPS, np.nan)
        return group_norms(items, self.groups)

    @cached_property
    def activity(self) -> NDArray[np.int64]:
        """[active users] number of training positives."""
        return self.interactions.user_counts[self.interactions.active_users].numpy()

    @cached_property
    def taste(self) -> NDArray[np.float64]:
        """[active users] the mean over a user's positives of the share of items that are less popular, from 0 to 1."""
        counts = self.interactions.item_counts[1:]
        rank = torch.searchsorted(torch.sort(counts).values, counts).double() / len(counts)
        sums = torch.zeros(self.interactions.n_users, dtype=torch.float64)
        sums.index_add_(0, self.interactions.users, rank[self.interactions.items - 1])
        return (sums / self.interactions.user_counts)[self.interactions.active_users].numpy()

    def statistics(self) -> dict[str, Any]:
        return data_statistics(self.train, self.valid, self.test)


def data_statistics(train: Any, valid: Any, test: Any) -> dict[str, Any]:
    """Users, items and interactions of the three parts of a dataset, without RecBole's padding."""
    data = train._dataset
    users, items = data.user_num - 1, data.item_num - 1
    sizes = {
        name: len(loader._dataset.inter_feat) for name, loader in (("train", train), ("valid", valid), ("test", test))
    }
    return {"users": users, "items": items, **sizes, "density": sizes["train"] / (users * items)}
