"""Public names of a package whose modules are imported when a name is first used, and old names until 0.2."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

__all__ = ["lazy_exports", "old_modules", "warn_of_old_argument"]


def lazy_exports(
    package: str, homes: "Mapping[str, str]", *, below: str = "", old_names: "Mapping[str, str] | None" = None
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return the `__getattr__` and the `__dir__` of a package.

    A name is looked up once; from then on it is an attribute of the package.

    Args:
        package: The `__name__` of the package. Its `__all__` is what `dir` shows.
        homes: The public names, each with the module that defines it, relative to the package.
        below: The package that the modules are relative to, if it is a different one.
        old_names: Names that work until version 0.2, each with the full name of what it is called now. Every use of
            one is a DeprecationWarning with the place of that use; `dir` does not show them.

    Example:
        In the `__init__.py` of a package, `__getattr__, __dir__ = lazy_exports(__name__, {"Table": "tables"})`.

        >>> find, names = lazy_exports("ace.skillbook", {"Head": "store"})
        >>> find("Head").__module__, "Head" in names()
        ('ace.skillbook.store', True)
        >>> find("Tail")
        Traceback (most recent call last):
        ...
        AttributeError: module 'ace.skillbook' has no attribute 'Tail'
    """

    def find(name: str) -> object:
        home = homes.get(name)
        if home is None:
            if old_names and name in old_names:
                return _renamed(package, name, old_names[name])
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Imported here: importlib would more than double what `import ace` loads.
        from importlib import import_module

        found: object = getattr(import_module(f"{below or package}.{home}"), name)
        vars(sys.modules[package])[name] = found
        return found

    def names() -> list[str]:
        attributes = vars(sys.modules[package])
        return sorted({*attributes, *attributes["__all__"]})

    return find, names


def old_modules(renamed: "Mapping[str, str]", *, names: "Mapping[str, str] | None" = None) -> None:
    """Make renamed modules and their contents importable under their old names too, until version 0.2.

    The first import of an old module, and every later use of a name in it, is a DeprecationWarning with the place of
    the caller. The names are the same objects as in the new module.

    Args:
        renamed: The full old names, each with the full new name.
        names: Names in these modules that have changed as well: the full old name, with the new one in its new module.

    Example:
        After `old_modules({"shop.carts": "shop.baskets"})` in the `__init__.py` of `shop`,
        `from shop.carts.prices import total` imports `shop.baskets.prices`.
    """
    # First in the list: of a package that was renamed, a checkout may still have the folder with a `__pycache__`, which
    # would be found as an empty namespace package.
    sys.meta_path.insert(0, _OldModules(renamed, names or {}))


def warn_of_old_argument(old: str, new: str) -> None:
    """Warn the caller of ace, or of one of its integrations, that an argument has a new name.

    Args:
        old: What the argument was called until now.
        new: What to write instead.
    """
    frame = sys._getframe(1)
    # Integrations such as `ace_langchain` pass on the arguments of their callers.
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(("ace.", "ace_")):
        frame = frame.f_back
    _warn(old, new, frame)


class _OldModules:
    """Finds renamed modules by their old names, and loads them as modules that forward to the new ones."""

    def __init__(self, renamed: "Mapping[str, str]", names: "Mapping[str, str]") -> None:
        self._renamed = renamed
        self._names = names
        self._last_caller: tuple[str, int] | None = None
        """The import statement of the last warning. It may load a module and its parent, and read names of both."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        new = self._new_name(name)
        if new is None:
            return None
        from importlib.machinery import ModuleSpec
        from importlib.util import find_spec

        try:
            exists = find_spec(new) is not None
        except ModuleNotFoundError:  # what would have to be a package is none
            return None
        if not exists:
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]  # its base class would be an import

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return None

    def exec_module(self, module: "ModuleType") -> None:
        from importlib import import_module

        old, new = module.__name__, self._new_name(module.__name__)
        assert new is not None  # find_spec has found it
        home = import_module(new)
        caller, _ = _caller({"ace"})
        self._warn(old, new, caller)
        self._last_caller = _place(caller)

        def find(name: str) -> object:
            new_name = self._names.get(f"{old}.{name}", name)
            found: object = getattr(home, new_name)
            if not name.startswith("__"):
                caller, looking = _caller({"ace"})
                if not looking:
                    renamed = new_name != name
                    self._warn(f"{old}.{name}" if renamed else old, f"{new}.{new_name}" if renamed else new, caller)
            return found

        vars(module).update(__doc__=home.__doc__, __getattr__=find, __dir__=lambda: dir(home))

    def _warn(self, old: str, new: str, caller: "FrameType") -> None:
        if _place(caller) != self._last_caller:
            _warn(old, new, caller)

    def _new_name(self, name: str) -> str | None:
        for old, new in self._renamed.items():
            if name == old or name.startswith(f"{old}."):
                return new + name[len(old) :]
        return None


def _renamed(package: str, name: str, new: str) -> object:
    from importlib import import_module

    module, _, new_name = new.rpartition(".")
    found: object = getattr(import_module(module), new_name)
    caller, looking = _caller({"ace", package})
    if not looking:
        _warn(f"{package}.{name}", new, caller)
    return found


def _caller(packages: set[str]) -> "tuple[FrameType, bool]":
    """Return the frame outside of these packages that asks for a name or a module, and whether import asks for it.

    `from package import name` asks for a name twice, first to see whether it has to import a module of that name.
    """
    frame = sys._getframe(1)
    looking = False
    while frame.f_back is not None:
        module: str = frame.f_globals.get("__name__", "")
        importing = module.partition(".")[0] in ("importlib", "_frozen_importlib")
        if not importing and module != __name__ and module not in packages:
            break
        looking = looking or importing
        frame = frame.f_back
    return frame, looking


def _place(frame: "FrameType") -> tuple[str, int]:
    return frame.f_code.co_filename, frame.f_lineno


def _warn(old: str, new: str, caller: "FrameType") -> None:
    import warnings

    file, line = _place(caller)
    warnings.warn_explicit(
        f"{old} is called {new} now; the old name works until 0.2",
        DeprecationWarning,
        file,
        line,
        module=caller.f_globals.get("__name__"),
        registry=caller.f_globals.setdefault("__warningregistry__", {}),
    )
