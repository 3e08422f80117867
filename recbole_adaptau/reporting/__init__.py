"""What a saved run has learned: read from its folder, never trained."""

from .gradient import best_tau, gradient_curve, half_mass_tau
from .saved_run import SavedRun

__all__ = ["SavedRun", "best_tau", "gradient_curve", "half_mass_tau"]
