"""`Conformance`: what the suites have in common."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

__all__ = ["Conformance"]


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
