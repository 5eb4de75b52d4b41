"""Public names of a package whose modules are imported when a name is first used."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazy_exports"]


def lazy_exports(
    package: str, homes: "Mapping[str, str]", *, below: str = ""
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return the `__getattr__` and the `__dir__` of a package.

    A name is looked up once; from then on it is an attribute of the package.

    Args:
        package: The `__name__` of the package. Its `__all__` is what `dir` shows.
        homes: The public names, each with the module that defines it, relative to the package
            or, if it is in another one, by its whole name.
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

        found: object = getattr(import_module(home if home.startswith("ace.") else f"{below or package}.{home}"), name)
        vars(sys.modules[package])[name] = found
        return found

    def names() -> list[str]:
        attributes = vars(sys.modules[package])
        return sorted({*attributes, *attributes["__all__"]})

    return find, names
