"""A backbone of your own in ten lines: a user is a row of a table plus what their items have in common.

    python examples/custom_backbone.py                      # trains on the ml-100k inside RecBole
    python examples/custom_backbone.py --epochs=5 --seed=7  # any configuration key

`encode` is all that a backbone needs: scores, temperatures, loss, negatives, prediction, checkpoints and run folders
are inherited. `self.interactions` holds the training positives; row 0 of both tables is RecBole's padding.
"""

import sys

import torch

from recbole_adaptau import register
from recbole_adaptau.cli.train import main
from recbole_adaptau.model import AdapTauRecommender


@register
class HistoryMF(AdapTauRecommender):
    def encode(self):
        users, items = self.user_embedding.weight, self.item_embedding.weight
        seen = self.interactions
        total = torch.zeros_like(users).index_add(0, seen.users, items[seen.items])
        return users + total / seen.user_counts.clamp_min(1).unsqueeze(1), items


if __name__ == "__main__":
    sys.exit(main(["--model=HistoryMF", *sys.argv[1:]]))
