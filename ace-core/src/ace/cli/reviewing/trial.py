"""What would be if a pending skill were accepted: what agents would see, and what they would answer to its cases."""

from __future__ import annotations

from ace.cli.errors import UsageError
from ace.cli.fetch_model import is_catalogued
from ace.cli.learning.skill_testing import BookTest, code_of_stop
from ace.cli.model_choice import chosen_model
from ace.cli.settings import Settings
from ace.cli.skillbooks.selection import part_of
from ace.skill import Skill
from ace.skillbook import Skillbook

__all__ = ["asked_again", "with_accepted"]


def with_accepted(book: Skillbook, skill: Skill) -> Skillbook:
    """Return a copy of the active skills in memory, with a pending skill as one of them."""
    copy = part_of(book, {active.id for active in book.skills()} | {skill.id})
    copy.accept_skill(skill.id)
    return copy


def asked_again(book: Skillbook, skill: Skill, settings: Settings, author: str) -> str:
    """Ask the cases of a pending skill with it in the prompt, and record the results.

    Args:
        book: The skillbook.
        skill: A pending one.
        settings: The settings, which choose the model.
        author: Who records the results, for the history.

    Returns:
        The result, as a sentence.
    """
    if not skill.cases:
        return "It has no question that could be asked again, so nothing tests the new text."
    from ace.protocols.errors import LLMError  # slow to import, and most reviews edit nothing

    trial = with_accepted(book, skill)
    try:
        _check_is_here(settings)
        report = BookTest(settings=settings, only=[skill.id]).report(
            trial, author=author, note_results=True, assume_yes=False, quiet=False
        )
    except (UsageError, LLMError) as error:
        return f"The new text was not tested, because no model can be asked: {error}"
    code_of_stop(report, "accept the skill and run `ace skillbook test` to ask what is left")
    tested = trial.get_skill(skill.id)
    if tested is not None:
        book.note_results({skill.id: tested.cases}, author, contents={skill.id: skill.content})
    wrong = "; ".join(case.reason or f"it answered {case.answer!r}" for case in report.failed)
    return f"Asked again: {len(report.passed)} of {len(report.cases)} passed{f' ({wrong})' if wrong else ''}."


def _check_is_here(settings: Settings) -> None:
    """Check that a model on this machine can run now: a review downloads nothing.

    Raises:
        UsageError: It is not on this machine.
        LocalModelError: The program that runs it is missing.
    """
    model = chosen_model(settings)
    if not model.startswith("local/"):
        return
    from ace.providers.local.catalogue import catalogued_model
    from ace.providers.local.model_files import kept_file
    from ace.providers.local.server import check_runtime

    check_runtime()
    if is_catalogued(model) and kept_file(catalogued_model(model)) is None:
        raise UsageError(f"{model} is not on this machine; `ace models pull` fetches it, or set ACE_MODEL")
