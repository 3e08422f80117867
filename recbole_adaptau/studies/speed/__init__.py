"""Measures speed and memory: every figure a ratio between things timed in one run, never a pass or fail."""
