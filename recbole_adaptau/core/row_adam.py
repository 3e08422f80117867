"""Adam for the price of the rows a batch touched."""

from typing import Any

import torch
from torch import Tensor


class RowAdam(torch.optim.Optimizer):
    """Dense Adam's effect on embedding tables, for the cost of the rows a batch touched.

    Adam spreads a gradient over the following steps: a share (1 − β₁) at once, the rest through the first moment, all
    of it within some twenty steps. A row of a large table is used less often than that, so here the whole gradient is
    spent in the step it came from, and no first moment is kept. The second moment fades with every step, used or not,
    as in Adam: it is multiplied by β₂ to the number of steps since the row's last use. Hence a learning rate means
    the same as for Adam. (PyTorch's SparseAdam counts a row's own steps instead, and moves rare rows far less.)
    Parameters with a dense gradient get ordinary Adam. `learner: row_adam` chooses this.

    Args:
        params: The parameters, as for every optimiser of PyTorch.
        lr: Learning rate.
        betas: Decay of the two moments a step; the first is used with dense gradients only.
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
                    update = _update_rows if parameter.grad.is_sparse else _update_all
                    update(parameter, parameter.grad, self.state[parameter], group)
        return loss


def _update_all(parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    if not state:
        state["step"] = torch.zeros((), device=parameter.device)
        state["exp_avg"] = torch.zeros_like(parameter)
        state["exp_avg_sq"] = torch.zeros_like(parameter)
    state["step"] += 1
    _adam(parameter, gradient, state["exp_avg"], state["exp_avg_sq"], state["step"], group, group["betas"][0])


def _update_rows(parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    if not state:
        state["step"] = torch.zeros((), device=parameter.device)
        state["last_step"] = torch.zeros(len(parameter), device=parameter.device)
        state["exp_avg_sq"] = torch.zeros_like(parameter)
    state["step"] += 1
    rows, values = _summed(gradient)
    rested = state["step"] - 1 - state["last_step"][rows]  # steps without this row; _adam counts this one
    state["last_step"][rows] = state["step"]
    touched = parameter.index_select(0, rows)
    second = state["exp_avg_sq"].index_select(0, rows).mul_((group["betas"][1] ** rested).unsqueeze(1))
    _adam(touched, values, torch.zeros_like(values), second, state["step"], group, 0.0)
    parameter.index_copy_(0, rows, touched)
    state["exp_avg_sq"].index_copy_(0, rows, second)


def _summed(gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The different rows of a sparse gradient and the sum at each; faster than `coalesce`, which sorts the values."""
    rows, places = torch.unique(gradient._indices()[0], return_inverse=True)
    values = gradient._values()
    return rows, torch.zeros(len(rows), *values.shape[1:], dtype=values.dtype, device=values.device).index_add_(
        0, places, values
    )


def _adam(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    step: Tensor,
    group: dict[str, Any],
    beta1: float,
) -> None:
    """One step of Adam, in place, on a parameter and its two moments, in a single pass over memory."""
    torch._fused_adam_(
        [parameter], [gradient], [first], [second], [], [step], lr=group["lr"], beta1=beta1,
        beta2=group["betas"][1], weight_decay=0.0, eps=group["eps"], amsgrad=False, maximize=False,
    )  # fmt: skip
