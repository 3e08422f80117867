"""Components by name, and when a module counts as changed."""

import pytest
import torch
from torch import nn

from recbole_adaptau.core.component import Component, Registry, versions
from recbole_adaptau.core.losses import Loss
from recbole_adaptau.core.negatives import NEGATIVES, Negatives
from recbole_adaptau.errors import OptionError
from tests.helpers import interactions


def test_a_registry_knows_what_was_registered_until_it_is_forgotten():
    registry: Registry = Registry("colour")

    @registry.register("red")
    class Red(Component):
        pass

    class Other(Component):
        pass

    assert registry.key == "colour" and Red.name == "red" and Red().settings == Component.Settings()
    assert dict(registry) == {"red": Red} and len(registry) == 1
    assert registry.register("red")(Other) is Other and registry["red"] is Other, "the same name again replaces it"
    with pytest.raises(ValueError, match=r"^Red is registered as 'red': register a subclass as 'blue'\.$"):
        registry.register("blue")(Red)
    assert Red.name == "red" and registry.register("blue")(type("Blue", (Red,), {})).name == "blue"
    registry.forget("blue")
    registry.forget("red")
    assert "red" not in registry and len(registry) == 0
    with pytest.raises(KeyError):
        registry.forget("red")


def test_a_module_changes_with_every_write_to_a_parameter_or_a_buffer():
    module = nn.BatchNorm1d(2)
    seen = [versions(module)]
    assert versions(module) == seen[0]
    with torch.no_grad():
        module.weight.mul_(2.0)
        seen.append(versions(module))
        module.running_mean[0] = 3.0
        seen.append(versions(module))
        module.bias = nn.Parameter(torch.ones(2))
        seen.append(versions(module))
    assert len(set(seen)) == 4
    with torch.inference_mode():
        made = nn.Linear(2, 2)
    assert versions(made) == versions(made), "without a version of their own"


def test_a_component_without_its_method_says_so():
    data = interactions(torch.ones(2, 2).numpy())
    with pytest.raises(TypeError, match=r"Loss has no forward\(batch\)"):
        Loss()(None)
    with pytest.raises(TypeError, match=r"Negatives has no draw\(users, positives, sampled\)"):
        Negatives(data).draw(data.users, data.items)
    with pytest.raises(OptionError, match="per_row needs negatives with the batch"):
        NEGATIVES["per_row"](data).draw(data.users, data.items)
