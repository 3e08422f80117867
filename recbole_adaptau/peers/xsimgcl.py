"""XSimGCL: SimGCL with one noisy pass, contrasting its result with one of its own layers (Yu et al., TKDE 2023)."""

from typing import Any

import torch
from pydantic import model_validator
from torch import Tensor
from typing_extensions import Self

from ..core.settings import setting
from ..errors import OptionError
from .simgcl import SimGCL


class XSimGCL(SimGCL):
    """The noisy embeddings are ranked, and contrasted with layer `layer_cl` of the same pass.

    The defaults are RecBole-GNN's, which its ML-1M table found best.
    """

    class Settings(SimGCL.Settings):
        cl_weight: float = setting(0.1, "Weight of the contrast, a mean over the batch's nodes.", ge=0.0)
        eps: float = setting(0.2, "Length of the noise in each layer.", ge=0.0)
        layer_cl: int = setting(1, "The layer that the result is contrasted with, from 1.", ge=1)

        @model_validator(mode="after")
        def _layer_exists(self) -> Self:
            if self.layer_cl > self.n_layers:
                raise OptionError(f"layer_cl = {self.layer_cl} is above n_layers = {self.n_layers}.")
            return self

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        self.layer_cl: int = config["layer_cl"]

    def calculate_loss(self, interaction: Any) -> Tensor:
        """Shape: []."""
        layer, layers = self._tables(), []
        for _ in range(self.n_layers):
            layer = self._perturbed(self.propagation.product(layer))
            layers.append(layer)
        noisy = self._split(torch.stack(layers).mean(0))
        contrast = self._contrast(interaction, noisy, self._split(layers[self.layer_cl - 1]))
        return self._ranking_loss(interaction, *noisy) + self.cl_weight * contrast
