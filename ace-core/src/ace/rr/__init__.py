"""The recursive reflector: a model explores a trace with Python code, instead of reading it in a prompt.

Sessions require the extra `ace-core[rr]`; without it, this package can be imported, but no session can be started.
"""

from ace._internal.lazy_exports import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ace.rr.config import ReflectionLimitError, RRConfig
    from ace.rr.prompt import RECURSIVE_REFLECTOR_PROMPT, SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT
    from ace.rr.reflector import RRStep
    from ace.rr.sandbox import ExecutionResult, SandboxError, SandboxLimits, TraceSandbox
    from ace.rr.steps import (
        CheckResultStep,
        ExecutionResultLike,
        ExtractCodeStep,
        LLMCallStep,
        RRIterationContext,
        SandboxExecStep,
        SandboxLike,
    )
    from ace.rr.sub_agent import CallBudget, SubAgentConfig, SubAgentLLM, SubQuestion, create_ask_llm_function
    from ace.rr.trace_context import ContextStep, TraceContext, TraceSteps

__all__ = [
    "RECURSIVE_REFLECTOR_PROMPT",
    "SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT",
    "CallBudget",
    "CheckResultStep",
    "ContextStep",
    "ExecutionResult",
    "ExecutionResultLike",
    "ExtractCodeStep",
    "LLMCallStep",
    "RRConfig",
    "RRIterationContext",
    "RRStep",
    "ReflectionLimitError",
    "SandboxError",
    "SandboxExecStep",
    "SandboxLike",
    "SandboxLimits",
    "SubAgentConfig",
    "SubAgentLLM",
    "SubQuestion",
    "TraceContext",
    "TraceSandbox",
    "TraceSteps",
    "create_ask_llm_function",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "RECURSIVE_REFLECTOR_PROMPT": "prompt",
        "SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT": "prompt",
        "CallBudget": "sub_agent",
        "CheckResultStep": "steps",
        "ContextStep": "trace_context",
        "ExecutionResult": "sandbox",
        "ExecutionResultLike": "steps",
        "ExtractCodeStep": "steps",
        "LLMCallStep": "steps",
        "RRConfig": "config",
        "RRIterationContext": "steps",
        "RRStep": "reflector",
        "ReflectionLimitError": "config",
        "SandboxError": "sandbox",
        "SandboxExecStep": "steps",
        "SandboxLike": "steps",
        "SandboxLimits": "sandbox",
        "SubAgentConfig": "sub_agent",
        "SubAgentLLM": "sub_agent",
        "SubQuestion": "sub_agent",
        "TraceContext": "trace_context",
        "TraceSandbox": "sandbox",
        "TraceSteps": "trace_context",
        "create_ask_llm_function": "sub_agent",
    },
)
