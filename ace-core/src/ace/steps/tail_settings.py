"""`TailSettings`: the declarations of the options of `learning_tail`, which its steps read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ace._internal.arguments import checked_arguments, checked_class, file_path, with_method
from ace._internal.options import ProjectRule, at_most, check_options, inside_project, learning_option, option, refused
from ace.skill import PROVENANCES, Provenance, Unproven

if TYPE_CHECKING:
    from ace.loop.insights import InsightLog
    from ace.protocols.deduplication import DeduplicationManagerLike
    from ace.protocols.gate import GateLike
    from ace.protocols.llm import AnyLLMClient

__all__ = ["Prove", "TailSettings", "checked_sections", "listed_section"]

Prove = bool | Literal["auto"]
"""Whether skills are proven; with `auto`, they are if the agent declares that it can be asked again."""

_WEAKENS = "it would add skills that your own settings would refuse"


def _project_provenance(name: str, provenance: str, _project: Path) -> str | None:
    if provenance == "ids":
        return None
    return (
        f"{name!r} in the file of a project may not be {provenance!r}, since it would keep texts that your own "
        "settings may not allow"
    )


@checked_class
@dataclass(frozen=True, kw_only=True)
class TailSettings:
    """The settings of the steps that `learning_tail` returns.

    Raises:
        TypeError: An object lacks the method that is called, or a path has the wrong type.
        ValueError: An option is out of range.

    Example:
        >>> TailSettings(reflections_per_call=17)
        Traceback (most recent call last):
        ...
        ValueError: reflections_per_call must be at most 16, got 17
    """

    dedup_manager: DeduplicationManagerLike | None = option(
        None,
        "Merges duplicate skills.",
        details="One without a skill manager that accepts one (`with_skill_manager`) asks that of the run about "
        "doubtful pairs. If skills are proven, one that accepts a prover (`with_prover`) proves its merges.",
        python_only=True,
    )
    dedup_interval: int = learning_option(
        10, "The number of inputs between two merges of duplicate skills.", least=1, unit="samples"
    )
    checkpoint_dir: str | Path | None = learning_option(
        None,
        "Write copies of the skillbook to this folder during the run.",
        group="Files",
        is_path=True,
        can_be_unset=True,
        project=inside_project("folder", "files are written there"),
    )
    checkpoint_interval: int = learning_option(
        10, "The number of inputs between two copies in checkpoint_dir.", group="Files", least=1, unit="samples"
    )
    max_adds: int | None = learning_option(
        50,
        "How many skills one answer of the skill manager may add; further ones are skipped and reported.",
        details="None sets no limit.",
        least=1,
        unit="skills",
        project=at_most(50, _WEAKENS),
    )
    max_operations: int | None = learning_option(
        None,
        "Apply at most this many changes per trace, not counting judgements of skills.",
        details="Further ones are skipped and reported. None sets no limit.",
        flags=("--max-deltas",),
        least=1,
        unit="operations",
        used="no limit; 3 with --task, --mode or --watch",
    )
    sections: Sequence[str] = learning_option(
        (),
        "The sections that new skills may be in; others are moved to the nearest of them.",
        details="See `ace.steps.listed_section`. If it is empty, any section is allowed.",
        is_list=True,
    )
    learn_without_truth: bool = learning_option(
        False,
        "Also add and change skills because of unverified answers; by default, these only lead to judgements of "
        "skills.",
        details="Unverified are the answers that an environment such as `HeuristicEnvironment` did not verify, and "
        "whose ground truth is not known.",
        project=refused(_WEAKENS),
    )
    insights: InsightLog | None = option(
        None, "The log that records the insights of each trace and their status; see `InsightStep`.", python_only=True
    )
    min_confidence: float = learning_option(
        0.0,
        "Learn only insights with at least this confidence, from 0 to 1, which depends on how many tasks support them. "
        "Other insights stay pending in insights.jsonl.",
        details="Requires `insights`.",
        least=0,
        most=1,
        used="0; 0.8 with --task, --mode or --watch",
        project=refused(_WEAKENS),
    )
    gate: GateLike | None = option(
        None,
        "Decides whether the operations of a sample are applied, such as `ace.evaluation.CounterGate`; see `GateStep`. "
        "None applies all.",
        python_only=True,
    )
    artifacts: str | Path | None = option(
        None,
        "The directory for the folders of accepted versions, see `ArtifactStep`. Requires a skillbook in a store.",
        python_only=True,
    )
    artifact_skills: int = learning_option(
        2000,
        "The number of skills up to which an artifact contains the whole skillbook.",
        group="Files",
        least=0,
        unit="skills",
    )
    provenance: Provenance = learning_option(
        "full",
        "What to record about the source of a skill: full, or ids, which records the name of the trace but none of its "
        "text, so skills have no cases.",
        details="With `ids`, skills stay unproven, what models answered is deleted from a store when a run has ended "
        "and nothing of it has failed, and the record of a failed sample contains only the kind of its error.",
        group="Safeguards",
        choices=PROVENANCES,
        project=ProjectRule("`ids`", _project_provenance),
    )
    reflections_per_call: int = learning_option(
        1,
        "Request the changes for up to this many reflections in one call, to save calls and tokens.",
        details="See `UpdateStep`.",
        least=1,
        most=16,
    )
    prove: Prove = learning_option(
        "auto",
        "Test each new skill on the correction that it was learned from before keeping it.",
        details="With `auto`, skills are tested if the agent has an attribute `can_be_asked_again` that is True, as "
        "ours have: its answers have no side effects. See `ProveStep`.",
        group="Proof",
        kind=bool,
        used="on, except with --provenance ids",
        project=refused(_WEAKENS),
    )
    judge: AnyLLMClient | None = option(
        None,
        "A client that judges the answers about which code cannot tell.",
        details="By default, the client of the agent that is asked.",
        python_only=True,
    )
    unproven: Unproven = learning_option(
        "pending",
        "What to do with a skill that nothing shows to be right: pending keeps it for `ace review` without showing it "
        "to agents, keep shows it, drop removes it if it fails its test.",
        details="Such a skill fails the test in every wording that was tried, or was learned from a trace that no one "
        "judged; see `ace.skill.Evidence`.",
        group="Proof",
        choices=("pending", "keep", "drop"),
        project=refused(_WEAKENS),
    )
    final_test: bool = learning_option(
        True,
        "At the end of a run, repeat its corrections whose skills in the prompt have changed since.",
        group="Proof",
        project=refused(_WEAKENS),
    )

    def __post_init__(self) -> None:
        check_options(self)
        for name in ("checkpoint_dir", "artifacts"):
            if getattr(self, name) is not None:
                file_path(name, getattr(self, name))
        if self.prove not in (True, False, "auto"):
            raise ValueError(f"prove must be True, False or 'auto', got {self.prove!r}")
        checked_sections(self.sections)
        if self.gate is not None:
            with_method("gate", self.gate, "judge", advice="give a gate, such as ace.evaluation.CounterGate()")
        if self.judge is not None:
            with_method("judge", self.judge, "complete_structured")


_RULES: Final = (
    (
        "TypeScript Patterns",
        re.compile(
            r"typescript|tsconfig|\btsc?\b|\bcompil|type[ -]?errors?\b|type[ -]?check|\btyping\b"
            r"|\bimports?\b|\bmodules?\b"
        ),
    ),
    (
        "Build & Test Patterns",
        re.compile(r"\bbuil[dt]|\btest|\bnpm\b|\bp?npm\b|\byarn\b|\bpytest\b|\bjest\b|\bvitest\b|\bmake\b|\bci\b"),
    ),
    ("Dependency Patterns", re.compile(r"\bdependenc|\bdiscovered\b|\bblock(?:s|ed|er|ing)?\b|\bissues?\b|\bbeads?\b")),
)
"""What a skill is about, and where it belongs, in the words of an existing tool. The first rule counts."""
_REST: Final = "Architecture Patterns"
_WORD: Final = re.compile(r"[a-z0-9]{3,}")
_COMMON: Final = frozenset({"patterns", "pattern", "and", "the", "for", "with", "general"})


def checked_sections(sections: Sequence[str]) -> tuple[str, ...]:
    """Return a list of sections without repetitions.

    Args:
        sections: The names.

    Raises:
        ValueError: A name is empty.
    """
    if isinstance(sections, str):
        raise TypeError(f"sections must be a list of names, got {sections!r}")
    found = tuple(dict.fromkeys(" ".join(name.split()) for name in sections))
    if "" in found:
        raise ValueError("sections must not contain an empty name")
    return found


@checked_arguments()
def listed_section(section: str, content: str, sections: Sequence[str]) -> str:
    """Return the section of a list to which a skill belongs.

    If a section has the same name, ignoring case and punctuation, it is used. Otherwise, the topic of the skill
    decides: compilers, type errors and modules belong to `TypeScript Patterns`, builds, tests and npm to `Build & Test
    Patterns`, discovered issues to `Dependency Patterns`, and everything else to `Architecture Patterns`. If the list
    does not contain that section, the one that shares the most words with the skill is used, or the last one if none
    does.

    Args:
        section: The section that the skill manager named.
        content: The text of the skill.
        sections: The list; if it is empty, `section` is returned.

    Example:
        >>> names = ["TypeScript Patterns", "Build & Test Patterns", "Dependency Patterns", "Architecture Patterns"]
        >>> listed_section("typescript_patterns", "Use .js in imports.", names)
        'TypeScript Patterns'
        >>> listed_section("lessons", "Run npm ci before the tests.", names)
        'Build & Test Patterns'
        >>> listed_section("lessons", "Keep the layers apart.", names)
        'Architecture Patterns'
    """
    if not sections or section in sections:
        return section
    by_name = {_plain(name): name for name in reversed(sections)}
    if _plain(section) in by_name:
        return by_name[_plain(section)]
    text = f"{section.replace('_', ' ')}\n{content}".lower()
    chosen = next((name for name, rule in _RULES if rule.search(text)), _REST)
    if _plain(chosen) in by_name:
        return by_name[_plain(chosen)]
    words = _words(text)
    return max(reversed(sections), key=lambda name: len(_words(name.lower()) & words))


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _words(text: str) -> set[str]:
    """Return the words of a text, without the end by which singular and plural differ."""
    return {word.removesuffix("s") for word in _WORD.findall(text) if word not in _COMMON}
