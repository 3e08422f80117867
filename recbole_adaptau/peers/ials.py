"""iALS: matrix factorisation by alternating least squares (Hu, Koren and Volinsky, ICDM 2008), by `implicit`."""

from importlib.util import find_spec
from typing import Any

import scipy.sparse as sp
import torch
from pydantic import model_validator
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.utils import InputType, ModelType
from torch import Tensor, nn
from typing_extensions import Self

from ..core.settings import SettingsModel, setting
from ..data.positives import training_positives
from ..errors import OptionError


class IALS(GeneralRecommender):
    """Factors of users and items that minimise alpha (1 − u·i)² over the training pairs and (u·i)² over all others.

    Fitted when it is built; what RecBole calls training does nothing.
    """

    class Settings(SettingsModel):
        embedding_size: int = setting(64, "The embedding size of users and items.", ge=1, le=1 << 16)
        ials_alpha: float = setting(3.0, "Confidence of a training pair; all others have 1.", gt=0.0, le=1e6)
        ials_regularization: float = setting(10.0, "L2 on all factors.", ge=0.0, le=1e6)
        ials_iterations: int = setting(15, "Alternations of users and items.", ge=1, le=10_000)

        @model_validator(mode="after")
        def _is_installed(self) -> Self:
            if find_spec("implicit") is None:
                raise OptionError(
                    "IALS needs the package implicit, which is not installed: pip install 'recbole_adaptau[ials]'."
                )
            return self

    input_type = InputType.POINTWISE
    type = ModelType.TRADITIONAL

    user_factors: Tensor
    item_factors: Tensor

    def __init__(self, config: Any, dataset: Any):
        super().__init__(config, dataset)
        from implicit.als import AlternatingLeastSquares

        settings = self.Settings.read(config)
        solver = AlternatingLeastSquares(
            factors=settings.embedding_size,
            alpha=settings.ials_alpha,
            regularization=settings.ials_regularization,
            iterations=settings.ials_iterations,
            num_threads=torch.get_num_threads(),
            random_state=config["seed"],
            use_gpu=False,
        )
        solver.fit(sp.csr_matrix(training_positives(dataset).matrix()), show_progress=False)
        self.register_buffer("user_factors", torch.from_numpy(solver.user_factors))
        self.register_buffer("item_factors", torch.from_numpy(solver.item_factors))
        self.nothing = nn.Parameter(torch.zeros(1))  # RecBole's trainer wants a parameter

    def calculate_loss(self, interaction: Any) -> Tensor:
        return self.nothing.sum()

    def predict(self, interaction: Any) -> Tensor:
        """Shape: [B] scores of the given pairs."""
        return (self.user_factors[interaction[self.USER_ID]] * self.item_factors[interaction[self.ITEM_ID]]).sum(1)

    def full_sort_predict(self, interaction: Any) -> Tensor:
        """Shape: [B · n_items] scores of all items for the given users."""
        return (self.user_factors[interaction[self.USER_ID]] @ self.item_factors.T).view(-1)
