"""What each user of the test was recommended, kept so that users can be compared between runs."""

from typing import Any

import numpy as np
from recbole.data.dataloader import FullSortEvalDataLoader

from ..distributed.ranks import is_active


class KeepingEvaluator:
    """RecBole's evaluator, and what it was last given to evaluate."""

    def __init__(self, evaluator: Any):
        self.evaluator = evaluator
        self.collected: Any = None

    def evaluate(self, collected: Any) -> Any:
        self.collected = collected
        return self.evaluator.evaluate(collected)


def tested_users(collected: Any, test_data: Any, train_data: Any) -> dict[str, np.ndarray] | None:
    """The users of a full-sort test in the order of their ids, or None where not all items were ranked.

    Shape, for U users, K the largest k, P test positives and n items (0 is padding):
        user [U] their own (external) ids; hits [U, K] whether the item at each place is a positive;
        positives [U] how many each has; positive_items [P] those items, user after user;
        item_counts [n] training interactions; items [U, K] what was recommended, if a metric asked for it.
    """
    if not isinstance(test_data, FullSortEvalDataLoader) or "rec.topk" not in collected or is_active():
        return None  # of several processes each has tested a part
    dataset, users = test_data._dataset, test_data.uid_list.numpy()
    topk = collected.get("rec.topk").numpy()
    positive_items = np.concatenate([np.asarray(test_data.uid2positive_item[user]) for user in users])
    train_items = np.asarray(train_data._dataset.inter_feat[dataset.iid_field])
    return {
        "user": np.asarray(dataset.id2token(dataset.uid_field, users)).astype(str),
        "hits": topk[:, :-1].astype(bool),
        "positives": topk[:, -1].astype(np.int32),
        "positive_items": positive_items.astype(np.int32),
        "item_counts": np.bincount(train_items, minlength=dataset.item_num).astype(np.int32),
        **({"items": collected.get("rec.items").numpy().astype(np.int32)} if "rec.items" in collected else {}),
    }
