"""Products by the faster library are those of float32."""

import pytest
import torch
from recbole.config import Config

from recbole_adaptau.training import products


@pytest.fixture
def untouched():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("rows, inner, columns", [(2048, 64, 1024), (64, 2048, 1024), (1, 64, 3000), (17, 5, 3)])
def test_products_of_a_run_have_the_precision_of_float32(untouched, rows, inner, columns):
    Config("AdapTauMF", "ml-100k")
    generator = torch.Generator().manual_seed(rows)
    a, b = (torch.randn(shape, generator=generator) for shape in ((rows, inner), (inner, columns)))
    error = (a @ b - a.double() @ b.double()).abs()
    # bfloat16 keeps 8 bits: its error would be thousands of times as large.
    assert (error <= 2**-22 * inner**0.5 * (a.abs().double() @ b.abs().double())).all()


def test_a_library_that_rounds_is_not_used(untouched, monkeypatch):
    asked = []

    def rounding() -> bool:
        asked.append(torch.get_float32_matmul_precision())
        return False

    monkeypatch.setattr(products, "products_are_exact", rounding)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    products.use_faster_products()
    assert asked == ["medium"] and torch.get_float32_matmul_precision() == "highest"


def test_the_question_whether_products_are_exact_tells_rounded_ones(monkeypatch):
    assert products.products_are_exact()
    product = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: product(a.bfloat16(), b.bfloat16()).float())
    assert not products.products_are_exact()


@pytest.mark.parametrize("chosen, gpu", [("high", False), ("highest", True)])
def test_a_choice_of_somebody_and_gpus_are_left_alone(untouched, monkeypatch, chosen, gpu):
    torch.set_float32_matmul_precision(chosen)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    products.use_faster_products()
    assert torch.get_float32_matmul_precision() == chosen
