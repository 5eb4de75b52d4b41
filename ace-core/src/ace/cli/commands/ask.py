"""`ace ask`: answers a question with the skills of a skillbook in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ace.cli.console import counted, is_terminal, note, print_json, print_text, result_stream, visible, warnings_shown
from ace.cli.errors import UsageError
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.learning.run_report import RunCounts
from ace.cli.model_choice import announce, chosen_model, client_from_settings, place_of_model, told_plainly
from ace.cli.options import Flag, JsonFlag, ModelOptions, SkillbookOption, YesFlag
from ace.cli.prompt_templates import read_templates
from ace.cli.settings import load_settings
from ace.cli.skillbooks.opened_book import SkillbookPlace, opened_skillbook, text_or_stdin
from ace.protocols.observers import observing

if TYPE_CHECKING:
    from ace.outputs import AgentOutput
    from ace.protocols.llm import LLMClientLike
    from ace.skill import Skill
    from ace.skillbook import Skillbook

__all__ = ["command"]

_DEFAULT_MODEL = ModelOptions()


def command(
    question: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    context: Annotated[str, Parameter(show_default=False)] = "",
    skillbook: SkillbookOption = None,
    without_skills: Annotated[bool, Flag] = False,
    model_options: ModelOptions = _DEFAULT_MODEL,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Answer a question with the skills in the prompt.

    The answer is written to standard output, the cited skills to standard error. Small models do not cite skills; for
    them, the skills in the prompt are listed.

    For example:

        ace ask "What is 2 m + 3 ft?"
        ace ask "What is 2 m + 3 ft?" --without-skills
        ace ask - --context "$(cat manual.md)" < question.txt

    Args:
        question: The question or task; - reads it from standard input.
        context: Additional text for the prompt.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        without_skills: Put no skills into the prompt, for comparison.
        model_options: Options of the model.
        yes: Do not ask for confirmation.
        as_json: Print the answer, the reasoning, the skills and the model usage as one JSON object.
    """
    asked = text_or_stdin(question) or ""
    if not asked.strip():
        raise UsageError("the question is empty")
    settings = load_settings({**model_options.flags(), "skillbook": skillbook})
    client = client_from_settings(settings)
    template = read_templates(settings.prompts, client).agent
    counts = RunCounts()
    with warnings_shown(), observing(counts), told_plainly(settings):
        if without_skills:
            from ace.skillbook import Skillbook

            announce("answering 1 question without skills", settings, quiet=as_json)
            fetch_if_missing(settings, assume_yes=yes)
            output, used = _answer(client, template, asked, context, Skillbook())
        else:
            place = SkillbookPlace(settings.skillbook)
            with opened_skillbook(place, is_dry_run=True, must_exist=True, quiet=as_json) as (book, _):
                announce(f"answering 1 question from {counted(len(book), 'skill')}", settings, quiet=as_json)
                fetch_if_missing(settings, assume_yes=yes)
                output, used = _answer(client, template, asked, context, book)
    if as_json:
        print_json(
            {
                "command": "ask",
                "model": chosen_model(settings),
                "place": place_of_model(settings),
                "answer": output.final_answer,
                "reasoning": output.reasoning,
                "skills": [{"id": skill.id, "content": skill.content} for skill in used],
                "model_use": asdict(counts.use),
            }
        )
        return 0
    print_text(visible(output.final_answer) if is_terminal(result_stream()) else output.final_answer)
    for skill in used:
        note(f"[{skill.id}] {visible(' '.join(skill.content.split()))}")
    return 0


def _answer(
    client: LLMClientLike, template: str | None, question: str, context: str, book: Skillbook
) -> tuple[AgentOutput, Sequence[Skill]]:
    """Return the answer, and the skills that it cites, or those in the prompt if the agent chooses them."""
    from ace.context import SkillbookView
    from ace.protocols.roles import ShowsSkills
    from ace.roles import agent_for

    agent = agent_for(client, template)
    output = agent.generate(question=question, context=context, skillbook=SkillbookView(book))
    if isinstance(agent, ShowsSkills):
        return output, agent.shown_skills(question, book)
    cited = (book.get_skill(skill_id) for skill_id in output.skill_ids)
    return output, [skill for skill in cited if skill is not None]
