"""A small engine for pipelines of steps over many samples.

It knows nothing about skillbooks or language models, and needs only the standard library. Everything is composed from
three primitives: a sequence (`Pipeline`), a branch (`Branch`), and nesting (a pipeline is a step).
"""

# docs/explanation/pipeline-engine.md says at its end which file does what.

from .branch import Branch, MergeStrategy
from .cancellation import CancellationToken, cancel_token_var, is_interrupted
from .context import SampleResult, StepContext
from .errors import (
    BranchError,
    MergeConflictError,
    PipelineCancelled,
    PipelineConfigError,
    PipelineError,
    PipelineOrderError,
)
from .hooks import PipelineHook
from .lane import LaneQueue, WaitingSample, lane_queue
from .pipeline import Pipeline
from .segment import StepObserver
from .step import StepProtocol
from .sub_runner import SubRunner

__all__ = [
    "Branch",
    "BranchError",
    "CancellationToken",
    "LaneQueue",
    "MergeConflictError",
    "MergeStrategy",
    "Pipeline",
    "PipelineCancelled",
    "PipelineConfigError",
    "PipelineError",
    "PipelineHook",
    "PipelineOrderError",
    "SampleResult",
    "StepContext",
    "StepObserver",
    "StepProtocol",
    "SubRunner",
    "WaitingSample",
    "cancel_token_var",
    "is_interrupted",
    "lane_queue",
]
