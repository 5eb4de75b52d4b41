"""Reads stored sessions of Claude Code, and what `claude -p --output-format stream-json` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ace.integrations import Record, extract_cited_skill_ids, list_in, mapping_in, text_in
from ace.logs import LogHead, Problem, Run, RunBuilder, Source, Step, Tokens
from ace_claude_code.account import Metrics, metrics_of, metrics_of_lines
from ace_claude_code.conversation import Conversation, SubAgents, read_conversation, read_subagents
from ace_claude_code.messages import DENIED_MARK, Message, add_steps
from ace_claude_code.outcome import Outcome, outcome_of_conversation, outcome_of_lines
from ace_claude_code.records import Records

__all__ = ["ClaudeCodeLogs", "add_lines", "facts_of_session", "run_of_lines", "run_of_session", "shown_to_prompts"]

_HOOK: Final = "hook_additional_context"
_PROMPT_HOOK: Final = "UserPromptSubmit"

_FARTHEST: Final = 2_000
"""Sessions in one file may be mixed. One of which so many records say nothing is complete, and need not be held."""


class ClaudeCodeLogs:
    """Reads the sessions in a transcript, of which there are mostly one, or those in a stream."""

    name = "claude_code"
    title = "Claude Code sessions and stream-json"
    places = (
        "~/.claude/projects/*/*.jsonl",
        "~/.config/claude/projects/*/*.jsonl",
        "$CLAUDE_CONFIG_DIR/projects/*/*.jsonl",
    )
    side_files = (
        "subagents/*",
        "agent-*.jsonl",
        "*.meta.json",
        "tool-results/*",
        "memory/*",
        "sessions-index.json",
        "history.jsonl",
    )
    note = (
        "Notes that the client writes in the name of the user are not read. A stored session has no outcome. Of what "
        "was rewound, up to three prompts are skipped; longer branches are runs of their own."
    )

    def recognises(self, head: LogHead) -> float:
        """Return how certainly these are records of Claude Code, from 0 to 1.

        Args:
            head: The beginning of the source.
        """
        return max(map(_score, head.objects), default=0.0)

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the sessions in order, and the private ones as problems.

        Args:
            source: A transcript or a stream.
        """
        found = False
        for records in _sessions(source):
            conversation = read_conversation(records)
            if conversation.is_private:
                yield source.problem("a session is private: the user typed <private-session> in it")
                found = True
            elif conversation.lines:
                subagents = read_subagents(records)
                run = run_of_session(records, conversation, subagents, metrics_of(conversation, subagents))
                yield run if conversation.results else replace(run, success=None)
                found = True
                for fork in conversation.forks:
                    yield _run_of_fork(records, conversation, fork)
        if not found:
            yield source.problem("no message of a session of Claude Code")


def _score(record: Mapping[str, object]) -> float:
    kind = record.get("type")
    if kind == "system" and record.get("subtype") == "init" and "claude_code_version" in record:
        return 0.95
    if kind == "result" and "session_id" in record and "is_error" in record:
        return 0.9
    message = record.get("message")
    if kind in ("user", "assistant") and isinstance(message, Mapping) and "parts" not in message:
        if "sessionId" in record and "parentUuid" in record:
            return 0.95
        if "session_id" in record and "parent_tool_use_id" in record:
            return 0.9
    return 0.0


def _sessions(source: Source) -> Iterator[Records]:
    """Yield the records of the sessions in a file. Records without the id of a session belong to the one before."""
    sessions: dict[str, Records] = {}
    latest: dict[str, int] = {}
    current = ""
    for number, (value, line) in enumerate(source.records()):
        if not isinstance(value, dict):
            continue
        current = text_in(value, "sessionId", "session_id") or current
        if current not in sessions:
            begun = sessions.pop("", None)
            for key in [key for key in sessions if latest[key] < number - _FARTHEST]:
                yield sessions.pop(key)
            sessions[current] = Records(str(source.path)) if begun is None else begun
        sessions[current].add(value, line)
        latest[current] = number
    yield from sessions.values()


def run_of_session(
    records: Records, conversation: Conversation, subagents: SubAgents, metrics: Metrics, *, task: str = ""
) -> Run:
    """Return the run of a whole session or stream.

    Args:
        conversation: What was said in them.
        subagents: The sub-agents with files of their own.
        metrics: What it cost.
        task: The task of a stream, which does not contain it; by default, the first prompt.
    """
    builder = RunBuilder()
    for own in add_lines(builder, conversation.lines, subagents).values():
        add_lines(builder, own, {})
    asked = task or next((turn.prompt for turn in conversation.turns if turn.prompt), "")
    outcome = outcome_of_conversation(conversation, conversation.lines)
    shown = [skill_id for _, ids in shown_to_prompts(records) for skill_id in ids]
    facts = facts_of_session(conversation, records)
    return run_of_lines(builder, conversation.lines, outcome, metrics, facts, shown, task=asked)


def _run_of_fork(records: Records, conversation: Conversation, lines: Sequence[Message]) -> Run:
    builder = RunBuilder()
    add_lines(builder, lines, {})
    facts = facts_of_session(conversation, records)
    task = next((line.prompt for line in lines if line.prompt), "")
    found = run_of_lines(builder, lines, outcome_of_lines(lines), metrics_of_lines(lines), facts, (), task=task)
    fork = text_in(lines[0].record, "uuid")
    return replace(found, id=f"{conversation.session_id}/{fork}", parent=conversation.session_id, success=None)


def run_of_lines(
    builder: RunBuilder,
    lines: Sequence[Message],
    outcome: Outcome,
    metrics: Metrics,
    facts: Mapping[str, object],
    shown: Sequence[str],
    *,
    task: str,
    context: str = "",
) -> Run:
    """Return the run of some messages of a session.

    Args:
        builder: Has their steps.
        lines: The messages.
        outcome: How they end.
        metrics: What they cost.
        facts: What `facts_of_session` returned.
        shown: The skills that were chosen for their prompts.
        task: What the user asked.
        context: What was said before.
    """
    main = [line for line in lines if not line.of_subagent]
    times = [line.time for line in lines if line.time is not None]
    own = [step.content for step in builder.steps if step.speaker == "agent" and step.kind in ("thought", "message")]
    agent = next((text_in(line.record, "agentId") for line in main if line.record.get("isSidechain")), "")
    session = text_in(facts, "session_id")
    return builder.run(
        id=agent or session,
        parent=session if agent else "",
        task=task,
        context=context,
        answer=outcome.answer,
        success=outcome.success,
        reason="\n".join(dict.fromkeys([*_problems(outcome, builder.steps), *_objections(main)])),
        outcome_from=outcome.source,
        is_interrupted=outcome.is_interrupted,
        model=next((model for line in lines if (model := _model(line.record))), ""),
        tokens=Tokens(input=_count(metrics, "input_tokens"), output=_count(metrics, "output_tokens")),
        cost=metrics.get("cost_usd"),
        started=min(times, default=None),
        ended=max(times, default=None),
        cwd=text_in(facts, "cwd"),
        skill_ids=tuple(extract_cited_skill_ids("\n".join(own))),
        metadata=_facts_of_lines(facts, lines, shown),
    )


def _count(metrics: Metrics, name: str) -> int | None:
    return int(metrics[name]) if name in metrics else None


def _problems(outcome: Outcome, steps: Sequence[Step]) -> Sequence[str]:
    """Return why a run failed. Denied calls are only named if the steps do not show them."""
    is_shown = any(step.content.startswith(DENIED_MARK) for step in steps)
    return outcome.problems if is_shown else (*outcome.problems, *outcome.denials)


def _objections(main: Sequence[Message]) -> Iterator[str]:
    """Yield what the user said while the agent worked."""
    for message in main:
        for reason in message.rejections.values():
            yield f"The user rejected a call: {reason}"
    for message in main:
        if message.was_typed_meanwhile and message.prompt:
            yield f"While the agent worked, the user said: {message.prompt}"


def add_lines(builder: RunBuilder, lines: Sequence[Message], subagents: SubAgents) -> SubAgents:
    """Add the steps of messages, and those of sub-agents after the calls that started them.

    Args:
        builder: Collects the steps.
        lines: The messages.
        subagents: The messages of sub-agents by the ids of calls.

    Returns:
        The sub-agents that no message called.
    """
    left = dict(subagents)
    for line in lines:
        add_steps(builder, line, "sub-agent" if line.of_subagent else "")
        for call in line.calls:
            if call in left:
                # The first message is the task, which the call already contains.
                own = left.pop(call)[1:]
                left = dict(add_lines(builder, own, left))
    return left


def facts_of_session(conversation: Conversation, records: Records) -> dict[str, object]:
    """Return the metadata that all turns of a session share. Called once, because it reads all records."""
    attachments = [mapping_in(record, "attachment") for record in records.items if record.get("type") == "attachment"]
    hooks = [
        attachment
        for attachment in attachments
        if attachment.get("type") == _HOOK and attachment.get("hookEvent") != _PROMPT_HOOK
    ]
    instructions = [
        file
        for attachment in attachments
        if attachment.get("type") == "instructions"
        for file in list_in(attachment, "files")
        if isinstance(file, dict)
    ]
    texts = [text_in(file, "content") for file in instructions] + [_hook_text(hook) for hook in hooks]
    return {
        "integration": "claude_code",
        "session_id": conversation.session_id,
        "source": records.name,
        "cwd": _first(records.items, "cwd"),
        "branch": _first(records.items, "gitBranch"),
        "version": _first(records.items, "version", "claude_code_version"),
        "instruction_files": list(dict.fromkeys(text_in(file, "path") for file in instructions)),
        "shown_skill_ids": _listed_skills(texts),
        "skipped_lines": records.skipped_lines,
        "unknown_types": dict(records.unknown_types),
        "abandoned_messages": conversation.abandoned_messages,
        "duplicate_records": records.duplicates,
        "compactions": conversation.compactions,
    }


def _facts_of_lines(facts: Mapping[str, object], lines: Sequence[Message], shown: Sequence[str]) -> dict[str, object]:
    """Return the metadata of a part of a session, with the skills that were chosen for its prompts."""
    found = {
        **facts,
        "shown_skill_ids": list(dict.fromkeys([*list_in(facts, "shown_skill_ids"), *shown])),
        "unknown_blocks": dict(Counter(kind for line in lines for kind in line.unknown_blocks)),
    }
    return {name: value for name, value in found.items() if value not in ("", 0, [], {})}


def shown_to_prompts(records: Records) -> list[tuple[int, list[str]]]:
    """Return the skills that a hook added to prompts, each with the line where that is noted."""
    found = []
    for number, record in zip(records.lines, records.items, strict=True):
        attachment = mapping_in(record, "attachment")
        if attachment.get("type") == _HOOK and attachment.get("hookEvent") == _PROMPT_HOOK:
            found.append((number, _listed_skills([_hook_text(attachment)])))
    return found


def _hook_text(attachment: Record) -> str:
    content = attachment.get("content")
    return content if isinstance(content, str) else "\n".join(map(str, list_in(attachment, "content")))


def _listed_skills(texts: Iterable[str]) -> list[str]:
    """Return the ids of the skills in lists of them; a skill may name another one, which is not shown by that."""
    entries = [line.strip() for text in texts for line in text.splitlines()]
    heads = [entry.partition("]")[0] for entry in entries if entry.startswith("- [")]
    return extract_cited_skill_ids("\n".join(heads))


def _model(record: Record) -> str:
    model = text_in(mapping_in(record, "message"), "model")
    return "" if model == "<synthetic>" else model


def _first(items: Sequence[Record], *names: str) -> str:
    return next((found for record in items if (found := text_in(record, *names))), "")
