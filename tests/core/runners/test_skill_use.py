"""What agents were shown and what they cited is kept with each sample of a store, and can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ace.context import ACEStepContext
from ace.environments import SimpleEnvironment
from ace.pipeline import PipelineCancelled, StepProtocol
from ace.retrieval import TopSkills
from ace.roles import Agent, Reflector, SkillManager
from ace.runners import ACE, skill_use
from ace.skillbook import Skillbook
from tests.core.evaluation.world import by_kind, served
from tests.support.clients import client_for
from tests.support.command_line import ace
from tests.support.scripted_server import ScriptedServer

if TYPE_CHECKING:
    from ace.protocols.roles import Retrieval

UP = "Round every price up to whole euros."
PRICES = by_kind("price")


def runner_for(
    server: ScriptedServer,
    book: Skillbook,
    retrieval: Retrieval | None,
    extra_steps: Sequence[StepProtocol[ACEStepContext]] = (),
) -> ACE:
    client = client_for(server)
    return ACE.from_roles(
        agent=Agent(client),
        reflector=Reflector(client),
        skill_manager=SkillManager(client),
        environment=SimpleEnvironment("exact"),
        retrieval=retrieval,
        skillbook=book,
        extra_steps=extra_steps,
    )


def test_a_skill_that_is_shown_and_never_cited_is_found_after_the_run(tmp_path: Path) -> None:
    with served() as server, Skillbook.open(tmp_path / "skills.db") as book:
        book.add_skill("conventions", UP)
        book.add_skill("conventions", "The house sells an item for euros with a tag.")
        book.add_skill("conventions", "Dogs bark.")
        runner_for(server, book, TopSkills(2)).run(PRICES[:3])
        runner_for(server, book, None).run(PRICES[3:5])
        cited, idle, unrelated = skill_use(book).values()
        assert (cited.cited, cited.chosen, cited.whole_book) == (5, 3, 2)
        assert (idle.cited, idle.chosen, idle.whole_book) == (0, 3, 2)
        assert (unrelated.cited, unrelated.chosen, unrelated.whole_book) == (0, 0, 2)
    assert ace("skillbook", "show", "--json", folder=tmp_path).data["skills"][1]["use"] == idle._asdict()
    shown = ace("skillbook", "show", "conventions-00002", folder=tmp_path).out
    assert "chosen for 3 samples, shown with the whole book to 2 samples, cited 0 times" in " ".join(shown.split())


class StopsBehindTheCommit:
    """A step of the caller that stops a sample which is committed already."""

    requires = frozenset({"sample"})
    provides: frozenset[str] = frozenset()

    def __init__(self, *, stops: bool) -> None:
        self.stops = stops

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        if self.stops:
            raise PipelineCancelled("later")
        return ctx


def test_it_is_kept_when_a_run_is_taken_up_again(tmp_path: Path) -> None:
    with served() as server:
        for stops in (True, False):
            with Skillbook.open(tmp_path / "skills.db") as book:
                if stops:
                    book.add_skill("conventions", UP)
                runner = runner_for(server, book, None, [StopsBehindTheCommit(stops=stops)])
                runner.run(PRICES[:1], run_id="run", resume=not stops)
                [use] = skill_use(book).values()
                assert (use.cited, use.whole_book) == (1, 1)
        assert len(server.by_role("agent")) == 1
