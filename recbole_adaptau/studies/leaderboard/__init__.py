"""The leaderboard: any models on one dataset, with the same split, evaluator and early stopping."""
