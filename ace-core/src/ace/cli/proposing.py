"""Lets the model propose a mapping for logs of an unknown format, from the names and types of fields only."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ace._internal.atomic_file import replace_file
from ace.cli.console import counted, note, print_json, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.model_choice import client_from_settings, model_and_place
from ace.cli.questions import can_ask, says_yes
from ace.cli.settings import Settings
from ace.cli.settings_file import project_file
from ace.logs.mapping import LogMapping, MappedReader, MappingError, StepMapping
from ace.logs.opening import NotALogError
from ace.logs.run import Run
from ace.logs.source import Source, file_source
from ace.redaction import Redactor

__all__ = ["propose_mapping", "skeleton"]

_RECORDS: Final = 5
_RUNS_SHOWN: Final = 3
_DEEPEST: Final = 8
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:/-]{0,29}")
_LOWER_NAME: Final = re.compile(r"[a-z][a-z_]{0,29}")
_MOST_VALUES: Final = 6
_MOST_KEYS: Final = 60
_ATTEMPTS: Final = 3
_LONGEST_SHOWN: Final = 70

_PROMPT: Final = """\
A program has to read runs of an AI agent from a log in an unknown JSON format. Say where things are, as a JSON object.
Its keys are some of those below. Each value is a JMESPath expression, except for name, one_run and step.

name: a short name of the format, such as "my-agent"
when: an expression that is true for every record of this format, such as the name of a characteristic field
runs: the list of runs in a record; omit it if each record is a run
group: the field that all records of one run have in common, if a run consists of several records
one_run: true if all records of a file together are one run
messages: the list of messages or steps of a run
step: an object; how an item of messages is read, if the items are not chat messages with role and content. Its keys,
    all expressions over an item: role, text, thought, tool, input, output, failed, id
task, answer, truth (the right answer), success (true or false), score, reason (what a person or judge said), context,
id, model, input_tokens, output_tokens, started, ended: where these are

The records look as follows. Texts are replaced by their type and length.

{skeleton}

Answer with the JSON object and nothing else.{problem}"""


def propose_mapping(paths: Sequence[str], settings: Settings, *, assume_yes: bool, as_json: bool) -> int:
    """Show the model the skeleton of a file, show what its mapping reads, and save it if the user wants it.

    Args:
        paths: The file; others of its format are read with the same mapping later.
        settings: The settings, which choose the model and the file of the mapping.
        assume_yes: Whether the user has agreed to everything already.
        as_json: Whether to print the result for a program.

    Raises:
        UsageError: There is not one file of JSON values, no one can be asked, or the model proposes nothing usable.
    """
    source = _source(paths)
    shown = skeleton([record.value for record in islice(source.records(), _RECORDS)])
    if not assume_yes:
        note(f"This is what {model_and_place(settings)} will be shown:\n\n{shown}\n")
        if not can_ask():
            raise UsageError("nothing was sent: --yes sends it")
        if not says_yes("Send it?"):
            return DONE
    mapping, runs = _proposed(shown, source, settings)
    text = mapping_as_toml(mapping)
    target = Path(settings.map) if settings.map is not None else project_file(Path.cwd()) or Path("ace.toml")
    if not as_json:
        print_text(f"The mapping:\n\n{text}\nWhat it reads in {source.name}:")
        for run in runs:
            print_text(f"  task: {_short(run.task)}\n    answer: {_short(run.answer)}; {len(run.steps)} steps")
    is_saved = assume_yes or says_yes(f"Save it to {target}?")
    if is_saved:
        before = target.read_text("utf-8") if target.exists() else ""
        replace_file(target, f"{before}{chr(10) if before else ''}{text}".encode())
    if as_json:
        read = [{"task": run.task, "answer": run.answer, "steps": len(run.steps)} for run in runs]
        saved = str(target) if is_saved else None
        print_json({"command": "inspect", "mapping": mapping_as_dict(mapping), "runs": read, "saved": saved})
    elif is_saved:
        note(f"ace: saved; `ace inspect {paths[0]}` reads the format from now on" + _how_to_use(settings))
    return DONE if is_saved else WITH_FAILURES


def _how_to_use(settings: Settings) -> str:
    return f" with --map {settings.map}" if settings.map is not None else ""


def _source(paths: Sequence[str]) -> Source:
    if len(paths) != 1 or not Path(paths[0]).is_file():
        raise UsageError("--propose takes one file")
    try:
        source = file_source(Path(paths[0]))
    except (OSError, NotALogError) as error:
        raise UsageError(f"{paths[0]}: {error}") from error
    if not source.head.objects:
        raise UsageError(f"{paths[0]}: --propose needs JSON objects or a table; this file is {source.shape}")
    return source


def _proposed(shown: str, source: Source, settings: Settings) -> tuple[LogMapping, list[Run]]:
    """Ask the model until its mapping is valid and reads a run with a task or an answer.

    Raises:
        UsageError: It is none of both after several attempts.
    """
    client = client_from_settings(settings)
    problem = ""
    for _ in range(_ATTEMPTS):
        asked = _PROMPT.format(skeleton=shown, problem=f"\n\nYour last answer: {problem}" if problem else "")
        answer = client.complete(asked).text
        try:
            mapping = LogMapping.from_fields(_object_in(answer))
            found = list(islice(_runs(mapping, source), _RUNS_SHOWN))
        except (ValueError, MappingError) as error:
            problem = str(error)
            continue
        if any(run.task or run.answer for run in found):
            return mapping, found
        problem = "the mapping finds neither a task nor an answer in any record"
    raise UsageError(f"the model proposed no usable mapping: {problem}; write one by hand, see `--map`")


def _runs(mapping: LogMapping, source: Source) -> Iterator[Run]:
    return (item for item in MappedReader(mapping).runs(source) if isinstance(item, Run))


def _object_in(answer: str) -> dict[str, Any]:
    begin, end = answer.find("{"), answer.rfind("}")
    if begin < 0 or end < begin:
        raise ValueError("it holds no JSON object")
    found = json.loads(answer[begin : end + 1])
    return {name: value for name, value in found.items() if value not in (None, "", {}, [])}


def skeleton(records: Sequence[Any]) -> str:
    """Return the names and types of the fields in some records, without texts.

    Values are shown for fields that hold a few names, such as roles, none of which is sensitive.

    Args:
        records: JSON values of the same format.

    Example:
        >>> print(skeleton([{"who": "bot", "said": "It is 14 days, as the policy says."}]))
        {
          "who": "text: bot",
          "said": "text of 34 characters"
        }
    """
    return json.dumps(_merged(records, 0), indent=2, ensure_ascii=False)


def _merged(values: Sequence[Any], depth: int) -> Any:
    """Return one value that tells the types of several."""
    objects = [value for value in values if isinstance(value, dict)]
    lists = [value for value in values if isinstance(value, list)]
    if depth >= _DEEPEST:
        return "..."
    if objects:
        keys = list(dict.fromkeys(key for value in objects for key in value))[:_MOST_KEYS]
        redact = Redactor().redact
        return {redact(key): _merged([v[key] for v in objects if key in v], depth + 1) for key in keys}
    if lists:
        items = [item for value in lists for item in value[:_RECORDS]]
        return [_merged(items, depth + 1)] if items else []
    return _type_of(values)


def _type_of(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return f"text: {' | '.join(dict.fromkeys(values))}" if _are_names(values) else f"text of {_longest(values)}"
    names = {bool: "true or false", int: "number", float: "number", type(None): "null", str: "text"}
    return " or ".join(sorted({names.get(kind, "value") for kind in kinds}))


def _longest(texts: Sequence[str]) -> str:
    return counted(max(map(len, texts)), "character")


def _are_names(texts: Sequence[str]) -> bool:
    """Whether texts are the few names of a field such as a role. Names that do not recur could be those of people."""
    different = set(texts)
    if len(different) > _MOST_VALUES or Redactor().redact(" ".join(different)) != " ".join(different):
        return False
    pattern = _NAME if len(different) < len(texts) else _LOWER_NAME
    return all(pattern.fullmatch(text) for text in different)


def mapping_as_dict(mapping: LogMapping) -> dict[str, Any]:
    """Return the fields of a mapping that are set.

    Args:
        mapping: A mapping, from a model or a person.
    """
    empty = LogMapping(name=mapping.name)
    found = {f.name: getattr(mapping, f.name) for f in fields(mapping)}
    own = {name: value for name, value in found.items() if value != getattr(empty, name) or name == "name"}
    if mapping.step is not None:
        step = {f.name: getattr(mapping.step, f.name) for f in fields(StepMapping)}
        own["step"] = {name: value for name, value in step.items() if value}
    return own


def mapping_as_toml(mapping: LogMapping) -> str:
    """Return a mapping as a table `[[logs.mapping]]` of a settings file.

    Args:
        mapping: A mapping, from a model or a person.

    Example:
        >>> print(mapping_as_toml(LogMapping(name="shop", when="ticket", task="ticket.text")))
        [[logs.mapping]]
        name = "shop"
        when = "ticket"
        task = "ticket.text"
        <BLANKLINE>
    """
    own = mapping_as_dict(mapping)
    step: Mapping[str, str] = own.pop("step", {})
    lines = ["[[logs.mapping]]", *(f"{name} = {_toml(value)}" for name, value in own.items())]
    if step:
        lines += ["[logs.mapping.step]", *(f"{name} = {_toml(value)}" for name, value in step.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """Return a text, a number, a boolean or a list of texts, all of which TOML writes as JSON does."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 3]}..."
