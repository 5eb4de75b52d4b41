"""The three roles together: what one epoch teaches, the next one knows."""

from __future__ import annotations

from ace.environments import Sample, SimpleEnvironment
from ace.protocols import LLMClientLike
from ace.roles import Agent, Reflector, SkillManager
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedServer


def run_epoch(client: LLMClientLike, book: Skillbook, samples: list[Sample]) -> float:
    """Let the agent answer and learn from every sample; return the share of right answers."""
    right = 0.0
    for sample in samples:
        output = Agent(client).generate(sample.question, sample.context, book)
        result = SimpleEnvironment().evaluate(sample, output)
        right += result.metrics["correct"]
        reflection = Reflector(client).reflect(
            sample.question,
            output,
            book,
            result.ground_truth,
            result.feedback,
            trace={"question": sample.question, "answer": output.final_answer},
        )
        for tag in reflection.skill_tags:
            book.tag_skill(tag.id, tag.tag)
        book.apply_update(SkillManager(client).update_skills(reflection, book, sample.question).update)
    return right / len(samples)


def test_the_second_epoch_knows_what_the_first_one_taught() -> None:
    samples = secrets_world.samples(5)
    book = Skillbook()
    with ScriptedServer(secrets_world.answer) as server:
        client = client_for(server)
        assert [run_epoch(client, book, samples) for _ in range(3)] == [0.0, 1.0, 1.0]
        assert len(book.skills()) == 5
        assert [skill.helpful for skill in book.skills()] == [2] * 5
        assert client.usage.calls == len(server.requests) == 45
        assert client.usage.input_tokens == server.input_tokens
