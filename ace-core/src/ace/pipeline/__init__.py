"""A small engine for pipelines of steps over many samples.

It knows nothing of skillbooks or language models, and needs the standard library only. Three primitives compose
everything: a sequence (`Pipeline`), a branch (`Branch`), and nesting (a pipeline is a step).
"""

# Which file does what stands at the end of docs/explanation/pipeline-engine.md.

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
from .pipeline import Pipeline
from .step import StepProtocol
from .step_observer import StepObserver

__all__ = [
    "Branch",
    "BranchError",
    "CancellationToken",
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
    "cancel_token_var",
    "is_interrupted",
]
