"""Data sets for training, whose examples are not runs of an agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_messages, is_message_list, response_text, role_of
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["READERS", "DatasetReader"]

Fields = Mapping[str, Any]
_ASSISTANT: Final = "Assistant:"
"""The mark before an answer, where a dialogue is one text."""


class DatasetReader:
    """Reads the examples of data sets as runs, and says that they are none.

    Args:
        name: The name of the format.
        title: What people call it.
        fits: Whether a record is an example.
        run: Makes a run of it.
        note: What is not certain.
    """

    places: Sequence[str] = ()
    side_files: Sequence[str] = ("dataset_info.json", "dataset_infos.json", "state.json", "dataset_dict.json")

    def __init__(
        self, name: str, title: str, fits: Callable[[Fields], bool], run: Callable[[Fields], Run], note: str = ""
    ) -> None:
        self.name = name
        self.title = title
        self.note = note
        self._fits = fits
        self._run = run

    def recognises(self, head: LogHead) -> float:
        """Return a certainty if all of the first records are such examples."""
        return 0.8 if head.objects and all(map(self._fits, head.objects)) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a notice, and a run for each example."""
        yield source.problem(
            f"a data set ({self.title}): its examples are not runs of an agent. The preferred answers are read as the "
            "right ones, and the others as wrong ones",
            kind="doubt",
        )
        for record in source.records():
            if isinstance(record.value, dict) and self._fits(record.value):
                yield self._run(record.value)
            else:
                yield source.problem("not an example of this data set", record.line)


def _text(value: object) -> str:
    return response_text(value) or text_of(value)


def _run_of(prompt: object, **fields: Any) -> Run:
    """Return the run of a prompt, which is a text or a list of messages."""
    builder = RunBuilder()
    if is_message_list(prompt) and isinstance(prompt, list):
        add_messages(builder, prompt)
    else:
        builder.message("person", text_of(prompt))
    return builder.run(**fields)


def _is_preference(example: Fields) -> bool:
    return "chosen" in example and "rejected" in example


def _preference(example: Fields) -> Run:
    """Return the run that gave the rejected answer; the prompt may be the common beginning of both answers."""
    chosen, rejected, prompt = example["chosen"], example["rejected"], example.get("prompt")
    start = _common_start(chosen, rejected)
    if prompt is None:
        prompt = chosen[:start] if isinstance(chosen, str | list) else ""
    if isinstance(prompt, list) and isinstance(chosen, list) and chosen[: len(prompt)] == prompt:
        start = len(prompt)
    has_prompt = example.get("prompt") is None or (isinstance(chosen, list) and chosen[:1] == list(prompt)[:1])
    if has_prompt and isinstance(chosen, str | list):
        chosen, rejected = chosen[start:], rejected[start:]
    truth, answer = _text(chosen).strip(), _text(rejected).strip()
    return _run_of(prompt, answer=answer, truth=truth, success=False, outcome_from="rejected")


def _common_start(left: object, right: object) -> int:
    """Return how far two answers are equal: whole messages, or a text up to the last mark of the assistant."""
    if not isinstance(left, list | str) or not isinstance(right, list | str):
        return 0
    pairs = enumerate(zip(left, right, strict=False))
    start = next((number for number, (one, other) in pairs if one != other), min(len(left), len(right)))
    if isinstance(left, list):
        return start
    mark = left[:start].rfind(_ASSISTANT)
    return mark + len(_ASSISTANT) if mark >= 0 else 0


def _is_labelled(example: Fields) -> bool:
    return {"prompt", "completion"} <= example.keys() and isinstance(example.get("label"), bool)


def _labelled(example: Fields) -> Run:
    return _run_of(
        example["prompt"], answer=_text(example["completion"]), success=example["label"], outcome_from="label"
    )


def _is_stepwise(example: Fields) -> bool:
    return (
        "prompt" in example and isinstance(example.get("completions"), list) and isinstance(example.get("labels"), list)
    )


def _stepwise(example: Fields) -> Run:
    builder = RunBuilder()
    builder.message("person", text_of(example["prompt"]))
    steps, labels = [text_of(step) for step in example["completions"]], example["labels"]
    for number, step in enumerate(steps, 1):
        builder.message("agent", step, str(number))
    wrong = [f"This step is wrong: {step}" for step, label in zip(steps, labels, strict=False) if not label]
    success = bool(labels) and all(labels)
    return builder.run(
        answer=steps[-1] if steps else "", success=success, outcome_from="labels", reason="\n".join(wrong)
    )


_OF_ALPACA: Final = frozenset({"instruction", "input", "output", "text", "system", "history", "id", "category"})


def _is_alpaca(example: Fields) -> bool:
    return {"instruction", "input", "output"} <= example.keys() and example.keys() <= _OF_ALPACA


def _alpaca(example: Fields) -> Run:
    parts = [text_of(example["instruction"]), text_of(example["input"])]
    answer = text_of(example["output"])
    return _run_of("\n\n".join(part for part in parts if part), answer=answer, truth=answer)


def _is_openai_preference(example: Fields) -> bool:
    return {"input", "preferred_output", "non_preferred_output"} <= example.keys()


def _openai_preference(example: Fields) -> Run:
    asked = example["input"]
    prompt = asked.get("messages") if isinstance(asked, dict) else asked
    truth, answer = _text(example["preferred_output"]), _text(example["non_preferred_output"])
    return _run_of(prompt, answer=answer, truth=truth, success=False, outcome_from="non_preferred_output")


def _is_fine_tuning(example: Fields) -> bool:
    messages = example.get("messages")
    names = {"messages", "tools", "functions", "parallel_tool_calls"}
    return isinstance(messages, list) and example.keys() <= names and any("weight" in fields for fields in messages)


def _fine_tuning(example: Fields) -> Run:
    """Return the run of an example; an answer of weight 0 is not to be learned."""
    answers = [message for message in example["messages"] if role_of(message) == "assistant"]
    learned = [message for message in answers if message.get("weight") != 0]
    truth = _text(learned[-1:]) if learned else None
    return _run_of(example["messages"], truth=truth, answer=truth or "")


READERS: Final = (
    DatasetReader("preferences", "TRL preference data set", _is_preference, _preference),
    DatasetReader("labelled-completions", "TRL data set of labelled completions", _is_labelled, _labelled),
    DatasetReader("stepwise-labels", "TRL data set of labelled steps", _is_stepwise, _stepwise),
    DatasetReader("alpaca", "Alpaca instructions", _is_alpaca, _alpaca, "Not checked against a real file."),
    DatasetReader(
        *("openai-dpo", "OpenAI preference data set", _is_openai_preference, _openai_preference),
        "Not checked against a real file.",
    ),
    DatasetReader(
        *("openai-fine-tuning", "OpenAI fine-tuning data set", _is_fine_tuning, _fine_tuning),
        "Recognised by weights; without them it is read as chats. Not checked against a real file.",
    ),
)
