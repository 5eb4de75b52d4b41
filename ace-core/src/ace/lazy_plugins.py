"""Lets registries in lower layers load plugins on first use, without importing `ace.plugins`.

`ace` sets the function that fills the registries, and registries call `fill` when they are first searched.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Filler(Protocol):
        """Registers what plugins provide."""

        def __call__(self, kind: str, *, name: str | None = None, built_in: bool = False) -> None:
            """Register what plugins provide of one kind; see `fill`."""


__all__ = ["fill", "set_filler"]

_filler: "Filler | None" = None


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
    if _filler is not None:
        _filler(kind, name=name, built_in=built_in)
