"""RecBole's LightGCN, NCL and SGL on our propagation, where `fast_propagation` is on.

RecBole multiplies with a COO tensor, keeps every layer and stacks them. The adjacency is symmetric, so the same
figures come from CSR with 32-bit indices and a backward pass that is the same product (`propagation`), several
times faster on a CPU. Nothing changes where the option is off, which is the default.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import scipy.sparse as sp
import torch
from recbole.model.general_recommender import SGL, LightGCN
from recbole.model.general_recommender.ncl import NCL
from torch import Tensor

LENT = (LightGCN, NCL, SGL)


class Graph:
    """A symmetric matrix as CSR. It never changes, so that a copy is the thing itself: RecBole copies every model to
    count its operations, and PyTorch cannot copy a CSR tensor."""

    def __init__(self, starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]):
        self.matrix = torch.sparse_csr_tensor(
            starts.int(), columns.int(), values.float(), shape, check_invariants=False
        )

    def __deepcopy__(self, memo: Any) -> "Graph":
        return self


def lend_fast_propagation() -> None:
    """Give the three models a faster `forward`, used by those built with `fast_propagation`."""
    _at_the_end_of_init(LightGCN, lambda model: setattr(model, "norm_adj_matrix", _csr(model.norm_adj_matrix)))
    _at_the_end_of_init(NCL, lambda model: setattr(model, "norm_adj_mat", _csr(model.norm_adj_mat)))
    _at_the_end_of_init(SGL, lambda model: setattr(model, "train_graph", _csr(model.train_graph)))
    _instead(LightGCN, "forward", _lightgcn_forward)
    _instead(NCL, "forward", _ncl_forward)
    _instead(SGL, "forward", _sgl_forward)
    _instead(SGL, "csr2tensor", _sgl_csr2tensor)


def _at_the_end_of_init(cls: type, change: Callable[[Any], None]) -> None:
    original = cls.__init__  # type: ignore[misc]

    @wraps(original)
    def init(self: Any, config: Any, dataset: Any) -> None:
        original(self, config, dataset)
        if config["fast_propagation"]:
            change(self)
            self.lent_propagation = True

    cls.__init__ = init  # type: ignore[misc]


def _instead(cls: type, name: str, fast: Callable[..., Any]) -> None:
    original = getattr(cls, name)

    @wraps(original)
    def method(self: Any, *args: Any) -> Any:
        return (fast if getattr(self, "lent_propagation", False) else original)(self, *args)

    setattr(cls, name, method)


def _lightgcn_forward(self: Any) -> tuple[Tensor, ...]:
    return _split(self, _mean(self.norm_adj_matrix, self.get_ego_embeddings(), self.n_layers))


def _ncl_forward(self: Any) -> tuple[Any, ...]:
    layers = [self.get_ego_embeddings()]
    for _ in range(max(self.n_layers, self.hyper_layers * 2)):
        layers.append(_product(self.norm_adj_mat, layers[-1]))
    return *_split(self, torch.stack(layers[: self.n_layers + 1]).mean(0)), layers


def _sgl_forward(self: Any, graph: Any) -> tuple[Tensor, ...]:
    layer = torch.cat([self.user_embedding.weight, self.item_embedding.weight])
    if not isinstance(graph, list):
        return _split(self, _mean(graph, layer, self.n_layers))
    layers = [layer]
    for part in graph:
        layers.append(_product(part, layers[-1]))
    return _split(self, torch.stack(layers).mean(0))


def _sgl_csr2tensor(self: Any, matrix: sp.csr_matrix) -> Graph:
    matrix = sp.csr_matrix(matrix)
    starts, columns, values = (
        torch.from_numpy(part).to(self.device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return Graph(starts, columns, values, matrix.shape)


def _csr(matrix: Tensor) -> Graph:
    csr = matrix.coalesce().to_sparse_csr()
    return Graph(csr.crow_indices(), csr.col_indices(), csr.values(), csr.shape)


def _product(graph: Graph, x: Tensor) -> Tensor:
    from recbole_adaptau.propagation import SymmetricProduct  # imports RecBole, which is being repaired

    return SymmetricProduct.apply(graph.matrix, x)


def _mean(graph: Graph, x: Tensor, n_layers: int) -> Tensor:
    from recbole_adaptau.propagation import LayerMean

    return LayerMean.apply(graph.matrix, x, n_layers, (torch.empty_like(x).view(-1), torch.empty_like(x).view(-1)))


def _split(model: Any, nodes: Tensor) -> tuple[Tensor, ...]:
    return nodes.split([model.n_users, model.n_items])
