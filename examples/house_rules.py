"""The common task of the learning examples: which carrier takes a parcel?

The company has rules that no model can know: glass goes by courier, and so on. No prompt states them. They are only
visible in the right answers of the samples, so an agent must learn them. Everything else goes by post.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ace import ACEStepContext, Sample, SampleResult, Skillbook
from ace.protocols import Usage

CARRIERS = {"glass": "courier", "iron": "freight", "orchids": "balloon"}
"""The rules of the company. Only the samples and the environment know them."""

PARCELS = {
    "vase": "glass",
    "anvil": "iron",
    "novel": "paper",
    "mirror": "glass",
    "bouquet": "orchids",
    "railing": "iron",
}
"""The items and their materials."""


def sample_of(item: str, material: str) -> Sample:
    question = (
        f"Which carrier takes this parcel of our house: a {item}, made of {material}? "
        "Answer with one word: post, courier, freight or balloon. If no rule of the house is known, it is post."
    )
    return Sample(question, ground_truth=CARRIERS.get(material, "post"), id=item)


SAMPLES = [sample_of(item, material) for item, material in PARCELS.items()]


def print_report(results: Sequence[SampleResult[ACEStepContext]], skillbook: Skillbook, usage: Usage) -> None:
    """Print the number of right answers in each epoch, the learned skills with their sources, and the usage."""
    for epoch, of_epoch in enumerate(by_epoch(results, len(SAMPLES)), 1):
        right = sum(is_right(result) for result in of_epoch)
        print(f"epoch {epoch}: {right} of {len(of_epoch)} right")
        for result in of_epoch:
            if result.error is not None:
                print(f"  {result.sample.id} failed in {result.failed_at}: {result.error}")

    print("\nWhat was learned:")
    for skill in skillbook.skills():
        origins = ", ".join(f"{source.trace_id} in epoch {source.epoch}" for source in skill.sources)
        print(f"  [{skill.id}] {skill.content}")
        print(f"      learned from {origins}; helpful {skill.helpful}, harmful {skill.harmful}")

    print(f"\n{usage.calls} calls, {usage.input_tokens} tokens in, {usage.output_tokens} tokens out")


def by_epoch(
    results: Sequence[SampleResult[ACEStepContext]], size: int
) -> Iterator[Sequence[SampleResult[ACEStepContext]]]:
    """Group the results by epoch."""
    for start in range(0, len(results), size):
        yield results[start : start + size]


def is_right(result: SampleResult[ACEStepContext]) -> bool:
    """Return whether the answer was right; false for a failed sample."""
    trace = None if result.output is None else result.output.trace
    return isinstance(trace, dict) and trace["metrics"].get("correct") == 1.0
