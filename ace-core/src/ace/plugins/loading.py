"""Loads one plugin: imports its hook module, calls its hooks and checks their specs, whose targets are imported later.

All code of plugins runs inside `_plugin_code`, which attributes its errors to the plugin. Plugins are loaded and
registered with `loading_lock` of the catalogue held, on the thread that first uses them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import pluggy

from ace.plugins import hooks, specs
from ace.plugins.errors import MissingFrameworkError, PluginError, PluginLoadError
from ace.plugins.hooks import HOOKS, check_api, hook_names, undecorated_hook, unknown_hook
from ace.plugins.specs import Spec

if TYPE_CHECKING:
    from ace.plugins.discovery import InstalledPlugin

__all__ = [
    "LoadedPlugin",
    "PluginCode",
    "check_requirements",
    "import_hooks",
    "load",
    "load_hooks",
    "wrong_name",
]

_logger = logging.getLogger(__name__)

SLOW_AFTER: Final = 5.0
"""The time after which a warning names the plugin that the program is waiting for, in seconds."""

SomeSpec = TypeVar("SomeSpec", bound=Spec)


@final
class PluginCode:
    """Code of a plugin that the program waits for. If it takes long, a warning names the plugin, once.

    Args:
        doing: A description of the code, such as "calling the recogniser of plugin 'acme' of ace-acme 1.0".
        adds_up: Whether the times of several calls are added: for code that is called with each record or event, and
            should be quick. Calls shorter than 0.1 seconds are not counted.
    """

    def __init__(self, doing: str, *, adds_up: bool = False) -> None:
        self._doing = doing
        self._adds_up = adds_up
        self._spent = 0.0
        self._is_reported = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """A context in which the code runs."""
        began = _watcher.begin(self)
        try:
            yield
        finally:
            took = _watcher.end(began)
            if self._adds_up and took >= _NOTICEABLE:
                self._spent += took

    def note(self, seconds: float) -> None:
        """Log the warning if it is due.

        Args:
            seconds: How long the call that is running has taken.
        """
        if not self._is_reported and self._spent + seconds >= SLOW_AFTER:
            self._is_reported = True
            _logger.warning("%s has taken %g seconds so far", self._doing, SLOW_AFTER)


_NOTICEABLE: Final = 0.1


@final
class _Watcher:
    """A thread that looks at the plugin code that is running, on all threads.

    It is started with a call and ends when it finds none running, so a program without plugins does not have it. One
    thread for all calls, since an observer may be called thousands of times per second.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget all calls and the thread, which a forked process does not have."""
        self._lock = threading.Lock()
        self._running: dict[object, tuple[float, PluginCode]] = {}
        self._is_watching = False

    def begin(self, code: PluginCode) -> object:
        """Note that a call of this code begins; return the key for `end`."""
        key = object()
        with self._lock:
            self._running[key] = time.monotonic(), code
            must_start, self._is_watching = not self._is_watching, True
        if must_start:
            try:
                threading.Thread(target=self._watch, name="ace-plugin-watcher", daemon=True).start()
            except RuntimeError:  # there can be no more threads; the plugin works without the warning
                self._is_watching = False
        return key

    def end(self, key: object) -> float:
        """Note that a call has ended; return how long it took, in seconds."""
        with self._lock:
            began, _ = self._running.pop(key, (time.monotonic(), None))  # a forked process has forgotten it
        return time.monotonic() - began

    def _watch(self) -> None:
        while True:
            time.sleep(SLOW_AFTER / 5)
            with self._lock:
                running = list(self._running.values())
                if not running:
                    self._is_watching = False
                    return
            for began, code in running:
                code.note(time.monotonic() - began)


_watcher: Final = _Watcher()
os.register_at_fork(after_in_child=_watcher.forget)


@contextlib.contextmanager
def _plugin_code(failure: str, doing: str, hint: str = "") -> Iterator[None]:
    """A context in which a module of a plugin is imported, or one of its hooks is called.

    Any exception, including `GeneratorExit` and others derived from `BaseException`, becomes a `PluginLoadError`. Only
    `KeyboardInterrupt` is raised unchanged, because the user may have pressed Ctrl-C, with a note that says what was
    interrupted.

    Args:
        failure: The beginning of the error: the plugin, and what failed.
        doing: A description of the block, for messages about slow or interrupted plugins.
        hint: The end of the error.

    Raises:
        PluginLoadError: The block raised.

    Example:
        >>> with _plugin_code("plugin 'acme' of acme 1.0: ace_runners failed", "calling ace_runners of plugin 'acme'"):
        ...     raise GeneratorExit
        Traceback (most recent call last):
        ...
        ace.plugins.errors.PluginLoadError: plugin 'acme' of acme 1.0: ace_runners failed: GeneratorExit
    """
    try:
        with PluginCode(doing).running():
            yield
    except PluginError:
        raise
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"while {doing}")
        raise
    except BaseException as error:
        from ace.protocols.errors import error_text  # not above: `ace --help` needs no protocols

        said = ": ".join(filter(None, (type(error).__name__, error_text(error))))
        raise PluginLoadError(f"{failure}: {said}{hint}") from error


def check_requirements(requires: Iterable[str], *, needed_by: str) -> None:
    """Compare requirements with the installed distributions, without importing them.

    Args:
        requires: PEP 508 requirements.
        needed_by: The names of the plugin and its distribution, for errors.

    Raises:
        MissingFrameworkError: A requirement is not met.
        PluginLoadError: A requirement does not follow PEP 508.

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
        except ValueError as error:  # in the requirement or in its marker
            raise PluginLoadError(f"{needed_by}: a requirement must follow PEP 508, got {text!r}") from error
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


@final
class _Targets:
    """The imported targets of one plugin's specs.

    Args:
        owner: The names of the plugin and its distribution, for errors.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._found: dict[str, object] = {}
        self._lock = threading.RLock()

    def resolve(self, reference: str, requires: tuple[str, ...] = ()) -> object:
        """Import the target of a reference. An import that failed is tried again on the next call.

        Args:
            reference: `package.module:attribute`.
            requires: The requirements of the target.

        Raises:
            MissingFrameworkError: A requirement is not installed.
            PluginLoadError: The target could not be imported, or does not exist.
        """
        with self._lock:
            if reference not in self._found:
                if requires:  # otherwise, the libraries that compare them need not be imported
                    check_requirements(requires, needed_by=self.owner)
                self._found[reference] = self._imported(reference)
            return self._found[reference]

    def _imported(self, reference: str) -> object:
        module, _, attributes = reference.partition(":")
        with _plugin_code(
            f"{self.owner}: {reference!r} cannot be imported",
            f"importing {reference!r} of {self.owner}",
            "; `ace plugins --check` shows where",
        ):
            try:
                found: object = import_module(module)
            except ModuleNotFoundError as error:
                raise self._missing_module(reference, error) from error
            for attribute in attributes.split("."):
                try:
                    found = getattr(found, attribute)
                except AttributeError as error:
                    raise PluginLoadError(
                        f"{self.owner}: {reference!r} does not exist: the module {module!r} has no {attributes!r}; "
                        "the spec or the module is wrong"
                    ) from error
        return found

    def _missing_module(self, reference: str, error: ModuleNotFoundError) -> PluginError:
        own = reference.partition(".")[0].partition(":")[0]
        if error.name is None or error.name.partition(".")[0] == own:
            return PluginLoadError(
                f"{self.owner}: {reference!r} cannot be imported: {error}; the spec or the package is wrong"
            )
        missing = MissingFrameworkError(
            f"{self.owner}: {reference!r} needs the module {error.name!r}, which is not installed; "
            "the spec should name its distribution in requires"
        )
        missing.name = error.name
        return missing


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin whose hooks have been called. Its targets need not be imported yet."""

    name: str
    specs: Mapping[str, tuple[Spec, ...]]
    """Its specs, by kind."""
    targets: _Targets

    def specs_of(self, kind: type[SomeSpec]) -> list[SomeSpec]:
        """Return its specs of one class."""
        return [spec for found in self.specs.values() for spec in found if isinstance(spec, kind)]

    def resolve(self, spec: Spec) -> Any:
        """Import the target of a spec of this plugin."""
        return self.targets.resolve(spec.target, spec.requires)


def load(plugin: InstalledPlugin) -> LoadedPlugin:
    """Import the hook module of an installed plugin, and call its hooks.

    Raises:
        PluginError: The plugin cannot be loaded.
    """
    return load_hooks(import_hooks(plugin), plugin.name, _owner(plugin))


def import_hooks(plugin: InstalledPlugin) -> object:
    """Import the hook module of an installed plugin, without calling its hooks.

    Raises:
        PluginError: The module cannot be imported.
    """
    module, _, attributes = plugin.module.partition(":")
    owner = _owner(plugin)
    with _plugin_code(
        f"{owner}: its hook module {plugin.module!r} cannot be imported",
        f"importing the hook module of {owner}",
        f"; uninstall or update it, or disable it: ACE_PLUGINS_DISABLED={plugin.name}",
    ):
        hook_module: object = import_module(module)
        for attribute in filter(None, attributes.split(".")):
            hook_module = getattr(hook_module, attribute)
    return hook_module


def _owner(plugin: InstalledPlugin) -> str:
    return f"plugin {plugin.name!r} of {plugin.origin}"


def load_hooks(hook_module: object, name: str, owner: str, *, own_names: bool = True) -> LoadedPlugin:
    """Call the hooks of a module or another object in a separate plugin manager.

    Args:
        hook_module: The object that has the hooks.
        name: The name of the plugin.
        owner: The names of the plugin and its distribution, for errors.
        own_names: Whether all specs must have the name of the plugin.

    Raises:
        PluginError: A hook or a spec is invalid.
    """
    check_api(getattr(hook_module, "ACE_API", None), owner)
    _check_decorators(hook_module, owner)
    manager = pluggy.PluginManager("ace")
    manager.add_hookspecs(hooks)
    _register(manager, hook_module, name, owner)
    found = {kind: _yielded(manager, kind, owner) for kind in HOOKS}
    provided = {kind: specs for kind, specs in found.items() if specs}
    if not provided:
        raise PluginLoadError(f"{owner}: it provides nothing; the hooks are {hook_names()}, each under @hookimpl")
    if own_names:
        _check_names(provided, name, owner)
    return LoadedPlugin(name, provided, _Targets(owner))


def _register(manager: pluggy.PluginManager, hook_module: object, name: str, owner: str) -> None:
    try:
        manager.register(hook_module, name)
    except pluggy.PluginValidationError as error:
        said = " ".join(str(error).split())
        raise PluginLoadError(f"{owner}: a hook takes no arguments: {said}") from error
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        callers = manager.get_hookcallers(hook_module) or []
        unknown = next(caller.name for caller in callers if caller.name.removeprefix("ace_") not in HOOKS)
        raise PluginLoadError(f"{owner}: {unknown_hook(unknown)}") from error


def _check_decorators(hook_module: object, owner: str) -> None:
    for kind in HOOKS:
        hook = getattr(hook_module, f"ace_{kind}", None)
        if callable(hook) and not hasattr(hook, "ace_impl"):
            raise PluginLoadError(f"{owner}: {undecorated_hook(f'ace_{kind}')}")


def _yielded(manager: pluggy.PluginManager, kind: str, owner: str) -> tuple[Spec, ...]:
    """Call one hook and check its specs."""
    wanted: type[Spec] = getattr(specs, HOOKS[kind])
    with _plugin_code(f"{owner}: ace_{kind} failed", f"calling ace_{kind} of {owner}"):
        found = [spec for result in getattr(manager.hook, f"ace_{kind}")() for spec in _iterable(result, kind, wanted)]
    for spec in found:
        if type(spec) is not wanted:
            raise PluginLoadError(f"{owner}: ace_{kind} must yield {wanted.__name__}, got {spec!r}")
    return tuple(found)


def _iterable(result: object, kind: str, wanted: type[Spec]) -> Iterable[Any]:
    if not isinstance(result, Iterable):
        raise TypeError(f"it returns a {type(result).__name__}; yield {wanted.__name__}(...)")
    return result


def wrong_name(kind: str, name: str, wanted: str, owner: str) -> PluginLoadError:
    """Return the error of a spec that has another name than its entry point.

    Args:
        kind: The kind of the spec, such as `runners`.
        name: Its name.
        wanted: The name of the entry point.
        owner: The plugin and its distribution.
    """
    return PluginLoadError(
        f"{owner}: ace_{kind} yields the name {name!r}; it must be the name of the entry point, {wanted!r}"
    )


def _check_names(provided: Mapping[str, tuple[Spec, ...]], name: str, owner: str) -> None:
    for kind, found in provided.items():
        wrong = next((spec for spec in found if spec.name != name), None)
        if wrong is not None:
            raise wrong_name(kind, wrong.name, name, owner)
        if len(found) > 1:
            raise PluginLoadError(f"{owner}: ace_{kind} yields {name!r} {len(found)} times; one is enough")
