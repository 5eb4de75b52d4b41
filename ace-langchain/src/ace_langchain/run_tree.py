"""The hierarchy of the parts of a run."""

from __future__ import annotations

from typing import final
from uuid import UUID

__all__ = ["RunTree"]


@final
class RunTree:
    """Names every part of a run by its path.

    Example:
        >>> tree = RunTree()
        >>> tree.add(UUID(int=1), None, "LangGraph")
        >>> tree.add(UUID(int=2), UUID(int=1), "tools")
        >>> tree.add(UUID(int=3), UUID(int=2), "divide")
        >>> tree.path(UUID(int=3)), tree.parent_path(UUID(int=3)), tree.path(UUID(int=1))
        ('tools/divide', 'tools', 'LangGraph')
    """

    def __init__(self) -> None:
        self._parts: dict[UUID, tuple[UUID | None, str]] = {}

    def add(self, run_id: UUID, parent: UUID | None, name: object) -> None:
        """Add a part.

        Args:
            run_id: The id of the part.
            parent: The id of the enclosing part.
            name: The name of the part.
        """
        self._parts[run_id] = (parent, str(name or "run"))

    def name(self, run_id: UUID) -> str:
        """Return the name of a part."""
        return self._parts.get(run_id, (None, "run"))[1]

    def path(self, run_id: UUID) -> str:
        """Return the names from below the whole run down to a part; of the whole run, its own name.

        Args:
            run_id: The id of the part.
        """
        above = self.parent_path(run_id)
        return f"{above}/{self.name(run_id)}" if above else self.name(run_id)

    def parent_path(self, run_id: UUID) -> str:
        """Return the path of the part in which a part runs; empty for the whole run.

        Args:
            run_id: The id of the part.
        """
        names: list[str] = []
        parent = self._parts.get(run_id, (None, ""))[0]
        while parent is not None and parent in self._parts:
            following, name = self._parts[parent]
            if following is not None and following in self._parts:
                names.append(name)
            parent = following
        return "/".join(reversed(names))
