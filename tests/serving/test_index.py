"""The FAISS index ranks as the model does, or is refused."""

import pytest
import torch

from recbole_adaptau.errors import AdapTauError
from recbole_adaptau.serving import embeddings_of
from recbole_adaptau.serving.index import check_index, write_index
from tests.helpers import build
from tests.serving.test_kept_embeddings import Kept

ACTIVE = torch.arange(1, 49)


def test_the_index_is_checked_against_the_models_ranking(board, tmp_path):
    pytest.importorskip("faiss", reason="the extra 'faiss' is not installed")
    model = build("AdapTauMF", board).model
    model.begin_epoch(0)
    embeddings = embeddings_of(model, ACTIVE)
    path = tmp_path / "items.faiss"
    write_index(path, embeddings.items[1:])
    check_index(path, model, embeddings, ACTIVE, 5)
    write_index(path, embeddings.items[1:].flip(0))
    with pytest.raises(AdapTauError, match="does not rank as the model does"):
        check_index(path, model, embeddings, ACTIVE, 5)


def test_a_single_wrong_item_or_score_is_noticed(board, tmp_path):
    """Two items exchanged, of which only some users have one first; one item, or all, with another length."""
    pytest.importorskip("faiss", reason="the extra 'faiss' is not installed")
    model = build("AdapTauMF", board).model
    model.begin_epoch(0)
    embeddings = embeddings_of(model, ACTIVE)
    path, items = tmp_path / "items.faiss", embeddings.items[1:]
    best = (embeddings.users[1:] @ items.T).argmax(1)
    a, b = best.unique()[:2].tolist()
    swapped, shorter = items.clone(), items.clone()
    swapped[[a, b]] = items[[b, a]]
    shorter[a] *= 0.999
    for wrong in (swapped, shorter, items * 0.99, items * 1.01):
        write_index(path, wrong)
        with pytest.raises(AdapTauError, match="does not rank as the model does"):
            check_index(path, model, embeddings, ACTIVE, 1)
    write_index(path, items)
    check_index(path, model, embeddings, ACTIVE, 1)


@pytest.mark.parametrize("scale", [1.0, 100.0, -100.0, 1e-3])
@pytest.mark.parametrize(("wrong", "fine"), [(0.8, True), (1.3, False)])
def test_scores_may_differ_by_rounding_of_the_largest_alone(scale, wrong, fine, tmp_path):
    """By 1e-5 of the largest score's size, or of 1 if that is larger."""
    pytest.importorskip("faiss", reason="the extra 'faiss' is not installed")
    model, users = Kept(), torch.arange(1, 7)
    with torch.no_grad():
        model.user_embedding.weight.div_(model.user_embedding.weight.norm(dim=1, keepdim=True).clamp_min(1.0))
        model.item_embedding.weight.mul_(scale)
    embeddings = embeddings_of(model, users)
    largest = (embeddings.users[users] @ embeddings.items[1:].T).abs().topk(3).values.max().item()
    if scale < 0:
        largest = (embeddings.users[users] @ embeddings.items[1:].T).topk(3).values.abs().max().item()
    change = wrong * 1e-5 * max(largest, 1.0) / largest
    write_index(tmp_path / "items.faiss", embeddings.items[1:].double().mul(1 + change).float())
    if fine:
        check_index(tmp_path / "items.faiss", model, embeddings, users, 3)
    else:
        with pytest.raises(AdapTauError, match="does not rank as the model does"):
            check_index(tmp_path / "items.faiss", model, embeddings, users, 3)
