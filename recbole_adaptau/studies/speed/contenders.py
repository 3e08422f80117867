"""Who is compared: our models, RecBole's, and our own loss written the straightforward way."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import recbole.data
import recbole.utils
import torch
import torch.nn.functional as F
from recbole.config import Config
from torch import Tensor

from ...model import AdapTauMF
from ...model.registry import register
from ...training.batches import Batches
from ...training.checkpoint import shielded_argv

BATCH, DIMENSION, NEGATIVES, LAYERS = 2048, 64, 1024, 3


@register
class PerRowMF(AdapTauMF):
    """Adap-tau on MF as its authors wrote it: 1024 uniform items gathered for each positive of the batch.

    The same formula and the same temperatures as AdapTauMF; only the negatives are each row's own.
    """

    def calculate_loss(self, interaction: Any) -> Tensor:
        users, positives = interaction[self.USER_ID], interaction[self.ITEM_ID]
        negatives = torch.randint(1, self.n_items, (len(users), self.negatives.settings.num_negatives))
        items = torch.cat([positives.unsqueeze(1), negatives], dim=1)
        u = F.normalize(self.user_embedding(users), dim=-1)
        scores = (u.unsqueeze(1) * F.normalize(self.item_embedding(items), dim=-1)).sum(2)
        logits = scores / self.strategy.tau(users, u).unsqueeze(1)
        return -torch.log_softmax(logits, dim=1)[:, 0].mean()


@dataclass
class Contender:
    """One model ready to train: built when first asked for, and kept."""

    label: str
    model: str
    dataset: str
    settings: dict[str, Any]

    @cached_property
    def config(self) -> Config:
        with shielded_argv():
            common = {"embedding_size": DIMENSION, "train_batch_size": BATCH, "show_progress": False, "state": "ERROR"}
            config = Config(self.model, self.dataset, config_dict={**common, **self.settings})
        config["run_folder"] = None  # nothing is recorded
        config["checkpoint_dir"] = "saved"
        return config

    @cached_property
    def loaders(self) -> tuple[Any, Any, Any]:
        recbole.utils.init_seed(self.config["seed"], True)
        return recbole.data.data_preparation(self.config, recbole.data.create_dataset(self.config))

    @cached_property
    def trainer(self) -> Any:
        model = recbole.utils.get_model(self.model)(self.config, self.loaders[0]._dataset)
        trainer = recbole.utils.get_trainer(self.config["MODEL_TYPE"], self.model)(self.config, model)
        trainer.eval_collector.data_collect(self.loaders[0])
        return trainer

    @cached_property
    def batches(self) -> Any:
        train = self.loaders[0]
        return Batches(train) if self.model.startswith("AdapTau") and Batches.fits(train) else train


def contenders(dataset: str, data_path: str) -> list[Contender]:
    """Everybody of the speed table, on one dataset: batches of 2048 positives, d = 64, three graph layers."""
    place = {"data_path": data_path}
    sampled = {"distribution": "uniform", "sample_num": 100}
    rows: list[tuple[str, str, dict[str, Any]]] = [
        ("AdapTauMF", "AdapTauMF", {"num_negatives": NEGATIVES}),
        ("AdapTauMF, dense Adam", "AdapTauMF", {"num_negatives": NEGATIVES, "learner": "adam"}),
        ("AdapTauLightGCN", "AdapTauLightGCN", {"num_negatives": NEGATIVES, "n_layers": LAYERS}),
        ("RecBole BPR", "BPR", {}),
        ("RecBole LightGCN", "LightGCN", {"n_layers": LAYERS}),
        ("RecBole SGL", "SGL", {"n_layers": LAYERS}),
        # RecBole counts negatives in the batch size: 204,800 rows are 2048 positives.
        ("RecBole SimpleX", "SimpleX", {"train_neg_sample_args": sampled, "train_batch_size": BATCH * 100}),
        ("per row, gathered", "PerRowMF", {"num_negatives": NEGATIVES}),
    ]
    return [Contender(label, model, dataset, {**place, **settings}) for label, model, settings in rows]
