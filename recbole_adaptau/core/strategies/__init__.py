"""Ways to set the temperature: the paper's, and one that is measured on positives kept out of training."""

from .paper import STRATEGIES, AdaptiveTau, AdaptiveUserTau, TemperatureStrategy, register_strategy

from .calibrated import CalibratedTau, CalibratedUserTau  # isort: skip  (after the paper's, in help and tables too)

__all__ = [
    "STRATEGIES",
    "AdaptiveTau",
    "AdaptiveUserTau",
    "CalibratedTau",
    "CalibratedUserTau",
    "TemperatureStrategy",
    "register_strategy",
]
