"""ACE for LangChain and LangGraph: agents and chains that learn from their own runs.

Importing it does not load the framework; if that is missing, the first use raises an error that says how to install it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_langchain.execute import LangChainExecuteStep
    from ace_langchain.llm_client import LangChainLiteLLMClient, LangChainLLMClient
    from ace_langchain.middleware import skillbook_middleware
    from ace_langchain.result import LangChainResult
    from ace_langchain.runner import LangChain
    from ace_langchain.stored import records_in
    from ace_langchain.to_trace import LangChainToTrace, result_to_trace

__all__ = [
    "LangChain",
    "LangChainExecuteStep",
    "LangChainLLMClient",
    "LangChainLiteLLMClient",
    "LangChainResult",
    "LangChainToTrace",
    "records_in",
    "result_to_trace",
    "skillbook_middleware",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "LangChain": "runner",
        "LangChainExecuteStep": "execute",
        "LangChainLLMClient": "llm_client",
        "LangChainLiteLLMClient": "llm_client",
        "LangChainResult": "result",
        "LangChainToTrace": "to_trace",
        "records_in": "stored",
        "result_to_trace": "to_trace",
        "skillbook_middleware": "middleware",
    },
)
