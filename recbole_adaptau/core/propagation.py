"""Fast propagation over the symmetric, normalised user-item graph."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .interactions import Interactions

# Said once for every process that makes a CSR tensor; the products used here have been stable for years.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")


# Half of the usual 64: of ML-1M's 9,065 rows, half of each item's fit into half a megabyte of cache.
CPU_COLUMNS = 32


class SymmetricProduct(torch.autograd.Function):
    """A @ x for a symmetric A: the backward pass is the same product, with no transpose and nothing saved."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix @ grad.contiguous()


class LayerMean(torch.autograd.Function):
    """(1 / (L + 1)) Σ_k A^k x for a symmetric A, without dropout: backward is the same polynomial of the gradient.

    On a CPU it is done for `CPU_COLUMNS` columns at a time, all layers of them before the next: then more of the rows
    that a product gathers are still in the cache. The layers take turns in two buffers that are kept from call to
    call. Fresh memory for every layer would cost as much in page faults as the products do.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, x: Tensor, n_layers: int, buffers: tuple[Tensor, Tensor]) -> Tensor:
        ctx.matrix, ctx.n_layers, ctx.buffers = matrix, n_layers, buffers
        return LayerMean.polynomial(matrix, x, n_layers, buffers)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None, None]:
        return None, LayerMean.polynomial(ctx.matrix, grad.contiguous(), ctx.n_layers, ctx.buffers), None, None

    @staticmethod
    def polynomial(matrix: Tensor, x: Tensor, n_layers: int, buffers: tuple[Tensor, Tensor]) -> Tensor:
        """By Horner's rule, x + A (x + A (x + …)): the sum over layers is made by the products themselves."""
        if n_layers == 0:
            return x.clone()
        mean = torch.empty_like(x)
        for part, out in zip(
            *(table.split(CPU_COLUMNS if x.is_cpu else x.shape[1], 1) for table in (x, mean)), strict=True
        ):
            layer = start = part.contiguous()
            for left in range(n_layers, 0, -1):
                scale = 1.0 / (n_layers + 1) if left == 1 else 1.0
                memory = buffers[left % 2][: part.numel()].view(part.shape)
                layer = torch.addmm(start, matrix, layer, beta=scale, alpha=scale, out=memory)
            out.copy_(layer)
        return mean


def mean_of(layers: list[Tensor]) -> Tensor:
    """Shape: L + 1 times [n, d] → [n, d]."""
    return sum(layers[1:], layers[0]) / len(layers)


class Propagation(nn.Module):
    """LightGCN's layer mean: (1 / (L + 1)) Σ_k A^k x with A = D^-1/2 (adjacency) D^-1/2.

    A is kept as CSR with 32-bit indices. Users come first, then items; a node without an edge keeps only
    its own embedding. Edge dropout removes an edge in both directions, so A stays symmetric.

    Args:
        interactions: The training positives, the edges of the graph.
        n_layers: L; 0 gives the embeddings themselves.
        message_dropout: Share of the entries dropped from each layer's output while training.
        edge_dropout: Share of the edges dropped, drawn anew for each call while training.
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor
    edge: Tensor

    def __init__(
        self,
        interactions: Interactions,
        n_layers: int,
        message_dropout: float = 0.0,
        edge_dropout: float = 0.0,
    ):
        super().__init__()
        self.n_layers, self.message_dropout, self.edge_dropout = n_layers, message_dropout, edge_dropout
        self.n_edges = len(interactions)
        self._buffers_for: tuple[Any, ...] | None = None
        self._work: tuple[Tensor, Tensor]
        self.size = interactions.n_users + interactions.n_items
        users, items = interactions.users.numpy(), interactions.items.numpy() + interactions.n_users
        degree = np.maximum(np.bincount(np.concatenate([users, items]), minlength=self.size), 1)
        edge = np.arange(1, self.n_edges + 1)  # counted from 1: scipy drops explicit zeros when converting
        both = (np.concatenate([edge, edge]), (np.r_[users, items], np.r_[items, users]))
        csr = sp.coo_matrix(both, shape=(self.size, self.size)).tocsr()
        row = np.repeat(np.arange(self.size), np.diff(csr.indptr))
        values = 1.0 / np.sqrt(degree[row].astype(np.float64) * degree[csr.indices])
        for name, value in {
            "indptr": torch.from_numpy(csr.indptr.astype(np.int32)),
            "indices": torch.from_numpy(csr.indices.astype(np.int32)),
            "values": torch.from_numpy(values.astype(np.float32)),
            "edge": torch.from_numpy(csr.data - 1),
        }.items():
            self.register_buffer(name, value, persistent=False)

    def matrix(self) -> Tensor:
        """A, with this call's edge dropout while training."""
        values = self.values
        if self.training and self.edge_dropout > 0:
            keep = torch.rand(self.n_edges, device=values.device) >= self.edge_dropout
            values = values * keep[self.edge] / (1.0 - self.edge_dropout)
        return torch.sparse_csr_tensor(
            self.indptr, self.indices, values, (self.size, self.size), check_invariants=False
        )

    def product(self, x: Tensor) -> Tensor:
        """A x, one layer alone. Shape: x [users + items, d] → the same."""
        with torch.autocast(x.device.type, enabled=False):
            return SymmetricProduct.apply(self.matrix(), x)

    def _scratch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Two flat tensors of x's size to work in; not state, so neither buffers nor saved."""
        if self._buffers_for != (x.shape, x.dtype, x.device):
            with torch.inference_mode(False):  # memory made in that mode could not be written to outside of it
                self._work = (x.new_empty(x.numel()), x.new_empty(x.numel()))
            self._buffers_for = (x.shape, x.dtype, x.device)
        return self._work

    def forward(self, x: Tensor) -> Tensor:
        """Shape: x [users + items, d] → [users + items, d]."""
        matrix = self.matrix()
        with torch.autocast(x.device.type, enabled=False):
            if not (self.training and self.message_dropout > 0):
                return LayerMean.apply(matrix, x, self.n_layers, self._scratch(x))
            return mean_of(self._layers(matrix, x))

    def layers(self, x: Tensor) -> list[Tensor]:
        """All layers, x first, whose mean `forward` gives. Shape: x [users + items, d] → L + 1 times the same."""
        with torch.autocast(x.device.type, enabled=False):
            return self._layers(self.matrix(), x)

    def _layers(self, matrix: Tensor, x: Tensor) -> list[Tensor]:
        layers = [x]
        for _ in range(self.n_layers):
            product = SymmetricProduct.apply(matrix, layers[-1])
            layers.append(F.dropout(product, self.message_dropout, self.training))
        return layers
