"""The training data's fingerprint: it differs once anything differs that a resumed run would notice."""

from types import SimpleNamespace

import torch

from recbole_adaptau.training.checkpoint import fingerprint


def data(users=(1, 2, 2), items=(1, 1, 2), names=("[PAD]", "a", "b"), titles=("[PAD]", "x", "y")):
    return SimpleNamespace(
        uid_field="user_id",
        iid_field="item_id",
        inter_feat={"user_id": torch.tensor(users), "item_id": torch.tensor(items)},
        field2id_token={"user_id": names, "item_id": titles},
    )


def test_the_same_data_has_the_same_fingerprint_and_other_data_another():
    others = [
        data(users=(1, 1, 2)),
        data(items=(1, 2, 1)),
        data(users=(2, 1, 2)),
        data(names=("[PAD]", "b", "a")),
        data(titles=("[PAD]", "x", "z")),
        data(users=(1, 1, 2), items=(1, 2, 2)),
    ]
    assert fingerprint(data()) == fingerprint(data())
    assert len({fingerprint(one) for one in (data(), *others)}) == 7
