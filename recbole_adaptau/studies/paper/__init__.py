"""Every table and figure of the paper as an experiment, by name."""

from . import (
    approximation,
    fairness,
    gradient,
    magnitude,
    noise_global,
    noise_local,
    norm_ablation,
    significance,
    sota,
    strategies,
    tau_sweep,
)
from .base import Asked, Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        norm_ablation,
        strategies,
        tau_sweep,
        magnitude,
        fairness,
        noise_global,
        noise_local,
        gradient,
        approximation,
        sota,
        significance,
    )
}

__all__ = ["EXPERIMENTS", "Asked", "Experiment"]
