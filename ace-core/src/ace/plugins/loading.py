"""Loads plugins: imports the hook module, calls its hooks with pluggy, and imports what its specs name on first use.

All code of a plugin that runs here runs inside `_guarded`, which names the plugin in what it raises.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Self, TypeVar, final

import pluggy

from ace.plugins import hooks
from ace.plugins.discovery import InstalledPlugin
from ace.plugins.errors import MissingFrameworkError, PluginApiError, PluginError, PluginLoadError
from ace.plugins.hooks import HOOKS
from ace.plugins.specs import Spec

__all__ = ["Plugin", "call_hooks", "loading_lock"]

_CURRENT_API: Final = 1
_OLDEST_API: Final = 1
"""The lowest `ACE_API` that is supported: that of the current version and, later, of the previous one."""

loading_lock: Final = threading.RLock()
"""Held while plugins are loaded and registered. A single lock avoids deadlocks: a plugin that is being loaded may use a
registry, and using a registry loads plugins."""

SomeSpec = TypeVar("SomeSpec", bound=Spec)


@final
class Plugin:
    """A plugin of this process, loaded on first use.

    A plugin that cannot be loaded is disabled until the process ends: its error is kept and raised on each later use.

    Args:
        installed: The metadata of the plugin.
        hook_module: The object that has its hooks; None to import the hook module that the metadata name.
    """

    def __init__(self, installed: InstalledPlugin, hook_module: object | None = None) -> None:
        self.installed = installed
        self.error: PluginError | None = installed.problem
        self.is_loading = False
        """Whether its hook module is currently being imported, or its hooks are being called."""
        self.specs: Mapping[str, tuple[Spec, ...]] = {}
        """Its specs by kind, once it is loaded."""
        self._hook_module = hook_module
        self._targets: dict[str, object] = {}

    @property
    def name(self) -> str:
        """The name of its entry point."""
        return self.installed.name

    @property
    def owner(self) -> str:
        """The names of the plugin and its distribution, for errors."""
        return f"plugin {self.name!r} of {self.installed.origin}"

    @property
    def is_usable(self) -> bool:
        """Whether it is enabled, and nothing that prevents its use is known."""
        return self.installed.is_enabled and self.error is None

    @property
    def api(self) -> int | None:
        """Its `ACE_API`; None if its hook module has not been imported, or has no such number."""
        found = getattr(self._hook_module, "ACE_API", None)
        return found if type(found) is int else None

    def load(self) -> Self:
        """Call its hooks unless that has been done, and return it.

        Raises:
            PluginError: It cannot be loaded.
        """
        with loading_lock:
            if self.error is not None:
                raise self.error.with_traceback(None)  # otherwise its traceback would grow with each call
            if self.is_loading:
                raise PluginLoadError(f"{self.owner}: it uses itself while it is being loaded; do that later")
            if not self.specs:
                self.is_loading = True
                try:
                    found = call_hooks(self.hook_module(), self.owner)
                    self._check_names(found)
                    self.specs = found
                except PluginError as error:
                    self.error = error
                    raise
                finally:
                    self.is_loading = False
        return self

    def hook_module(self) -> object:
        """Return its hook module, imported if necessary.

        Raises:
            PluginLoadError: It cannot be imported.
        """
        if self._hook_module is None:
            with _guarded(
                f"{self.owner}: its hook module {self.installed.module!r} cannot be imported",
                f"importing the hook module of {self.owner}",
                f"; uninstall or update it, or disable it: ACE_PLUGINS_DISABLED={self.name}",
            ):
                self._hook_module = _import_object(self.installed.module)
        return self._hook_module

    def _check_names(self, specs: Mapping[str, tuple[Spec, ...]]) -> None:
        for kind, found in specs.items():
            for spec in found:
                if spec.name != self.name:
                    raise PluginLoadError(
                        f"{self.owner}: ace_{kind} yields the name {spec.name!r}; it must be the name of the entry "
                        f"point, {self.name!r}"
                    )
            if len(found) > 1:
                raise PluginLoadError(
                    f"{self.owner}: ace_{kind} yields {self.name!r} {len(found)} times; one is enough"
                )

    def specs_of(self, kind: type[SomeSpec]) -> list[SomeSpec]:
        """Return its specs of one class."""
        return [spec for found in self.specs.values() for spec in found if isinstance(spec, kind)]

    def target(self, spec: Spec) -> Any:
        """Import the target of one of its specs; see `resolve`."""
        return self.resolve(spec.target, spec.requires)

    def resolve(self, reference: str, requires: Iterable[str] = ()) -> Any:
        """Import something that one of its specs names. If that fails, it is not imported again in this process.

        Args:
            reference: `package.module:attribute`.
            requires: The requirements of the spec.

        Raises:
            MissingFrameworkError: A requirement is not installed. It may be installed later, so this is not kept.
            PluginLoadError: It could not be imported, or does not exist.
        """
        if reference not in self._targets:
            self.check_requirements(requires)
            try:
                self._targets[reference] = self._imported(reference)
            except PluginLoadError as error:
                self._targets[reference] = error
        found = self._targets[reference]
        if isinstance(found, PluginLoadError):
            raise found.with_traceback(None)
        return found

    def _imported(self, reference: str) -> object:
        with _guarded(
            f"{self.owner}: {reference!r} cannot be imported",
            f"importing {reference!r} of {self.owner}",
            "; `ace plugins --check` shows where",
        ):
            try:
                return _import_object(reference)
            except ModuleNotFoundError as error:
                own = reference.partition(".")[0].partition(":")[0]
                if error.name is None or error.name.partition(".")[0] == own:
                    raise
                missing = MissingFrameworkError(
                    f"{self.owner}: {reference!r} needs the module {error.name!r}, which is not installed; "
                    "the spec should name its distribution in requires"
                )
                missing.name = error.name
                raise missing from error

    def check_requirements(self, requires: Iterable[str]) -> None:
        """Compare requirements with the installed distributions, without importing these.

        Args:
            requires: PEP 508 requirements.

        Raises:
            MissingFrameworkError: A requirement is not met.
        """
        for text in requires:
            # Imported here, because most specs have no requirements.
            from importlib_metadata import PackageNotFoundError, version
            from packaging.requirements import Requirement

            requirement = Requirement(text)
            if requirement.marker is not None and not requirement.marker.evaluate():
                continue
            try:
                installed = version(requirement.name)
            except PackageNotFoundError:
                found = "which is not installed"
            else:
                if requirement.specifier.contains(installed, prereleases=True):
                    continue
                found = f"and {requirement.name} {installed} is installed"
            missing = MissingFrameworkError(f"{self.owner} needs {text!r}, {found}; run: pip install {text!r}")
            missing.name = requirement.name
            raise missing


def call_hooks(hook_module: object, owner: str) -> dict[str, tuple[Spec, ...]]:
    """Call the hooks of a module or another object, and return the specs by kind. Their names are not checked.

    Args:
        hook_module: The object that has the hooks.
        owner: The names of the plugin and its distribution, for errors.

    Raises:
        PluginLoadError: The API version, a hook or a spec is invalid.
    """
    _check_api(getattr(hook_module, "ACE_API", None), owner)
    names = ", ".join(f"ace_{kind}" for kind in HOOKS)
    # A manager of its own, so that no plugin is affected by what another one registers.
    manager = pluggy.PluginManager("ace")
    manager.add_hookspecs(hooks)
    try:
        manager.register(hook_module)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        said = " ".join(str(error).split())
        raise PluginLoadError(f"{owner}: {said}; the hooks are {names}, and take no arguments") from error
    found = {kind: specs for kind in HOOKS if (specs := _yielded(manager, kind, owner))}
    if not found:
        raise PluginLoadError(f"{owner}: it provides nothing; the hooks are {names}, each under @hookimpl")
    return found


def _check_api(api: object, owner: str) -> None:
    if type(api) is int and _OLDEST_API <= api <= _CURRENT_API:
        return
    if api is None:
        said, fix = "its hook module has no ACE_API", f"add ACE_API = {_CURRENT_API}"
    elif type(api) is not int:
        said, fix = f"ACE_API must be a whole number, got {api!r}", f"write ACE_API = {_CURRENT_API}"
    elif api > _CURRENT_API:
        said, fix = f"it is written for plugin API {api}, newer than {_CURRENT_API}", "update ace-core"
    else:
        said, fix = f"it is written for plugin API {api}, older than {_OLDEST_API}", "update the plugin"
    raise PluginApiError(f"{owner}: {said}; {fix}")


def _yielded(manager: pluggy.PluginManager, kind: str, owner: str) -> tuple[Spec, ...]:
    """Call one hook, and return its specs."""
    wanted = HOOKS[kind]
    with _guarded(f"{owner}: ace_{kind} failed", f"calling ace_{kind} of {owner}"):
        found: list[Any] = []
        for result in getattr(manager.hook, f"ace_{kind}")():
            if not isinstance(result, Iterable):
                raise TypeError(f"it returns a {type(result).__name__}; yield {wanted.__name__}(...)")
            found += result
    for spec in found:
        if type(spec) is not wanted:
            raise PluginLoadError(f"{owner}: ace_{kind} must yield {wanted.__name__}, got {spec!r}")
    return tuple(found)


def _import_object(reference: str) -> object:
    module, _, attributes = reference.partition(":")
    found: object = import_module(module)
    for attribute in filter(None, attributes.split(".")):
        found = getattr(found, attribute)
    return found


@contextmanager
def _guarded(failure: str, doing: str, hint: str = "") -> Iterator[None]:
    """A context in which code of a plugin runs. Whatever it raises, SystemExit included, becomes a `PluginLoadError`.

    Only KeyboardInterrupt is raised unchanged, because the user may have pressed Ctrl-C, with a note that says what was
    interrupted.

    Args:
        failure: The beginning of the error: the plugin, and what failed.
        doing: A description of the code, for an interrupt.
        hint: The end of the error.
    """
    try:
        yield
    except PluginError:  # it names its plugin already
        raise
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"while {doing}")
        raise
    except BaseException as error:
        from ace.protocols.errors import error_text  # not above: `ace --help` needs no protocols

        said = ": ".join(filter(None, (type(error).__name__, error_text(error))))
        raise PluginLoadError(f"{failure}: {said}{hint}") from error
