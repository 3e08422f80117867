"""What a saved run has learned: read from its folder, never trained."""

from .saved import SavedRun
from .temperature import best_tau, gradient_curve, half_mass_tau

__all__ = ["SavedRun", "best_tau", "gradient_curve", "half_mass_tau"]
