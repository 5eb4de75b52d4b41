"""The steps of plugins that a keyword argument of `ACELiteLLM.from_model` enables, such as `acme=True`.

`ace.plugins` registers how they are created; `from_model` looks them up here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ace._internal.arguments import instance_of
from ace._internal.registry import Registry

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import StepProtocol

__all__ = [
    "ExtraSteps",
    "enabled_extra_steps",
    "extra_step_arguments",
    "register_extra_steps",
    "unregister_extra_steps",
]

_INTEGRATIONS: Final = {"opik": "ace-opik"}
"""The distributions of arguments that are documented, by argument."""


@dataclass(frozen=True, slots=True)
class ExtraSteps:
    """How the steps of a plugin are created."""

    create: Callable[..., Sequence[StepProtocol[ACEStepContext]]]
    """Returns the steps; called with the options that are given."""
    options: tuple[str, ...] = ()
    """The names of the options."""


_registry = Registry[ExtraSteps]("extra_steps", "a plugin with extra steps")


def register_extra_steps(name: str, steps: ExtraSteps) -> None:
    """Register the steps of a plugin.

    Args:
        name: The argument that enables them. The arguments of their options begin with it and an underscore.
        steps: How they are created.

    Raises:
        ValueError: The name is taken.
    """
    _registry.register(name, steps)


def unregister_extra_steps(name: str) -> None:
    """Unregister the steps of a plugin; an unknown name is ignored.

    Args:
        name: The argument that enables them.
    """
    _registry.unregister(name)


def extra_step_arguments(called: str, unknown: Collection[str]) -> frozenset[str]:
    """Return the names of all arguments that plugins with extra steps add.

    Args:
        called: The name of the function as in the call, without parentheses.
        unknown: The arguments of the call that the function does not have itself.

    Raises:
        ImportError: One of them needs a distribution of ACE that is not installed.
    """
    if not unknown:  # no plugin has to be loaded
        return frozenset()
    found = _registry.all()
    for name in unknown:
        if name in _INTEGRATIONS and name not in found:
            distribution = _INTEGRATIONS[name]
            raise ImportError(
                f"{called}({name}=...) needs the distribution {distribution}, which is not installed, or disabled; "
                f"install it with: pip install {distribution}"
            )
    return frozenset(argument for name, steps in found.items() for argument in (name, *_arguments(name, steps)))


def enabled_extra_steps(called: str, arguments: Mapping[str, Any]) -> list[StepProtocol[ACEStepContext]]:
    """Return the steps that the arguments of a call enable, in the order of the names of their plugins.

    Args:
        called: The name of the function as in the call, without parentheses.
        arguments: The arguments that `extra_step_arguments` names, with their values.

    Raises:
        TypeError: The argument that enables the steps is not a bool, or is missing although there are options.
        ImportError: A distribution that the steps need is not installed.
    """
    if not arguments:
        return []
    created: list[StepProtocol[ACEStepContext]] = []
    for name, steps in sorted(_registry.all().items()):
        options = {short: arguments[long] for long, short in _arguments(name, steps).items() if long in arguments}
        if options and name not in arguments:
            raise TypeError(f"{called}() takes {name}_{next(iter(options))} only together with {name}=True")
        if name in arguments:
            instance_of(name, arguments[name], bool)
            created += steps.create(**options) if arguments[name] else ()
    return created


def _arguments(name: str, steps: ExtraSteps) -> dict[str, str]:
    """Return the arguments of the options, each with the name of its option."""
    return {f"{name}_{option}": option for option in steps.options}
