"""How settings are read, and what is said of wrong ones."""

from typing import Annotated, Literal

import pytest
from pydantic import BeforeValidator, Field

from recbole_adaptau.core.settings import SettingsModel, about, choices, kind, setting
from recbole_adaptau.errors import DataError, OptionError


def refused(value):
    if value == "odd":
        raise DataError("odd is not even.")
    return value


class Example(SettingsModel):
    size: int = setting(64, "Size.", ge=1, le=1 << 16)
    rate: float = setting(0.5, "Rate.", gt=0.0, lt=1.0)
    shape: Literal["round", "square"] = setting("round", "Shape.")
    maybe: Literal["a", "b"] | None = setting(None, "One of two, or nothing.")
    level: Annotated[float, Field(gt=0.0, le=2.0)] | Literal["mean"] = setting("mean", "A number or a word.")
    on: bool = setting(False, "Whether.")
    names: list[str] = setting(["x"], "Names.", wanted="a list of names", compared=False, with_data=False)
    text: str = setting("", "Text.")
    table: dict = setting({}, "A table.")
    own: Annotated[str, BeforeValidator(refused)] = setting("even", "Checked by a function.")


FIELDS = Example.model_fields


def read(**changes) -> Example:
    return Example.read({**Example.defaults(), "of another": 1, **changes})


def test_only_its_own_fields_are_read_and_defaults_are_complete():
    assert read(size=3).size == 3 and read() == Example() and set(Example.defaults()) == set(FIELDS)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"size": 0}, "size = 0: must be a whole number of at least 1 and at most 65536."),
        ({"size": 2.5}, "size = 2.5: must be a whole number of at least 1 and at most 65536."),
        ({"rate": 1.0}, "rate = 1.0: must be a number above 0.0 and below 1.0."),
        ({"shape": "sqare"}, "shape = 'sqare' is not one of round, square. Did you mean 'square'?"),
        ({"shape": 3}, "shape = 3 is not one of round, square."),
        ({"maybe": "c"}, "maybe = 'c' is not one of a, b."),
        ({"level": 3.0}, "level = 3.0: must be a number above 0.0 and at most 2.0, or 'mean'."),
        ({"on": 1}, "on = 1: must be True or False."),
        ({"names": "x"}, "names = 'x': must be a list of names."),
        ({"text": 5}, "text = 5: must be text."),
        ({"table": 5}, "table = 5: must be a dict."),
        ({"size": None}, "size = None: it needs a value; leave it out for the default."),
        ({"rate": float("nan")}, "rate = nan: must be a number above 0.0 and below 1.0."),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(wrong, said):
    with pytest.raises(OptionError) as error:
        read(**wrong)
    assert str(error.value) == said


def test_a_functions_own_sentence_stays():
    with pytest.raises(DataError, match="odd is not even"):
        read(own="odd")


def test_what_the_docs_ask_of_a_field():
    assert choices(FIELDS["shape"]) == ("round", "square") and choices(FIELDS["maybe"]) == ("a", "b")
    assert choices(FIELDS["level"]) == choices(FIELDS["size"]) == ()
    kinds = {name: kind(field) for name, field in FIELDS.items()}
    assert kinds == {
        "size": "int", "rate": "float", "shape": "str", "maybe": "str", "level": "float or str", "on": "bool",
        "names": "list", "text": "str", "table": "dict", "own": "str",
    }  # fmt: skip
    assert about(FIELDS["names"], "compared") is False and about(FIELDS["names"], "with_data") is False
    assert about(FIELDS["size"], "compared") is True and about(FIELDS["size"], "wanted") == ""


def test_a_field_knows_its_meaning_and_its_default():
    field = setting(3, "How many.", wanted="a few", ge=1)
    assert field.default == 3 and field.description == "How many." and about(field, "wanted") == "a few"
