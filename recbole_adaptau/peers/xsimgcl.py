"""XSimGCL: SimGCL with one noisy pass, contrasting its result with one of its own layers (Yu et al., TKDE 2023)."""

from typing import Any

import torch
from torch import Tensor

from ..config.options import check_whole
from ..errors import OptionError
from .simgcl import SimGCL


class XSimGCL(SimGCL):
    """The noisy embeddings are ranked, and contrasted with layer `layer_cl` of the same pass."""

    @classmethod
    def check(cls, config: Any) -> None:
        super().check(config)
        check_whole(config, "layer_cl", 1)
        if config["layer_cl"] > config["n_layers"]:
            raise OptionError(f"layer_cl = {config['layer_cl']} is above n_layers = {config['n_layers']}.")

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
