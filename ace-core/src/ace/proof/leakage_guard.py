"""Keeps texts that are not strategies out of a skillbook: copied answers and prompts, personal data, secrets."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from ace._internal.arguments import checked_class
from ace.redaction import Redactor, SensitiveClass
from ace.roles.prompts import WordRun, first_repeated, repeated_share, word_runs

if TYPE_CHECKING:
    from ace.updates import UpdateOperation

__all__ = ["GuardedKind", "LeakageGuard", "guarded_kinds"]

GuardedKind = Literal["copied_answer", "copied_prompt", "personal_data"] | SensitiveClass
"""What a `LeakageGuard` looks for. `personal_data` means all classes of `ace.redaction.PERSONAL_DATA`."""

_COPIED_WORDS: Final = 5
_MOST_OF_A_RULE: Final = 0.7
_COPIED_PROMPT_WORDS: Final = 8
"""More than for answers, because prompts are long and contain common phrases."""


@checked_class
@dataclass(frozen=True, slots=True)
class LeakageGuard:
    """Returns why the text of an operation must not be added to the skillbook.

    It rejects an ADD or UPDATE that copies the right answer from which it was learned, that repeats eight or more
    consecutive words of the prompts of the roles or of the recursive reflector (small models do so if a trace teaches
    nothing), or that seems to contain personal data or a secret.

    Five or more consecutive words of the right answer count as copied, unless they are a fixed phrase that the feedback
    or a correction asks for. In any case, they may not make up more than 70 % of the text. The worked examples of an
    operation's own cases are ignored.

    Raises:
        ValueError: A kind in `allow` is unknown.

    Example:
        >>> from ace.updates import UpdateOperation
        >>> copied = UpdateOperation("ADD", "cities", "Answer: the old town on the river.")
        >>> LeakageGuard().problem_with(copied, ["The old town on the river"])
        "it repeats the right answer: 'the old town on the'"
        >>> LeakageGuard(allow=["copied_answer"]).problem_with(copied, ["The old town on the river"])
        >>> phrase = "With the very best of wishes"
        >>> asked = UpdateOperation("ADD", "letters", f"When you write to a sponsor, end the letter so: {phrase}.")
        >>> LeakageGuard().problem_with(asked, [phrase], feedback=[f"To sponsors we write: {phrase}!"])
    """

    allow: Collection[GuardedKind] = ()
    """What it does not reject: `copied_answer`, `copied_prompt`, `personal_data` or one class of it, `secret`."""

    def __post_init__(self) -> None:
        known = guarded_kinds()
        allowed = [self.allow] if isinstance(self.allow, str) else self.allow
        if unknown := [kind for kind in allowed if kind not in known]:
            raise ValueError(f"allow knows {', '.join(known)}, not {unknown[0]!r}")
        object.__setattr__(self, "allow", frozenset(allowed))

    def problem_with(
        self, operation: UpdateOperation, answers: Iterable[str], *, feedback: Iterable[str] = ()
    ) -> str | None:
        """Return the reason to reject an operation, or None. The reason does not quote secrets.

        Args:
            answers: The right answers that must not be copied.
            feedback: The feedback on the answer, whose phrases are allowed. The corrections of the operation's own
                cases need not be passed.
        """
        if operation.type not in ("ADD", "UPDATE"):
            return None
        if "copied_answer" not in self.allow and (problem := _copied_answer(operation, answers, feedback)):
            return problem
        guards_prompts = "copied_prompt" not in self.allow
        if guards_prompts and (run := first_repeated(operation.content or "", _prompt_runs(), _COPIED_PROMPT_WORDS)):
            return f"it repeats the prompt of a role: {run!r}"
        texts = (operation.section, operation.content, operation.justification, operation.evidence)
        whole = "\n".join(text for text in texts if text)
        found = Redactor(allow=self.allow).find(whole)
        # A secret is worse, so it is reported first.
        first = min(found, key=lambda finding: (finding.kind != "secret", finding.start), default=None)
        return None if first is None else f"it seems to contain {first.detail}"


def guarded_kinds() -> tuple[str, ...]:
    """Return all words that `allow` knows."""
    return tuple(word for part in get_args(GuardedKind) for word in (get_args(part) or (part,)))


def _copied_answer(operation: UpdateOperation, answers: Iterable[str], feedback: Iterable[str]) -> str | None:
    text = operation.content or ""
    if operation.cases:
        from ace.cases import worked_example  # the settings of every command import this module

        for case in operation.cases:
            text = text.replace(worked_example(case), "")
    copied = {run for answer in answers for run in word_runs(answer, _COPIED_WORDS)}
    if not copied:
        return None
    said = [*feedback, *(case.correction for case in operation.cases)]
    asked_for = {run for answer in said for run in word_runs(answer, _COPIED_WORDS)}
    if run := first_repeated(text, copied - asked_for, _COPIED_WORDS):
        return f"it repeats the right answer: {run!r}"
    if repeated_share(text, copied, _COPIED_WORDS) > _MOST_OF_A_RULE:
        return "it is little more than the right answer"
    return None


@functools.cache
def _prompt_runs() -> frozenset[WordRun]:
    from importlib.resources import files  # needed only when something is written

    # Not as constants of the modules: `ace.rr` imports the steps.
    folders = [files("ace").joinpath(package, "prompt_templates") for package in ("roles", "rr")]
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in folder.iterdir()]
    return frozenset(run for text in texts for run in word_runs(text, _COPIED_PROMPT_WORDS))
