"""An application whose model calls are recorded by a real instrumentation library.

    python -m tests.core.logs.spans.instrumented_agent LIBRARY FILE

It runs two tasks against a scripted server, each of which is one trace, and writes OTLP JSON lines as the file
exporter of the OpenTelemetry collector does: one line per batch. In the first task the tool finds nothing; the second
one fails.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from tests.support.scripted_anthropic_server import Refusal, Reply, Request, ScriptedAnthropicServer, Text, ToolUse
from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer

QUESTION = "When is high water in Bremen?"
BROKEN = "When is high water in Nowhere?"
FOUND = "there is no table of Bremen"
ANSWER = "By [tides-00001] it is at nine."
REFUSED = "no such port"

_SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}}
_RESOURCE = Resource.create({"service.name": "harbour"})


class LinesOfSpans(SpanExporter):
    """Appends spans to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        append(self._path, encode_spans(spans))
        return SpanExportResult.SUCCESS


class LinesOfLogs(LogRecordExporter):
    """Appends log records to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        append(self._path, encode_logs(batch))
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def append(path: Path, batch: Any) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(with_hex_ids(MessageToDict(batch, use_integers_for_enums=True))) + "\n")


def with_hex_ids(value: Any) -> Any:
    """In the JSON of OTLP ids are hexadecimal, whereas protobuf writes bytes in base 64."""
    if isinstance(value, list):
        return [with_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {name: base64.b64decode(held).hex() if name in ids else with_hex_ids(held) for name, held in value.items()}


def openai_script(request: ScriptedRequest) -> Answer | HttpError:
    if any(message["role"] == "tool" for message in request.messages):
        return Answer(ANSWER)
    if BROKEN in request.text and "use the table" not in request.text:
        return HttpError(400, REFUSED)
    return Answer({"port": "Bremen"}, tool="tide_table", finish_reason="tool_calls")


def anthropic_script(request: Request) -> Reply:
    if BROKEN in request.text:
        return Refusal(400, REFUSED)
    return [Text("I look."), ToolUse("tide_table", {"port": "Bremen"})] if not request.tool_results else [Text(ANSWER)]


@contextmanager
def openai_task() -> Iterator[Callable[[str], None]]:
    import openai

    tools: Any = [{"type": "function", "function": {"name": "tide_table", "parameters": _SCHEMA}}]
    with ScriptedServer(openai_script) as server:
        client = openai.OpenAI(base_url=server.api_base, api_key="sk-scripted", max_retries=0)

        def run(question: str) -> None:
            messages: Any = [{"role": "system", "content": "Hm."}, {"role": "user", "content": question}]
            answer = client.chat.completions.create(model="scripted", messages=messages, tools=tools).choices[0].message
            [call] = answer.tool_calls or []
            messages += [answer.model_dump(exclude_none=True), tool_answer(call.id)]
            client.chat.completions.create(model="scripted", messages=messages, tools=tools)

        yield run


def tool_answer(call_id: str) -> dict[str, str]:
    return {"role": "tool", "tool_call_id": call_id, "content": FOUND}


@contextmanager
def anthropic_task() -> Iterator[Callable[[str], None]]:
    import anthropic

    tools: Any = [{"name": "tide_table", "input_schema": _SCHEMA}]
    with ScriptedAnthropicServer(anthropic_script) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)

        def run(question: str) -> None:
            messages: Any = [{"role": "user", "content": question}]
            wanted: Any = {"model": "scripted", "max_tokens": 100, "system": "Hm.", "tools": tools}
            answer = client.messages.create(messages=messages, **wanted)
            result = {"type": "tool_result", "tool_use_id": answer.content[-1].id, "content": FOUND}
            said = [block.model_dump() for block in answer.content]
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": [result]}]
            client.messages.create(messages=messages, **wanted)

        yield run


@contextmanager
def langchain_task() -> Iterator[Callable[[str], None]]:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    def tide_table(port: str) -> str:
        """Look up high water in the tide table of a port."""
        if is_broken:
            raise LookupError(REFUSED)
        return FOUND

    is_broken = False
    with ScriptedServer(openai_script) as server:
        model = ChatOpenAI(model="scripted", base_url=server.api_base, api_key="sk-scripted", max_retries=0)  # type: ignore[arg-type]  # takes a text too
        agent: Any = create_agent(model, [tide_table], system_prompt="Hm, use the table.")

        def run(question: str) -> None:
            nonlocal is_broken
            is_broken = question == BROKEN
            agent.invoke({"messages": [("user", question)]})

        yield run


def instrument(library: str, tracers: TracerProvider, loggers: LoggerProvider) -> None:
    if library.startswith("genai-openai"):
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

        OpenAIInstrumentor().instrument(tracer_provider=tracers, logger_provider=loggers)
    elif library == "anthropic":
        from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor

        AnthropicInstrumentor().instrument(tracer_provider=tracers)
    else:
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=tracers)


TASKS = {
    "genai-openai": openai_task,
    "genai-openai-events": openai_task,
    "anthropic": anthropic_task,
    "openinference-langchain": langchain_task,
}


def main(library: str, path: Path) -> None:
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    where = "EVENT_ONLY" if library.endswith("events") else "SPAN_ONLY"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = where
    tracers, loggers = TracerProvider(resource=_RESOURCE), LoggerProvider(resource=_RESOURCE)
    tracers.add_span_processor(SimpleSpanProcessor(LinesOfSpans(path)))
    loggers.add_log_record_processor(SimpleLogRecordProcessor(LinesOfLogs(path)))
    instrument(library, tracers, loggers)
    tracer = tracers.get_tracer("harbour")
    with TASKS[library]() as run:
        with tracer.start_as_current_span("GET /tides"):
            run(QUESTION)
        try:
            with tracer.start_as_current_span("GET /tides"):
                run(BROKEN)
        except Exception as error:
            print(type(error).__name__, error)
        with tracer.start_as_current_span("GET /health"):
            pass
    tracers.shutdown()
    loggers.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
