"""Checks that what a target needs is installed, before it is imported."""

from __future__ import annotations

from collections.abc import Iterable

from ace.plugins.errors import MissingFrameworkError, PluginLoadError

__all__ = ["check_requirements"]


def check_requirements(requires: Iterable[str], *, needed_by: str) -> None:
    """Compare requirements with what is installed; nothing is imported.

    Args:
        requires: PEP 508 requirements.
        needed_by: Who needs them, for the error: a plugin and its distribution.

    Raises:
        MissingFrameworkError: One of them is not met.
        PluginLoadError: One of them is not written as it must be.

    Example:
        >>> check_requirements(["pluggy>=1"], needed_by="plugin 'acme'")
        >>> check_requirements(["pluggy>=99"], needed_by="plugin 'acme' of ace-acme 1.0")
        Traceback (most recent call last):
        ...
        ace.plugins.errors.MissingFrameworkError: plugin 'acme' of ace-acme 1.0 needs 'pluggy>=99', and pluggy ... is \
installed; run: pip install 'pluggy>=99'
    """
    from importlib_metadata import PackageNotFoundError, version
    from packaging.requirements import Requirement

    for text in requires:
        try:
            requirement = Requirement(text)
            is_needed = requirement.marker is None or requirement.marker.evaluate()
        except ValueError as error:  # of the requirement or of its marker
            raise PluginLoadError(f"{needed_by}: a requirement is written as in PEP 508, not {text!r}") from error
        if not is_needed:
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            found = "which is not installed"
        else:
            if requirement.specifier.contains(installed, prereleases=True):
                continue
            found = f"and {requirement.name} {installed} is installed"
        missing = MissingFrameworkError(f"{needed_by} needs {text!r}, {found}; run: pip install {text!r}")
        missing.name = requirement.name
        raise missing
