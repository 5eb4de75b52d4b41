"""How registries of the lower layers come by what plugins give, when they are first looked into.

The lower layers import no plugin. `ace` names the one who fills the registries; they ask for it here.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Filler(Protocol):
        """Registers what plugins give."""

        def __call__(self, kind: str, *, name: str | None = None, built_in: bool = False) -> None:
            """Register what plugins give of one kind; see `fill`."""


__all__ = ["fill", "set_filler"]

_filler: "Filler | None" = None


def set_filler(filler: "Filler") -> None:
    """Name the one who fills the registries.

    Args:
        filler: It is called as `fill` is.
    """
    global _filler
    _filler = filler


def fill(kind: str, *, name: "str | None" = None, built_in: bool = False) -> None:
    """Have what plugins give of one kind registered, as far as that has not been done.

    Args:
        kind: Such as `trace_converters`.
        name: Only of the plugin with this name, if there is one; what is wrong with it is raised then.
        built_in: Only what comes with ace; no plugin is looked for.
    """
    if _filler is not None:
        _filler(kind, name=name, built_in=built_in)
