"""Which parts a recipe has: a file of properties/recipe/, or parts by name."""

from typing import Any

from ..errors import OptionError, did_you_mean
from ..recipe import PARTS
from .yaml_files import PROPERTIES, read_yaml


def recipe_files() -> dict[str, Any]:
    """Recipes by name, each its path."""
    return {path.stem: path for path in sorted((PROPERTIES / "recipe").glob("*.yaml"))}


def check_recipe(recipe: Any) -> Any:
    """Refuse what is neither `none`, nor a recipe's name, nor one or several names of parts."""
    names = [recipe] if isinstance(recipe, str) else recipe
    known = ["none", *recipe_files(), *PARTS] if isinstance(recipe, str) else list(PARTS)
    if recipe is None:
        raise ValueError
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OptionError(f"recipe = {recipe!r}: must be none, plus, or parts by name, as [{', '.join(PARTS)}].")
    for name in names:
        if name not in known:
            raise OptionError(f"recipe: '{name}' is not one of {', '.join(known)}.{did_you_mean(name, known)}")
    if len(set(names)) < len(names):
        raise OptionError(f"recipe = {recipe!r} names a part twice.")
    return recipe


def open_recipe(recipe: Any) -> tuple[list[str], dict[str, Any]]:
    """The parts of a recipe, in the order in which the registry has them, and the settings that come with it."""
    check_recipe(recipe)
    files = recipe_files()
    settings: dict[str, Any] = {}
    if isinstance(recipe, str) and recipe in files:
        settings = read_yaml(files[recipe])
        recipe = settings.pop("parts")
    named = [] if recipe == "none" else [recipe] if isinstance(recipe, str) else recipe
    return [name for name in PARTS if name in named], settings
