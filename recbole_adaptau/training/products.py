"""Products of float32 matrices on a CPU, by the faster of the two libraries that PyTorch has for them."""

import torch


def use_faster_products() -> None:
    """Let oneDNN multiply float32 matrices, where it rounds no more than MKL does.

    MKL uses AVX-512 on Intel's processors alone; on AMD's oneDNN takes half of its time. PyTorch asks oneDNN only under
    the precision "medium", which allows rounding to bfloat16, but without AMX oneDNN has no kernel that rounds. CUDA
    would round, so that a machine with a GPU is left as it is; so is a precision that somebody has chosen.
    """
    if torch.cuda.is_available() or torch.get_float32_matmul_precision() != "highest":
        return
    torch.set_float32_matmul_precision("medium")
    if not products_are_exact():
        torch.set_float32_matmul_precision("highest")


def products_are_exact() -> bool:
    """Whether a product keeps what bfloat16 and TF32 would round away."""
    fine = torch.full((64, 64), 1 + 2**-12)
    return torch.equal(fine @ torch.eye(64), fine)
