"""For the test of mutation testing."""


def added(a: int, b: int) -> int:
    return a + b


def larger(a: int, b: int) -> int:
    return a if a > b else b


def halved(a: int) -> int:
    return a // 2


def multiplied(a: int, b: int) -> int:
    return a * b
