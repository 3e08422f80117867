"""Experiments over several runs: the paper's tables and figures, grid search, repeated seeds, learning curves."""
