"""The method as pure tensors and numbers: closed forms, strategies, losses, negatives, propagation, row-wise Adam."""
