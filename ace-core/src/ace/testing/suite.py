"""`Conformance`, the base class of the suites, and the functions that find and run the plugin under test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from typing import Any, ClassVar, TypeVar

import pytest

from ace.plugins import PluginError
from ace.plugins.catalogue import catalogue
from ace.plugins.loading import Plugin
from ace.plugins.specs import Spec

__all__ = ["Conformance", "demand", "installed_plugins", "loaded_plugin", "resolved", "run_without", "spec_of"]

_BLOCKING = """
import sys

class _Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked by ace.testing)", name=name)

sys.meta_path.insert(0, _Blocked())
"""

SomeSpec = TypeVar("SomeSpec", bound=Spec)


def run_without(
    modules: Collection[str], code: str, *arguments: str, hash_seed: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run code in a separate process with the import path of this one.

    Args:
        modules: The top-level packages that cannot be imported.
        code: The source of the program.
        *arguments: The values of `sys.argv[1:]`.
        hash_seed: The value of `PYTHONHASHSEED`, on which the order of sets depends.
    """
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONIOENCODING": "utf-8",
    }
    return subprocess.run(
        [sys.executable, "-c", f"BLOCKED = {sorted(modules)!r}\n{_BLOCKING}\n{code}", *arguments],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def last_line(text: str) -> str:
    """Return the last line of a process's output; in a traceback, that is the error."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


class Conformance:
    """The base class of the suites. A subclass overrides fixtures; overriding a check is an error.

    Raises:
        TypeError: A subclass overrides a check.

    Example:
        >>> from ace.testing import PluginConformance
        >>> class TestPlugin(PluginConformance):
        ...     test_targets = None
        Traceback (most recent call last):
        ...
        TypeError: TestPlugin overrides the check 'test_targets' of PluginConformance; override fixtures only
    """

    _is_suite: ClassVar[bool] = False

    def __init_subclass__(cls, *, is_suite: bool = False) -> None:
        super().__init_subclass__()
        cls._is_suite = is_suite
        for suite in cls.__mro__:
            for name, check in _checks(suite):
                if getattr(cls, name) is not check:
                    raise TypeError(
                        f"{cls.__name__} overrides the check {name!r} of {suite.__name__}; override fixtures only"
                    )

    @pytest.fixture
    def plugin_name(self) -> str:
        """The name of the plugin, which is that of its entry point."""
        name: str = must_be_given(self, "plugin_name")
        return name

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        """The top-level packages of the framework. They are blocked in checks of parts that must work without them."""
        return ()


def must_be_given(suite: Conformance, fixture: str) -> Any:
    """Fail, because a subclass did not override a required fixture."""
    pytest.fail(f"{type(suite).__name__} must override the fixture {fixture!r}", pytrace=False)


def _checks(suite: type) -> list[tuple[str, object]]:
    if not vars(suite).get("_is_suite"):
        return []
    return [(name, value) for name, value in vars(suite).items() if name.startswith("test_")]


def demand(condition: object, said: str) -> None:
    """Fail the check with a message unless the condition is true.

    Args:
        condition: The required condition.
        said: The message: the problem, and what to do about it.
    """
    if not condition:
        pytest.fail(said, pytrace=False)


def installed_plugins(name: str) -> list[Plugin]:
    """Return the installed plugins of a name; there are several if they conflict.

    Args:
        name: The exact name of the entry point.
    """
    return [plugin for plugin in catalogue().plugins() if plugin.name == name]


def loaded_plugin(name: str) -> Plugin:
    """Return a plugin; skip the check if it cannot be loaded, which `PluginConformance` reports."""
    try:
        return catalogue().find(name).load()
    except PluginError as error:
        pytest.skip(f"cannot be checked before PluginConformance holds: {error}")


def spec_of(name: str, kind: type[SomeSpec]) -> SomeSpec:
    """Return the spec of one class of a plugin; fail if it does not yield one."""
    specs = loaded_plugin(name).specs_of(kind)
    demand(specs, f"the plugin {name!r} yields no {kind.__name__}; omit this suite, or add the hook")
    return specs[0]


def resolved(name: str, reference: str, requires: tuple[str, ...] = ()) -> object:
    """Import the target of a spec; skip the check if that fails, which `PluginConformance` reports.

    Args:
        name: The name of the plugin.
        reference: `package.module:attribute`.
        requires: The requirements of the target.
    """
    try:
        return loaded_plugin(name).resolve(reference, requires)
    except PluginError as error:
        pytest.skip(f"cannot be checked before test_targets of PluginConformance holds: {error}")
