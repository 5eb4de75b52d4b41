"""The prompt of a recursive reflection."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from ace.outputs import ReflectorOutput
from ace.roles.prompts import Fence, PromptTemplate
from ace.roles.small_models import is_small
from ace.rr.config import RRConfig
from ace.rr.conversation import cut_middle

__all__ = [
    "RECURSIVE_REFLECTOR_PROMPT",
    "SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT",
    "checked_template",
    "final_example",
    "first_prompt",
    "prompt_text",
]


def prompt_text(name: str) -> str:
    """Return a part of a prompt. The parts are files, because the leakage guard compares them with new skills.

    Args:
        name: The name of the file.
    """
    return files("ace.rr").joinpath("prompt_templates", name).read_text(encoding="utf-8").strip()


RECURSIVE_REFLECTOR_PROMPT: Final = prompt_text("recursive_reflector.md")
"""Placeholders: overview (required), question, answer, ground_truth, feedback, skillbook_excerpt, names, schema,
limits."""

SMALL_MODEL_RECURSIVE_REFLECTOR_PROMPT: Final = prompt_text("small_model.md")
"""Like RECURSIVE_REFLECTOR_PROMPT, for models of one or two billion parameters."""

_FIELDS = ("question", "answer", "ground_truth", "feedback", "skillbook_excerpt")
_LONGEST_FIELD = 2000
_LONGEST_PREVIEW = 200
_MOST_ITEMS = 20

_NAMES = prompt_text("session_names.md")
_EXAMPLE = prompt_text("session_example.md")
_SMALL_MODEL_EXAMPLE = prompt_text("small_model_example.md")
_BATCH_NAMES = prompt_text("batch_names.md")
_BATCH_EXAMPLE = prompt_text("batch_example.md")
_FINAL_EXAMPLE = prompt_text("final_example.md")
_SHORT_FINAL_EXAMPLE = prompt_text("short_final_example.md")
_ASK_LLM = prompt_text("sub_questions.md")
_BATCH_TASK = prompt_text("batch_task.md")
_LLM_QUERY = prompt_text("llm_query.md")
_FINAL = prompt_text("final.md")


def checked_template(text: str) -> PromptTemplate:
    """Return a template for the first prompt.

    Args:
        text: Its text.

    Raises:
        ValueError: The text has an unknown placeholder, or lacks the overview.
    """
    known = (*_FIELDS, "overview", "names", "schema", "limits")
    return PromptTemplate(text, role="RRStep", known=known, needed=("overview",))


def final_example(llm: object) -> str:
    """Return the example of a final answer for the prompt.

    Args:
        llm: The client of the model; a small one (`is_small_model`) is only asked for the required fields.
    """
    return _SHORT_FINAL_EXAMPLE if is_small(llm) else _FINAL_EXAMPLE.rpartition("\n\n")[2]


def first_prompt(
    template: PromptTemplate,
    trace: Mapping[str, Any],
    batch: Mapping[str, Mapping[str, Any]] | None,
    config: RRConfig,
    *,
    llm: object = None,
    skillbook_excerpt: str = "",
) -> tuple[str, str]:
    """Return the system message, which may be empty, and the first message of the user.

    Args:
        trace: The record, as it is in the session.
        batch: The records by their ids, in a reflection on several traces.
        config: The configuration.
        llm: The client of the model. The prompt of a small one contains no steps, because it would submit them without
            exploring the trace.
        skillbook_excerpt: The skills that the agent cited, as text.
    """
    fields = {**trace, "skillbook_excerpt": skillbook_excerpt}
    shown = {name: cut_middle(str(fields.get(name) or ""), _LONGEST_FIELD) for name in _FIELDS}
    is_for_small = is_small(llm)
    overview = _overview(trace, with_steps=not is_for_small) if batch is None else _overview_of_batch(batch)
    fence = Fence([*shown.values(), overview])
    values = {name: fence.around(text) if text else "" for name, text in shown.items()}
    task = "" if batch is None else _BATCH_TASK.replace("{count}", str(len(batch))) + "\n\n"
    example = _BATCH_EXAMPLE if batch is not None else _SMALL_MODEL_EXAMPLE if is_for_small else _EXAMPLE
    values |= {
        "overview": f"{task}{fence.around(overview)}\n\n{example}",
        "names": "" if is_for_small and batch is None else _names(batch is not None, config),
        "schema": json.dumps(ReflectorOutput.model_json_schema()),
        "limits": _limits(config),
    }
    text = template.fill_needed(values)
    rules, mark, rest = text.partition("# The names in the session\n")
    return (rules.strip(), f"{mark}{rest}".strip()) if mark else ("", text.strip())


def _names(is_batch: bool, config: RRConfig) -> str:
    parts = [_BATCH_NAMES if is_batch else _NAMES]
    if config.enable_subagent:
        parts.append(_ASK_LLM)
    if config.enable_llm_query:
        parts.append(_LLM_QUERY)
    return "\n".join([*parts, _FINAL, "", _FINAL_EXAMPLE])


def _limits(config: RRConfig) -> str:
    calls = f"at most {config.max_llm_calls} model calls in all, your own answers and questions to the second model"
    return (
        f"At most {config.max_iterations} iterations and {calls}. An execution may take {config.timeout:g} seconds; "
        f"of its output, {config.max_output_chars} characters are shown."
    )


def _overview(trace: Mapping[str, Any], *, with_steps: bool) -> str:
    steps: Sequence[Mapping[str, Any]] = trace.get("steps") or ()
    if not steps:
        return "The record has no steps."
    kinds = Counter(str(step.get("kind", "")) for step in steps)
    counted = ", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds))
    length = sum(len(str(step.get("content", ""))) for step in steps)
    failed = [step for step in steps if step.get("is_error")]
    lines = [f"{len(steps)} steps ({counted}), {length} characters, {len(failed)} failed steps."]
    if not with_steps:
        return lines[0]
    chosen = {"First step": steps[0], "Last step": steps[-1]}
    if failed:
        chosen["First failed step"] = failed[0]
    return "\n".join([*lines, *(f"{title}: {_preview(step)}" for title, step in chosen.items())])


def _overview_of_batch(batch: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name, trace in list(batch.items())[:_MOST_ITEMS]:
        steps = trace.get("steps") or ()
        question = " ".join(str(trace.get("question") or "").split())
        lines.append(f"{name}: {len(steps)} steps; question: {question[:_LONGEST_PREVIEW] or '(none)'}")
    if len(batch) > _MOST_ITEMS:
        lines.append(f"and {len(batch) - _MOST_ITEMS} more records")
    return "\n".join(lines)


def _preview(step: Mapping[str, Any]) -> str:
    content = str(step.get("content", ""))
    text = " ".join(content[: 2 * _LONGEST_PREVIEW].split())[:_LONGEST_PREVIEW]
    name = f" {step['name']}" if step.get("name") else ""
    return f"[{step.get('place', '')}] {step.get('kind', '')}{name}: {text}{' ...' if len(content) > len(text) else ''}"
