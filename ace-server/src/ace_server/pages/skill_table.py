"""The table of skills: what is searched, filtered and sorted by, and its export."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ace.skill import TAGS, Skill
from ace_server.pages import exporting
from ace_server.pages.book_reader import BookVersion

__all__ = ["PAGE_SIZE", "PROOFS", "SORTS", "STATUSES", "SkillQuery", "status_of", "to_csv", "to_json"]

PAGE_SIZE: Final = 200
"""The number of skills on a page."""
STATUSES: Final = {
    "": "Active",
    "pinned": "Pinned",
    "pending": "Pending",
    "rejected": "Rejected",
    "removed": "Removed",
    "merged": "Merged into another",
    "all": "All",
}
PROOFS: Final = {"": "Any proof", "proven": "Proven", "failing": "Failing", "unproven": "Unproven"}
SORTS: Final[Mapping[str, str]] = {
    "": "Book order",
    "-helpful": "Most helpful first",
    "-harmful": "Most harmful first",
    "-neutral": "Most neutral first",
    "-changed": "Last changed first",
    "-added": "Newest first",
    "added": "Oldest first",
    "id": "By id",
}
_KEYS: Final[Mapping[str, Callable[[Skill], str | int]]] = {
    "helpful": lambda skill: skill.helpful,
    "harmful": lambda skill: skill.harmful,
    "neutral": lambda skill: skill.neutral,
    "added": lambda skill: skill.created_at,
    "changed": lambda skill: skill.updated_at,
    "id": lambda skill: skill.id,
}


@dataclass(frozen=True, slots=True)
class SkillQuery:
    """What a table of skills shows; all of it is in the address of the page."""

    search: str = ""
    """Words that the id, the section or the text must contain."""
    section: str = ""
    status: str = ""
    """A key of `STATUSES`."""
    proof: str = ""
    """A key of `PROOFS`."""
    sort: str = ""
    """A key of `SORTS`."""
    page: int = 1
    version: int | None = None
    """The version; None for the newest one."""

    @classmethod
    def read(cls, values: Mapping[str, str]) -> SkillQuery:
        """Read a query from the parameters of an address. Unknown values are those that are not given.

        Args:
            values: The parameters.
        """
        return cls(
            search=values.get("q", "").strip(),
            section=values.get("section", ""),
            status=_known(values, "status", STATUSES),
            proof=_known(values, "proof", PROOFS),
            sort=_known(values, "sort", SORTS),
            page=max(1, _number(values.get("page", "")) or 1),
            version=_number(values.get("version", "")),
        )

    @property
    def words(self) -> list[str]:
        """The words to search for."""
        return self.search.split()

    def parameters(self, **changes: str | int | None) -> dict[str, str | int | None]:
        """Return the parameters of the address that shows this query.

        Args:
            **changes: Other values.
        """
        own = {
            "q": self.search,
            "section": self.section,
            "status": self.status,
            "proof": self.proof,
            "sort": self.sort,
            "version": self.version,
        }
        return {**own, **changes}

    def select(self, version: BookVersion) -> list[Skill]:
        """Return the skills that fit, in their order.

        Args:
            version: The book at some version.
        """
        skills = self._with_status(version)
        if self.section:
            skills = [skill for skill in skills if skill.section == self.section]
        if self.proof:
            skills = [skill for skill in skills if version.proofs.get(skill.id) == self.proof]
        for word in self.words:
            folded = word.casefold()
            skills = [skill for skill in skills if folded in version.searched[skill.id]]
        if self.sort:
            skills = sorted(skills, key=_KEYS[self.sort.removeprefix("-")], reverse=self.sort.startswith("-"))
        return list(skills)

    def _with_status(self, version: BookVersion) -> Sequence[Skill]:
        match self.status:
            case "all":
                return version.skills
            case "pinned":
                return [skill for skill in version.active if skill.pinned]
            case "pending" | "rejected" | "removed" | "merged" as status:
                return [skill for skill in version.skills if status_of(skill) == status]
            case _:
                return version.active


def status_of(skill: Skill) -> str:
    """Return the status of a skill in one word: active, pinned, pending, rejected, removed or merged."""
    if skill.is_active:
        return "pinned" if skill.pinned else "active"
    if skill.is_pending or skill.is_rejected:
        return "pending" if skill.is_pending else "rejected"
    return "removed" if skill.merged_into is None else "merged"


def to_json(skills: Sequence[Skill]) -> str:
    """Return skills as a JSON list with all fields except the vectors."""
    found = [{**skill.to_dict(), "proof": skill.proof, "evidences": list(skill.evidences)} for skill in skills]
    return json.dumps(found, ensure_ascii=False, indent=1)


def to_csv(skills: Sequence[Skill]) -> str:
    """Return skills as a table for spreadsheets."""
    columns = (
        "id",
        "section",
        "content",
        "status",
        "reason",
        "proof",
        "evidences",
        *TAGS,
        "added",
        "changed",
        "traces",
    )
    return exporting.to_csv(columns, map(_cells, skills))


def _cells(skill: Skill) -> Sequence[str | int]:
    texts = (skill.id, skill.section, skill.content, status_of(skill), skill.reason, skill.proof)
    counts = (skill.helpful, skill.harmful, skill.neutral)
    return (
        *texts,
        " ".join(skill.evidences),
        *counts,
        skill.created_at,
        skill.updated_at,
        " ".join(source.trace_id for source in skill.sources),
    )


def _known(values: Mapping[str, str], name: str, known: Mapping[str, str]) -> str:
    value = values.get(name, "")
    return value if value in known else ""


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
