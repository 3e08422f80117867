"""RecBole's LightGCN, NCL, NGCF and SGL on our propagation, where `fast_propagation` is on.

RecBole multiplies with a COO tensor, keeps every layer and stacks them. The adjacency is symmetric, so the same
figures come from CSR with 32-bit indices and a backward pass that is the same product (`propagation`), several
times faster on a CPU. SGL and NCL contrast each row of a batch with all nodes; a user who has several rows has the
same term in each, so it is computed once and counted. Nothing changes where the option is off, which is the default,
nor for NGCF with `node_dropout`, which makes its adjacency another one for each direction.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from ..core.propagation import LayerMean, SymmetricProduct

LENT = ("LightGCN", "NCL", "NGCF", "SGL")


class Graph:
    """A symmetric matrix as CSR, which stands where RecBole's models call `torch.sparse.mm`.

    It never changes, so that a copy is the thing itself: RecBole copies every model to count its operations, and
    PyTorch cannot copy a CSR tensor.
    """

    def __init__(self, starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]):
        self.matrix = torch.sparse_csr_tensor(
            starts.int(), columns.int(), values.float(), shape, check_invariants=False
        )

    def __deepcopy__(self, memo: Any) -> "Graph":
        return self

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not torch.sparse.mm:
            return NotImplemented
        graph, x = args
        return SymmetricProduct.apply(graph.matrix, x)


def init(original: Any, self: Any, config: Any, dataset: Any) -> None:
    """For any of the four, whose graphs have different names."""
    original(self, config, dataset)
    if config["fast_propagation"] and getattr(self, "node_dropout", 0) == 0:
        graph = next(name for name in ("norm_adj_matrix", "norm_adj_mat", "train_graph") if hasattr(self, name))
        setattr(self, graph, _csr(getattr(self, graph)))
        self.lent_propagation = True


def _where_lent(fast: Callable[..., Any]) -> Callable[..., Any]:
    """The function for models with a faster graph, RecBole's for others."""

    @wraps(fast)
    def method(original: Any, self: Any, *args: Any) -> Any:
        return (fast if getattr(self, "lent_propagation", False) else original)(self, *args)

    return method


@_where_lent
def lightgcn_forward(self: Any) -> tuple[Tensor, ...]:
    return _split(self, _mean(self.norm_adj_matrix, self.get_ego_embeddings(), self.n_layers))


@_where_lent
def sgl_forward(self: Any, graph: Any) -> tuple[Tensor, ...]:
    layer = torch.cat([self.user_embedding.weight, self.item_embedding.weight])
    if not isinstance(graph, list):
        return _split(self, _mean(graph, layer, self.n_layers))
    layers = [layer]
    for part in graph:
        layers.append(torch.sparse.mm(part, layers[-1]))
    return _split(self, torch.stack(layers).mean(0))


@_where_lent
def sgl_csr2tensor(self: Any, matrix: sp.csr_matrix) -> Graph:
    matrix = sp.csr_matrix(matrix)
    starts, columns, values = (
        torch.from_numpy(part).to(self.device) for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return Graph(starts, columns, values, matrix.shape)


@_where_lent
def sgl_contrast(
    self: Any, users: Tensor, items: Tensor, users_1: Tensor, users_2: Tensor, items_1: Tensor, items_2: Tensor
) -> Tensor:
    of_users = _contrast(users_1, F.normalize(users_2), users, None, self.ssl_tau)
    of_items = _contrast(items_1, F.normalize(items_2), items, None, self.ssl_tau)
    return self.ssl_weight * (of_users + of_items)


@_where_lent
def ncl_layer_contrast(self: Any, current: Tensor, previous: Tensor, users: Tensor, items: Tensor) -> Tensor:
    (users_1, items_1), (users_2, items_2) = _split(self, current), _split(self, previous)
    of_users = _contrast(users_1, F.normalize(users_2), users, None, self.ssl_temp)
    of_items = _contrast(items_1, F.normalize(items_2), items, None, self.ssl_temp)
    return self.ssl_reg * (of_users + self.alpha * of_items)


@_where_lent
def ncl_cluster_contrast(self: Any, nodes: Tensor, users: Tensor, items: Tensor) -> Tensor:
    all_users, all_items = _split(self, nodes)
    of_users = _contrast(all_users, self.user_centroids, users, self.user_2cluster, self.ssl_temp)
    of_items = _contrast(all_items, self.item_centroids, items, self.item_2cluster, self.ssl_temp)
    return self.proto_reg * (of_users + of_items)


def _csr(matrix: Tensor) -> Graph:
    csr = matrix.coalesce().to_sparse_csr()
    return Graph(csr.crow_indices(), csr.col_indices(), csr.values(), csr.shape)


def _mean(graph: Graph, x: Tensor, n_layers: int) -> Tensor:
    return LayerMean.apply(graph.matrix, x, n_layers, (torch.empty_like(x).view(-1), torch.empty_like(x).view(-1)))


def _split(model: Any, nodes: Tensor) -> tuple[Tensor, ...]:
    return nodes.split([model.n_users, model.n_items])


def _contrast(table: Tensor, others: Tensor, batch: Tensor, own: Tensor | None, temperature: float) -> Tensor:
    """Σ over a batch of -log softmax of a node's own one among normalised others: that of its number, or own[node].

    Shape: table [N, d], others [M, d], batch [B], own [N] → [].
    """
    nodes, rows = batch.unique(return_counts=True)
    logits = F.normalize(table[nodes]) @ others.T / temperature
    losses = F.cross_entropy(logits, nodes if own is None else own[nodes], reduction="none")
    return (rows * losses).sum()
