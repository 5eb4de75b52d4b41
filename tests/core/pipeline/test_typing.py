"""What a strict type checker sees; running it shows that the checker was told the truth."""

import asyncio
from typing import assert_type

from ace.pipeline import Pipeline, SampleResult, StepProtocol

from .sample_steps import FindTitle, PageContext, Read, ReadAsync, pages


def test_results_have_the_type_of_the_contexts() -> None:
    pipeline = Pipeline[PageContext]([Read(), FindTitle()])
    results = pipeline.run(pages(1))
    assert_type(results, list[SampleResult[PageContext]])
    assert_type(results[0].output, PageContext | None)
    assert_type(pipeline(PageContext(sample=1)), PageContext)
    assert results[0].output is not None
    assert_type(results[0].output.replace(words=1), PageContext)


def test_a_step_for_a_context_subclass_is_a_step() -> None:
    plain: StepProtocol[PageContext] = Read()
    asynchronous: StepProtocol[PageContext] = ReadAsync()
    [result] = asyncio.run(Pipeline([plain, asynchronous]).run_async(pages(1)))
    assert_type(result, SampleResult[PageContext])
    assert result.error is None
