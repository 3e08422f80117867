"""Top-k for any user (issues 2006, 1178)."""

from typing import Any

import numpy as np
import torch
from recbole.utils import case_study

from ..errors import AdapTauError
from .patching import replace_everywhere


def _checked_users(uid_series: Any, user_num: int) -> np.ndarray:
    users = np.atleast_1d(np.asarray(uid_series))
    if users.dtype.kind not in "iu":
        raise AdapTauError(
            f"users are given by their internal ids, not as {users.dtype}: {users[:3].tolist()}. "
            "dataset.token2id(dataset.uid_field, name) turns a user's name into the id."
        )
    wrong = users[(users < 1) | (users >= user_num)]
    if wrong.size:
        raise AdapTauError(
            f"user id {wrong[0]} is out of range: ids go from 1 to {user_num - 1} (0 is padding). "
            "dataset.token2id(dataset.uid_field, name) turns a user's name into the id."
        )
    return users


def score_any_user() -> None:
    """Let full_sort_scores and full_sort_topk take users without test rows.

    RecBole keeps a history only for users with test rows and raises TypeError for the others. Theirs is all
    that the loader's sampler has them down for: with no test items, nothing is to be predicted back.
    """
    original = case_study.full_sort_scores

    def full_sort_scores(
        uid_series: Any, model: Any, test_data: Any, device: torch.device | None = None
    ) -> torch.Tensor:
        users = _checked_users(uid_series, test_data.dataset.user_num)
        if test_data.is_sequential:
            rows = test_data.dataset.inter_feat[test_data.dataset.uid_field].numpy()
            absent = np.setdiff1d(users, rows)
            if absent.size:
                raise AdapTauError(
                    f"user id {absent[0]} has no row in this part of the data, and a sequential model has no "
                    "other sequence to score it by."
                )
        else:
            histories = test_data.uid2history_item
            for user in users:
                if histories[user] is None:
                    histories[user] = torch.tensor(sorted(test_data._sampler.used_ids[user]), dtype=torch.int64)
        return original(users, model, test_data, device)

    replace_everywhere(original, full_sort_scores)
