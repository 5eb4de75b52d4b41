"""The package `ace-framework`: offline adaptation over the corrected questions, one epoch, with its own prompts."""

from __future__ import annotations

from typing import Any

from benchmarks.learning_quality.programs.job import Answerer, Example, Job, carry_out, needed


def learn(job: Job) -> tuple[Answerer, str]:
    """Adapt a skillbook to the corrected questions; the corrections are the feedback of the environment."""
    ace = needed("ace")
    if not hasattr(ace, "OfflineACE"):  # our own package has the same import name
        needed("ace-framework")
    # Its prompts are long: on two busy cores one answer takes minutes.
    client = ace.LiteLLMClient(
        model="openai/local",
        api_base=job.api_base,
        api_key="not-needed",
        temperature=0.0,
        max_tokens=600,
        timeout=3600,
    )
    agent, skillbook = ace.Agent(client), ace.Skillbook()
    adapter = ace.OfflineACE(
        skillbook=skillbook, agent=agent, reflector=ace.Reflector(client), skill_manager=ace.SkillManager(client)
    )
    samples = [ace.Sample(question=example.question, ground_truth=example.right) for example in job.examples]
    adapter.run(samples, _Corrections(ace, job), epochs=1)

    def answer(question: str) -> str:
        return str(agent.generate(question=question, context="", skillbook=skillbook).final_answer)

    return answer, str(skillbook.as_prompt())


class _Corrections:
    """Says what the person said about the wrong answer."""

    def __init__(self, ace: Any, job: Job) -> None:
        self._ace = ace
        self._examples: dict[str, Example] = {example.question: example for example in job.examples}

    def evaluate(self, sample: Any, agent_output: Any) -> Any:
        """Judge one answer of the agent."""
        example = self._examples[sample.question]
        right = example.passes(agent_output.final_answer)
        feedback = "This is right." if right else example.correction
        return self._ace.EnvironmentResult(feedback=feedback, ground_truth=example.right)


if __name__ == "__main__":
    carry_out(learn)
