"""Adam that touches only the rows a batch touched."""

from typing import Any

import torch
from torch import Tensor


class RowAdam(torch.optim.Optimizer):
    """Adam for embedding tables with sparse gradients: rows without a gradient keep their values and moments.

    A table of a hundred thousand rows costs a batch of a few thousand no more than a small one. What differs from
    dense Adam: a row rests between two batches that use it, instead of drifting on with its momentum. Parameters
    with a dense gradient get ordinary Adam. RecBole's `learner: sparse_adam` chooses this.

    Args:
        params: The parameters, as for every optimiser of PyTorch.
        lr: Learning rate.
        betas: Decay of the two moments, per update of a row.
        eps: Added to the root of the second moment.
    """

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        tables = (parameter, state["exp_avg"], state["exp_avg_sq"])
        if not gradient.is_sparse:
            _adam(tables, gradient, state["step"], group)
            return
        rows, gradient = _summed(gradient)
        touched = tuple(table.index_select(0, rows) for table in tables)
        _adam(touched, gradient, state["step"], group)
        for table, values in zip(tables, touched, strict=True):
            table.index_copy_(0, rows, values)


def _summed(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The different rows of a sparse gradient and the sum at each; faster than `coalesce`, which sorts the values."""
    rows, places = torch.unique(gradient._indices()[0], return_inverse=True)
    values = gradient._values()
    return rows, torch.zeros(len(rows), *values.shape[1:], dtype=values.dtype, device=values.device).index_add_(
        0, places, values
    )


def _adam(tables: tuple[Tensor, ...], gradient: Tensor, step: Tensor, group: dict[str, Any]) -> None:
    """One step of Adam, in place, on a parameter and its two moments, in a single pass over memory."""
    parameter, first, second = tables
    torch._fused_adam_(
        [parameter], [gradient], [first], [second], [], [step], lr=group["lr"], beta1=group["betas"][0],
        beta2=group["betas"][1], weight_decay=0.0, eps=group["eps"], amsgrad=False, maximize=False,
    )  # fmt: skip
