"""`Conformance`: what the suites have in common, and how they find and run the plugin under test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from typing import Any, ClassVar, TypeVar

import pytest

from ace.plugins import PluginError
from ace.plugins.catalogue import CataloguedPlugin, catalogue
from ace.plugins.loading import LoadedPlugin
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
    """Run code with the import path of this process.

    Args:
        modules: The top-level packages that cannot be imported.
        code: The code.
        *arguments: They are in `sys.argv[1:]`.
        hash_seed: The seed of the hashes of texts, on which the order in sets depends.
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
    """Return the last line of what a process said; of a traceback, that is the error.

    Args:
        text: What it said.
    """
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


class Conformance:
    """The base of the suites. A subclass overrides fixtures; that of a check is refused.

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
        """The name of the plugin, that of its entry point."""
        name: str = must_be_given(self, "plugin_name")
        return name

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        """The top-level packages of the framework. They are blocked where a part has to do without them."""
        return ()


def must_be_given(suite: Conformance, fixture: str) -> Any:
    """Fail, because a subclass did not override a fixture that it must override.

    Args:
        suite: The suite.
        fixture: The name of the fixture.
    """
    pytest.fail(f"{type(suite).__name__} must override the fixture {fixture!r}", pytrace=False)


def _checks(suite: type) -> list[tuple[str, object]]:
    if not vars(suite).get("_is_suite"):
        return []
    return [(name, value) for name, value in vars(suite).items() if name.startswith("test_")]


def demand(condition: object, said: str) -> None:
    """Fail the check with a sentence, unless the condition holds.

    Args:
        condition: What must be true.
        said: What is wrong, and what to do.
    """
    if not condition:
        pytest.fail(said, pytrace=False)


def installed_plugins(name: str) -> list[CataloguedPlugin]:
    """Return what is installed under a name: one plugin, none, or several that claim it.

    Args:
        name: The name, exactly as the entry point has it.
    """
    return [plugin for plugin in catalogue().plugins() if plugin.installed.name == name]


def loaded_plugin(name: str) -> LoadedPlugin:
    """Return a plugin; skip the check if it cannot be loaded, which is for `PluginConformance` to tell.

    Args:
        name: Its name.
    """
    try:
        return catalogue().find(name).load()
    except PluginError as error:
        pytest.skip(f"cannot be checked before PluginConformance holds: {error}")


def spec_of(name: str, kind: type[SomeSpec]) -> SomeSpec:
    """Return the spec of one class of a plugin; fail if it gives none.

    Args:
        name: The name of the plugin.
        kind: The class of the spec.
    """
    specs = loaded_plugin(name).specs_of(kind)
    demand(specs, f"the plugin {name!r} yields no {kind.__name__}; leave this suite out, or add the hook")
    return specs[0]


def resolved(name: str, reference: str, requires: tuple[str, ...] = ()) -> object:
    """Return what a spec names; skip the check if it is not there, which is for `PluginConformance` to tell.

    Args:
        name: The name of the plugin.
        reference: `package.module:attribute`.
        requires: What it needs.
    """
    try:
        return loaded_plugin(name).targets.resolve(reference, requires)
    except PluginError as error:
        pytest.skip(f"cannot be checked before test_targets of PluginConformance holds: {error}")
