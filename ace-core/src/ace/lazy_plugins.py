"""Lets registries in lower layers load plugins on first use, without importing `ace.plugins`.

`ace` sets the function that fills the registries, and registries call `fill` when they are searched.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Filler(Protocol):
        """Registers what plugins provide."""

        def __call__(self, kind: str, *, name: str | None = None, built_in: bool = False) -> None:
            """Register what plugins provide of one kind; see `fill`."""


__all__ = ["fill", "filled", "set_filler"]

_filler: "Filler | None" = None

filled: "set[tuple[str, str | None, bool]]" = set()
"""The arguments with which `fill` has nothing left to do. The filler changes it, and clears it when plugins change."""


def set_filler(filler: "Filler") -> None:
    """Set the function that fills the registries.

    Args:
        filler: The function, which is called with the arguments of `fill`.
    """
    global _filler
    _filler = filler


def fill(kind: str, *, name: "str | None" = None, built_in: bool = False) -> None:
    """Register what plugins provide of one kind, unless that has been done already.

    Args:
        kind: The kind, such as `trace_converters`.
        name: Only register the plugin of this name, if it exists; its errors are raised.
        built_in: Only register what is part of ace, without searching for plugins.
    """
    if _filler is not None and (kind, name, built_in) not in filled:
        _filler(kind, name=name, built_in=built_in)
