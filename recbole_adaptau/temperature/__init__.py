"""The heart of the package: closed forms, and the strategies that use them."""

from .strategies import STRATEGIES, TemperatureStrategy
from .view import EpochView

__all__ = ["STRATEGIES", "EpochView", "TemperatureStrategy"]
