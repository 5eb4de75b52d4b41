"""Public names of a package whose modules are imported when a name is first used."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazy_exports", "warn_of_old_argument"]


def lazy_exports(
    package: str, homes: "Mapping[str, str]", *, below: str = ""
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return the `__getattr__` and the `__dir__` of a package.

    A name is looked up once; from then on it is an attribute of the package.

    Args:
        package: The `__name__` of the package. Its `__all__` is what `dir` shows.
        homes: The public names, each with the module that defines it, relative to the package.
        below: The package that the modules are relative to, if it is a different one.

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
    import warnings

    warnings.warn_explicit(
        f"{old} is called {new} now; the old name works until 0.2",
        DeprecationWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
