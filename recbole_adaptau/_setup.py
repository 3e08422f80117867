"""Runs when the package is imported: first the repairs, then our models made known to the repaired RecBole."""

from importlib import import_module

from . import patches

patches.apply()
# Imported only now: it imports parts of RecBole that do not import before they are repaired.
import_module(".model.registry", __package__).install()
