"""`ClaudeCodeExecuteStep`, which runs a task with the `claude` binary and the skills in its system prompt."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ace.context import ACEStepContext
from ace.integrations import (
    LEARNING_VARIABLE,
    SKILLBOOK_USAGE_INSTRUCTIONS,
    Record,
    checked_class,
    extract_cited_skill_ids,
    list_in,
    text_in,
)
from ace.protocols import SkillbookReader
from ace_claude_code.account import earlier_cost, metrics_of_result
from ace_claude_code.binary import find_claude, knows_option
from ace_claude_code.outcome import check_login, denials_in, problem_in_result
from ace_claude_code.process import ClaudeProcess, FinishedProcess
from ace_claude_code.records import TranscriptError, events_in
from ace_claude_code.result import ClaudeCodeResult
from ace_claude_code.sessions.home import config_folder
from ace_claude_code.to_trace import transcript_to_trace

__all__ = ["ClaudeCodeExecuteStep", "ClaudeUsageError", "check_usage", "task_of"]
_LONGEST_REASON = 2000


class ClaudeUsageError(ValueError):
    """The binary rejected its arguments."""


@checked_class
class ClaudeCodeExecuteStep:
    """Runs the task of the sample with the `claude` binary, and sets `trace` to a `ClaudeCodeResult`.

    The prompt is passed on standard input, the skills in a file for the system prompt. A run that fails or times out
    has a result with `success=False`. A cancelled run is stopped with all its child processes, and is not learned from.

    Args:
        working_dir: The folder in which Claude Code works.
        claude: The path of the binary; by default the one of `find_claude`.
        timeout: The time limit of a run, in seconds; None sets no limit.
        model: The model; by default that of the user's settings.
        permission_mode: The permission mode: `default`, `acceptEdits`, `dontAsk` or `bypassPermissions`.
        allowed_tools: Additional tools that are allowed, such as `Bash(python3:*)`.
        max_turns: The number of turns after which a run is stopped.
        max_budget_usd: The cost after which a run is stopped, in US dollars.
        resume: The session to resume.
        skill_budget_tokens: The maximum size of the skills, in tokens, those relevant to the task first; None includes
            all skills.
        skill_file: The file in `.claude/rules` with the skills for other sessions. These runs do not load it, because
            they get their skills in the system prompt.
        env: Environment variables, in addition to those of this process.
        extra_args: Additional arguments of the binary.

    Raises:
        NotADirectoryError: The working folder does not exist.
        ClaudeNotFoundError: The binary was not found.
    """

    requires = frozenset({"sample", "skillbook"})
    provides = frozenset({"trace"})

    def __init__(
        self,
        working_dir: str | os.PathLike[str],
        *,
        claude: str | os.PathLike[str] | None = None,
        timeout: float | None = 600.0,
        model: str | None = None,
        permission_mode: str = "acceptEdits",
        allowed_tools: Sequence[str] = (),
        max_turns: int | None = None,
        max_budget_usd: float | None = None,
        resume: str | None = None,
        skill_budget_tokens: int | None = None,
        skill_file: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        extra_args: Sequence[str] = (),
    ) -> None:
        self.working_dir = Path(working_dir).absolute()
        if not self.working_dir.is_dir():
            raise NotADirectoryError(f"no such working folder: {str(self.working_dir)!r}; create it first")
        if isinstance(allowed_tools, str):
            raise TypeError(f"allowed_tools is a list of tools: [{allowed_tools!r}]")
        self.claude = find_claude(claude)
        self.timeout = timeout
        self.resume = resume
        self.skill_budget_tokens = skill_budget_tokens
        self.env = dict(env or {})
        settings: dict[str, object] = {
            "--permission-mode": permission_mode,
            # Passed as one value, because the option takes all values that follow it.
            "--allowedTools": ",".join(allowed_tools) or None,
            "--model": model,
            "--max-turns": max_turns,
            "--max-budget-usd": max_budget_usd,
            "--resume": resume,
            "--settings": _settings_without(skill_file) if "--settings" not in extra_args else None,
        }
        flags = [word for name, value in settings.items() if value is not None for word in (name, str(value))]
        self.arguments = ("-p", "--output-format", "stream-json", "--verbose", *flags, *extra_args)

    async def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Run the task and set `trace` to the result."""
        task = task_of(ctx.sample)
        if ctx.skillbook is None:
            raise ValueError("ClaudeCodeExecuteStep needs ctx.skillbook; run it in a runner, or set it in the context")
        skills = self._skills(ctx.skillbook, task)
        environ = self._environ()
        cost_before = 0.0 if self.resume is None else earlier_cost(self.resume, config_folder(environ))
        with _file_with(skills) as path:
            process = ClaudeProcess(
                [self.claude, *self.arguments, *self._skill_arguments(path)],
                stdin=task,
                cwd=self.working_dir,
                environ=environ,
                timeout=self.timeout,
            )
            finished = await process.run_async()
        check_usage(finished)
        shown = {"shown_skill_ids": extract_cited_skill_ids(skills)} if skills else {}
        result = result_of_run(task, finished, self.timeout, cost_before)
        final = next((event for event in reversed(result.events) if event.get("type") == "result"), {})
        check_login(final, "claude_code")  # not a failure of the task, so nothing can be learned from it
        return ctx.replace(trace=result, metadata={**ctx.metadata, **shown})

    def _skills(self, skillbook: SkillbookReader, task: str) -> str:
        if self.skill_budget_tokens is None:
            return skillbook.as_prompt()
        return skillbook.as_prompt(budget_tokens=self.skill_budget_tokens, query=task)

    def _skill_arguments(self, path: Path | None) -> list[str]:
        if path is None:
            return []
        arguments = ["--append-system-prompt-file", str(path)]
        # Without this option, a resumed session keeps the system prompt of its first run, and thus its skills.
        if knows_option(self.claude, "--system-prompt-snapshot"):
            arguments += ["--system-prompt-snapshot", "off"]
        return arguments

    def _environ(self) -> dict[str, str]:
        # Run sub-agents in the foreground, so that there is only one result and nothing continues after it.
        ours = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1", LEARNING_VARIABLE: "1"}
        return {**os.environ, **self.env, **ours}


def task_of(sample: object) -> str:
    """Return the task in an input: a text, the contents of a text file, or the question of a sample.

    Args:
        sample: A text, the path of a text file, or a sample.

    Raises:
        TypeError: The input is something else.
        ValueError: The task is empty.
    """
    if isinstance(sample, os.PathLike):
        task = Path(sample).read_text(encoding="utf-8")
    elif isinstance(sample, str):
        task = sample
    else:
        question, context = getattr(sample, "question", None), getattr(sample, "context", "")
        if not isinstance(question, str):
            raise TypeError(
                f"a task is a text, the path of a text file, or a sample with a question, not {type(sample).__name__}"
            )
        task = f"{question}\n\n{context}" if context else question
    if not task.strip():
        raise ValueError("the task is empty; Claude Code needs a prompt")
    return task


def check_usage(finished: FinishedProcess) -> None:
    """Raise an error if the binary rejected its arguments, so that no task can succeed.

    Args:
        finished: The finished process.

    Raises:
        ClaudeUsageError: The binary rejected its arguments.
    """
    said = finished.stderr.strip()
    if finished.returncode != 0 and not finished.stdout.strip() and said.startswith("error: "):
        raise ClaudeUsageError(f"the claude binary rejected its arguments: {said.removeprefix('error: ')}")


def _settings_without(skill_file: str | os.PathLike[str] | None) -> str | None:
    """Return settings that exclude a rules file; None for other files, which contain more than our skills."""
    if skill_file is None or Path(skill_file).parent.name != "rules":
        return None
    return json.dumps({"claudeMdExcludes": [str(Path(skill_file).absolute())]})


@contextmanager
def _file_with(skills: str) -> Iterator[Path | None]:
    """Write the skills to a temporary file, because an argument is limited to 128 KiB; None without skills."""
    if not skills.strip():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="ace-claude-code-") as folder:
        path = Path(folder) / "skills.md"
        path.write_text(f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n{skills}\n", encoding="utf-8")
        yield path


def result_of_run(
    task: str, finished: FinishedProcess, timeout: float | None, cost_before: float = 0.0
) -> ClaudeCodeResult:
    """Return the result of a finished run.

    Args:
        task: The prompt of the task.
        finished: The finished process.
        timeout: The time limit of the run, in seconds.
        cost_before: The cost of the session before the run, if it was resumed, in US dollars.
    """
    events, skipped_lines = events_in(finished.stdout)
    final: Record = next((event for event in reversed(events) if event.get("type") == "result"), {})
    problem = _problem(finished, timeout, problem_in_result(final) if final else "", denials_in(final), bool(final))
    try:
        trace = transcript_to_trace(events, question=task)
    except TranscriptError:  # it printed no events; the reason is on standard error
        trace = {}
    counted = trace.get("metrics")
    numbers = counted if isinstance(counted, dict) and final else metrics_of_result(final)
    cost = numbers.get("cost_usd", 0.0)
    cited = trace.get("skill_ids")
    return ClaudeCodeResult(
        task=task,
        success=problem is None,
        output=text_in(trace, "answer"),
        execution_trace=text_in(trace, "reasoning"),
        returncode=finished.returncode,
        error=problem,
        session_id=next((found for event in events if (found := text_in(event, "session_id"))), ""),
        turns=int(numbers.get("turns", 0)),
        input_tokens=int(numbers.get("input_tokens", 0)),
        output_tokens=int(numbers.get("output_tokens", 0)),
        # Recent releases report the cost of the whole session, older ones that of this run.
        cost_usd=cost - cost_before if cost >= cost_before else cost,
        duration_seconds=finished.seconds,
        timed_out=finished.timed_out,
        permission_denials=tuple(item for item in list_in(final, "permission_denials") if isinstance(item, dict)),
        skill_ids=tuple(str(skill_id) for skill_id in cited) if isinstance(cited, list) else (),
        events=events,
        skipped_lines=skipped_lines,
        stderr=finished.stderr,
    )


def _problem(
    finished: FinishedProcess, timeout: float | None, problem: str, denials: list[str], has_result: bool
) -> str | None:
    if finished.timed_out:
        return f"The run was stopped after {timeout:g} seconds; what it had done until then stays."
    if problem or denials:
        return " ".join([*([problem] if problem else []), *denials])
    if has_result and finished.returncode == 0:
        return None
    how = (
        f"was ended by signal {-finished.returncode}"
        if finished.returncode < 0
        else f"ended with exit code {finished.returncode}"
    )
    said = finished.stderr.strip()[-_LONGEST_REASON:] or "it said nothing on standard error"
    return f"The claude binary {how}{'' if has_result else ' and without a result'}: {said}"
