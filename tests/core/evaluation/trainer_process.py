"""A process that trains in children of its own, which a test can kill; see `tests.core.runners.learner_process`."""

from __future__ import annotations

from pathlib import Path

from ace.environments import SimpleEnvironment
from ace.evaluation import Evaluator, Trainer, ValidationSettings
from ace.providers import LiteLLMClient
from ace.roles import Agent, Reflector, SkillManager
from ace.roles.prompts import AGENT_PROMPT
from examples.house_conventions import samples
from tests.core.runners.learner_process import main, opened

TRAIN, VALIDATE = samples()[:16], samples()[32:]
DATE = "2026-01-01"
"""The prompts of a process that trains after midnight are the same."""


def train(path: str, api_base: str) -> None:
    """Train with a gate, strictly online, or go on with that; the scores go into a file beside the store."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    place = Path(path)
    trainer = Trainer(
        Evaluator(
            Agent(client, AGENT_PROMPT.replace("{current_date}", DATE)),
            SimpleEnvironment("exact"),
            answers_path=place.with_suffix(".answers"),
        ),
        reflector=Reflector(client),
        skill_manager=SkillManager(client),
        settings=ValidationSettings(interval=2, gate=True),
        log_path=place.with_suffix(".log"),
    )
    result = trainer.train(TRAIN, VALIDATE, max_in_flight=1, skillbook=opened(path), resume=True, prove=False)
    scores = [f"{point.samples} {point.score.value} {point.is_kept}" for point in result.points]
    place.with_suffix(".scores").write_text("\n".join(scores), encoding="utf-8")


if __name__ == "__main__":
    main(train)
