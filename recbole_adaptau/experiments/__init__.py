"""Experiments over several runs: the grid search over tau, repetition over seeds, and learning curves."""
