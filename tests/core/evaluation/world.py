"""The conventions of the examples, played by the scripted server, and what tests need around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ace.environments import Sample, SimpleEnvironment
from ace.evaluation import Evaluator, JudgedAnswer, Trainer, ValidationSettings
from ace.roles import Agent, Reflector, SkillManager
from ace.skillbook import Skillbook
from examples.house_conventions import samples
from examples.scripted_conventions import script
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

__all__ = ["answer_of", "book_of", "conventions", "evaluator_for", "samples", "served", "trainer_for"]


def conventions(request: ScriptedRequest) -> Mapping[str, Any] | str:
    if not request.role:
        return "ready"  # the command line asks for a word first
    return script(request.role, request.text)


def served(change: Callable[[ScriptedRequest], Any] | None = None) -> ScriptedServer:
    """A server of the conventions; `change` may answer instead, by returning something."""

    def answer(request: ScriptedRequest) -> Any:
        other = None if change is None else change(request)
        return conventions(request) if other is None else other

    return ScriptedServer(answer)


def evaluator_for(server: ScriptedServer, **options: Any) -> Evaluator:
    client = client_for(server, max_retries=0)
    return Evaluator(Agent(client, max_retries=0), SimpleEnvironment("exact"), **options)


def trainer_for(server: ScriptedServer, settings: ValidationSettings, **options: Any) -> Trainer:
    client = client_for(server)
    evaluator = options.pop("evaluator", None) or evaluator_for(server)
    return Trainer(
        evaluator, reflector=Reflector(client), skill_manager=SkillManager(client), settings=settings, **options
    )


def book_of(*contents: str) -> Skillbook:
    book = Skillbook()
    for content in contents:
        book.add_skill("conventions", content)
    return book


def answer_of(name: str, correct: float, **fields: Any) -> JudgedAnswer:
    return JudgedAnswer(sample_id=name, question=f"{name}?", correct=correct, **fields)


def by_kind(kind: str) -> Sequence[Sample]:
    return [sample for sample in samples() if str(sample.id).startswith(kind)]
