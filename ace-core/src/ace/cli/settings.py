"""The settings of the command line: defaults < user file < project file < `--config` < environment < flags.

The clock is one too: `SOURCE_DATE_EPOCH` stops it, so that a run can be repeated to the byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from ace._internal.options import Option, SettingValue, inside_project, learning_option, option, options_of, refused
from ace.cli.console import note
from ace.cli.errors import UsageError
from ace.cli.project_rules import ADDRESS_ON_THIS_MACHINE, HOSTED_MODEL, OWN_SKILLBOOK
from ace.cli.settings_file import LEARNING_TABLE, LONGEST_NAME, MAPPINGS_TABLE, entries_in, project_file, user_file
from ace.environments import Match
from ace.runners.learning_settings import LearningSettings
from ace.runners.run_options import RunSettings

__all__ = ["SETTINGS", "SettingValue", "Settings", "clock_from_environment", "load_settings", "shown_setting"]

_OF_INPUTS: Final = ("learn", "train", "eval", "inspect")
_OF_MODEL: Final = ("learn", "train", "eval", "ask", "inspect")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one command, and the source of each. Those of learning and of a run have their own classes."""

    model: str | None = option(
        None,
        "The model, in LiteLLM notation: anthropic/NAME or openai/NAME; local/NAME runs on this machine.",
        group="Model",
        commands=_OF_MODEL,
        common=("learn", "train"),
        of_run=False,
        used="local/qwen2.5-coder-1.5b",
        project=HOSTED_MODEL,
    )
    api_base: str | None = option(
        None,
        'Base URL of an OpenAI-compatible server, such as http://localhost:11434/v1; "" ignores the one in the '
        "settings files.",
        group="Model",
        commands=_OF_MODEL,
        common=("learn", "train"),
        of_run=False,
        can_be_unset=True,
        project=ADDRESS_ON_THIS_MACHINE,
    )
    api_key: str | None = option(
        None,
        "The API key; by default the environment variable of the provider.",
        group="Model",
        of_run=False,
        is_secret=True,
        project=refused("others can read it there"),
    )
    max_tokens: int = option(
        2048, "The maximum length of an answer, in tokens.", group="Model", commands=_OF_MODEL, of_run=False, least=1
    )
    context_tokens: int | None = option(
        None,
        "The size of the model's context window, in tokens.",
        group="Model",
        commands=_OF_MODEL,
        of_run=False,
        least=256,
        used="that of LiteLLM's table, or of an error of the server",
    )
    max_trace_tokens: int | None = learning_option(
        None,
        "The maximum size of a trace in the prompt of the reflector, in tokens; a longer one is shortened.",
        group="Model",
        commands=("learn", "train"),
        least=100,
        used="60% of the model's input, or 32000 if that is not known",
    )
    temperature: float = option(
        0.0, "The sampling temperature.", group="Model", commands=_OF_MODEL, of_run=False, least=0
    )
    timeout: float = option(
        120.0,
        "The timeout of a model call, in seconds.",
        group="Model",
        commands=_OF_MODEL,
        of_run=False,
        above=0,
        most=1_000_000,
        used="120, or 600 for a model on this machine",
    )
    prompts: str | None = learning_option(
        None,
        "A folder of prompt templates to use: any of agent.md, reflector.md and skill_manager.md.",
        group="Model",
        is_path=True,
        can_be_unset=True,
        project=inside_project("folder", "its contents are sent"),
    )
    epochs: int = learning_option(
        1, "The number of passes over the inputs.", group="Run", common=("learn", "train"), least=1, most=10_000
    )
    limit: int | None = learning_option(
        None,
        "Process at most this many inputs.",
        group="Run",
        commands=_OF_INPUTS,
        common=("learn", "train", "inspect"),
        least=1,
    )
    lag: int | None = learning_option(
        None,
        "Start an input while at most this many earlier ones have not been learned from; 0 makes runs reproducible.",
        group="Run",
        least=0,
        most=1_000_000,
    )
    reflector: Literal["single", "recursive"] = learning_option(
        "single",
        "How a trace is reviewed: in one prompt (single), or with code that the model writes (recursive), which takes "
        "several calls per trace, and can search traces of any length. recursive requires the extra ace-core[rr].",
        choices=("single", "recursive"),
        project=refused("it would run code that the model writes"),
    )
    max_iterations: int = learning_option(20, "The maximum number of turns of a recursive review.", least=1)
    group: int | None = learning_option(
        None,
        "Review this many traces together, to find patterns across traces. Requires --reflector recursive.",
        commands=("learn",),
        least=1,
    )
    merge: bool = learning_option(True, "Merge duplicate skills.")
    gate: str | None = learning_option(
        None,
        "The checks that changes must pass, separated by commas. counters refuses to lose skills that were judged "
        "helpful. cases runs the cases of the affected skills, and refuses changes that break one. score requires "
        "--validate, and rolls back changes after which the score fell. auto means cases, or counters if the skillbook "
        "has no cases. Requires a .db skillbook.",
        commands=("learn",),
        used="none; auto with --task, --mode or --watch; score with --validate",
        project=refused("it would add skills that your own settings would refuse"),
    )
    environment: Match = learning_option(
        "contains",
        "How an answer is scored: it contains the ground truth (contains), equals it (exact), has the same number "
        "(numeric), matches it as a regular expression (regex), or contains it as a whole word or code or by its "
        "value, and none of the other options in the question (strict).",
        group="Validation",
        commands=("learn", "train", "eval"),
        common=("train",),
        choices=get_args(Match),
    )
    validation_interval: int = learning_option(
        10,
        "The number of inputs between validations; there is always one at the end.",
        group="Validation",
        least=1,
    )
    patience: int | None = learning_option(
        None, "Stop after this many validations without an improvement.", group="Validation", least=1
    )
    skillbook: str = option(
        "skills.db",
        "The skillbook: .db keeps a history, .json is a plain file.",
        group="Files",
        commands=("learn", "train"),
        common=("learn", "train"),
        of_run=False,
        is_path=True,
        project=OWN_SKILLBOOK,
    )
    block: str | None = learning_option(
        None,
        "Write the skills to a managed block of this text file, such as AGENTS.md, after each trace. A new skillbook "
        "starts with the skills in this file: in the block, or in lines such as [Bullet #ID, helpful:N, harmful:M] "
        "text.",
        group="Files",
        commands=("learn",),
        common=("learn",),
        of_run=False,
        is_path=True,
        can_be_unset=True,
        project=inside_project("file", "files are written there"),
    )
    logs: str = option(
        "logs",
        "The folder of the trace log, the insights and the artifacts.",
        group="Files",
        commands=("learn",),
        of_run=False,
        is_path=True,
        project=inside_project("folder", "files are written there"),
    )
    format: str | None = option(
        None,
        "Read the files with the reader of this name instead of the one that fits their content.",
        group="Files",
        commands=_OF_INPUTS,
        common=("inspect",),
        of_run=False,
    )
    map: str | None = option(
        None,
        "Read logs of your own with the mappings in this TOML file, which say where tasks, answers and steps are.",
        group="Files",
        commands=_OF_INPUTS,
        common=("inspect",),
        of_run=False,
        is_path=True,
        project=inside_project("file", "it is read"),
    )
    since: str | None = option(
        None,
        "Skip runs that began earlier than this long ago, such as 12h, 7d or 2w, or before this date.",
        group="Files",
        commands=_OF_INPUTS,
        common=("inspect",),
        of_run=False,
    )
    max_input_mb: float = option(
        1000.0,
        "The size of the largest file or stream that is read, in megabytes.",
        group="Files",
        commands=_OF_INPUTS,
        of_run=False,
        above=0,
        most=1_000_000,
    )
    learning: LearningSettings
    """The settings of learning."""
    run: RunSettings
    """The settings of a run."""
    origins: Mapping[str, str]
    """The source of each value, as text, by name."""
    of_project: Collection[str] = ()
    """The names of the values that come from the file of a project, which may not be trusted."""

    @property
    def max_input_bytes(self) -> int:
        """The maximum size of a file or stream, in bytes."""
        return int(self.max_input_mb * 1_000_000)

    @property
    def log_folder(self) -> Path:
        """The folder of the trace log, the insights and the artifacts.

        Raises:
            UsageError: The user has not named it, and it leads out of the current folder, as a cloned project can make
                it by a link.
        """
        return self._not_a_way_out(Path(self.logs))

    @property
    def trace_log(self) -> Path:
        """The file of the trace log."""
        return self.log_folder / "execution_traces.jsonl"

    @property
    def proxy_folder(self) -> Path:
        """The folder of `ace proxy`, with the runs that it has recorded and the queue of its learner."""
        return self.log_folder / "proxy"

    @property
    def proxy_runs(self) -> Path:
        """The folder of the runs that `ace proxy` has recorded and that have ended."""
        return self.proxy_folder / "runs"

    @property
    def insights(self) -> Path:
        """The file of the insights."""
        return self.log_folder / "insights.jsonl"

    @property
    def artifacts(self) -> Path:
        """The folder of the artifacts."""
        return self._not_a_way_out(self.log_folder / "artifacts")

    def _not_a_way_out(self, folder: Path) -> Path:
        if self.origins["logs"] == "default" and not folder.resolve().is_relative_to(Path.cwd()):
            raise UsageError(
                f"{str(folder)!r} leads to {str(folder.resolve())!r} by a link, which is not followed; if the link is "
                f"yours, give {SETTINGS['logs'].flag} with the folder that it leads to"
            )
        return folder


_CLASSES: Final = (Settings, LearningSettings, RunSettings)

SETTINGS: Final[Mapping[str, Option]] = {
    found.name: found for settings in _CLASSES for found in options_of(settings) if not found.python_only
}
"""All settings by name: every option that is not only a keyword of Python."""


class _FileValue(NamedTuple):
    """A value and the line that sets it."""

    value: SettingValue
    line: int


def load_settings(
    flags: Mapping[str, SettingValue],
    *,
    assigned: Iterable[str] = (),
    command: str = "",
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Merge the settings: defaults < user file < project file < `--config` < environment < flags.

    Args:
        flags: The values of the flags by name; None where a flag was not given.
        assigned: The values of `--set`, in the form NAME=VALUE.
        command: The command with these flags.
        config: The file of `--config`. It is trusted like the flags, since the user has named it.
        environ: The environment; by default that of the process.
        folder: The folder in which the command runs; by default the current one.

    Raises:
        UsageError: A source holds an unknown name or a value that is out of range.
    """
    variables = os.environ if environ is None else environ
    found = _Found()
    user = user_file(variables)
    if user.is_file():
        found.take_file(user)
    project = project_file(Path.cwd() if folder is None else folder)
    if project is not None:
        found.take_file(project, is_project=True)
    if config is not None:
        found.take_file(config, is_for_command=True)
    for name, setting in SETTINGS.items():
        if variables.get(setting.variable):
            place = f"variable {setting.variable}"
            found.take(name, place, f"the {place}", lambda: setting.parsed(variables[setting.variable]))  # noqa: B023
    for name, value in flags.items():
        if value is not None:
            flag = SETTINGS[name].flag
            found.take(name, f"flag {flag}", f"the option {flag}", lambda: SETTINGS[name].checked(value))  # noqa: B023
    for text in assigned:
        name, value = _assignment(text, command)
        if flags.get(name) is not None:
            raise UsageError(f"the setting {name!r} is given twice, by {SETTINGS[name].flag} and by --set")
        found.take(name, f"flag --set {name}", f"the option --set {name}", lambda: SETTINGS[name].parsed(value))  # noqa: B023
    return found.settings()


class _Found:
    """The values that were found so far, and their origins."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
        self._origins = dict.fromkeys(SETTINGS, "default")
        self._of_project: set[str] = set()

    def take(self, name: str, origin: str, place: str, value: Callable[[], SettingValue]) -> None:
        """Take a value, which overrides an earlier one.

        Args:
            name: The name of the setting.
            origin: Where it comes from.
            place: The same for an error.
            value: Returns the value.

        Raises:
            UsageError: It is not acceptable.
        """
        try:
            self._values[name] = SETTINGS[name].in_python(value())
        except ValueError as error:
            raise UsageError(f"{place} {error}") from error
        self._origins[name] = origin
        self._of_project.discard(name)

    def take_file(self, path: Path, *, is_project: bool = False, is_for_command: bool = False) -> None:
        """Take the values of a settings file.

        Args:
            path: The file.
            is_project: Whether it is the file of a project, which may not be trusted.
            is_for_command: Whether it was written for this command, so that all of it must have an effect.
        """
        from ace.skillbook.locations import has_scheme

        entries = _read_settings_file(path, is_for_command=is_for_command)
        if is_project:
            for name, (value, line) in entries.items():
                _check_trusted(SETTINGS[name], value, path, line)
        for name, (value, line) in entries.items():
            if SETTINGS[name].is_path and isinstance(value, str) and not has_scheme(value):
                value = str(path.parent / Path(value).expanduser())
            self._values[name] = SETTINGS[name].in_python(value)
            self._origins[name] = f"{path}, line {line}"
        self._of_project = (self._of_project - entries.keys()) | (entries.keys() if is_project else set())

    def settings(self) -> Settings:
        """Return the settings."""
        own, learning, run = (
            {found.name: self._values[found.name] for found in options_of(settings) if not found.python_only}
            for settings in _CLASSES
        )
        return Settings(
            **own,
            learning=LearningSettings(**learning),
            run=RunSettings(**run),
            origins=self._origins,
            of_project=frozenset(self._of_project),
        )


def _assignment(text: str, command: str) -> tuple[str, str]:
    """Return the name and the value of a `--set NAME=VALUE`.

    Raises:
        UsageError: It has another form, or no such setting can be set there.
    """
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals:
        raise UsageError(f"--set takes NAME=VALUE, such as --set epochs=3; got {text!r}")
    usable = {known: setting for known, setting in SETTINGS.items() if command in setting.commands}
    if name not in SETTINGS:
        raise UsageError(f"--set: no such setting: {name[:LONGEST_NAME]!r}{_suggestion(name, usable)}")
    if name not in usable:
        raise UsageError(f"--set: `ace {command}` does not use the setting {name!r}")
    return name, value.strip()


def _read_settings_file(path: Path, *, is_for_command: bool) -> Mapping[str, _FileValue]:
    """Return the values of a settings file by name.

    Args:
        path: A file in TOML or YAML; the settings of a run may be in its table `learning`.
        is_for_command: Whether a table of a plugin that is not installed is an error; else it is noted.

    Raises:
        UsageError: It cannot be read, or holds an unknown name or a value of the wrong type.
    """
    of_runs = {name: setting for name, setting in SETTINGS.items() if setting.of_run}
    values: dict[str, _FileValue] = {}
    foreign: dict[str, int] = {}
    for name, value, line, table, table_line in entries_in(path):
        if table and table != LEARNING_TABLE:
            _check_is_of_plugin(path, table_line, table)
            foreign[table] = table_line
            continue
        accepted = of_runs if table else SETTINGS
        shown_name = name[:LONGEST_NAME]
        if name not in accepted:
            where = f" in [{LEARNING_TABLE}]" if table else ""
            hint = _suggestion(shown_name, accepted)
            raise UsageError(f"{path}, line {line}: no such setting{where}: {shown_name!r}{hint}")
        if name in values:
            raise UsageError(f"{path}, line {line}: the setting {name!r} is already in line {values[name].line}")
        try:
            values[name] = _FileValue(SETTINGS[name].checked(value), line)
        except ValueError as error:
            raise UsageError(f"{path}, line {line}: the setting {name!r} {error}") from error
    for table, line in foreign.items():
        if not _has_plugin(table):
            problem = f"{path}, line {line}: no plugin {table[:LONGEST_NAME]!r} is installed that could use this table"
            if is_for_command:
                raise UsageError(f"{problem}; the settings of a run are in [{LEARNING_TABLE}]")
            note(f"ace: {problem}, so it is ignored; the settings of a run are in [{LEARNING_TABLE}]")
    return values


def _has_plugin(table: str) -> bool:
    """Return whether a table is for a plugin that is installed, or one of our own, which a shared project may name."""
    from ace.plugins.catalogue import catalogue  # reads all entry points
    from ace.plugins.discovery import RESERVED, normalised

    known = {normalised(name) for name in (MAPPINGS_TABLE, *RESERVED)}
    wanted = normalised(table)
    return wanted in known or any(normalised(plugin.name) == wanted for plugin in catalogue().plugins())


def _check_is_of_plugin(path: Path, line: int, table: str) -> None:
    """Reject a table that cannot belong to a plugin, installed or not."""
    from ace._internal.arguments import closest_name  # only needed for a file with such a table
    from ace.cli.command_table import built_in_names

    shown_name = table[:LONGEST_NAME]
    if table == MAPPINGS_TABLE:
        return
    if table in SETTINGS:
        raise UsageError(f"{path}, line {line}: the setting {shown_name!r} must be a value, not a table")
    if closest_name(table, [LEARNING_TABLE]) is not None or table in built_in_names():
        raise UsageError(
            f"{path}, line {line}: no such setting: {shown_name!r}; the settings of a run are in [{LEARNING_TABLE}]"
        )


def _check_trusted(setting: Option, value: SettingValue, path: Path, line: int) -> None:
    """Reject a value with which a cloned project could steal the user's key or traces, or weaken a safeguard."""
    if setting.project is None or value is None:
        return
    problem = setting.project.problem(setting.name, str(value), path.parent)
    if problem is not None:
        or_flag = f", or give {setting.flag}" if not setting.is_secret else ""  # others can see the list of processes
        raise UsageError(
            f"{path}, line {line}: {problem}; put {setting.name!r} into your own settings file ('ace config' shows "
            f"where it is) or the variable {setting.variable}{or_flag}"
        )


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    from ace._internal.arguments import closest_name  # only needed for an error

    near = closest_name(name, known)
    return f"; did you mean {near!r}?" if near else f"; there are {', '.join(known)}"


def shown_setting(setting: Option, settings: Settings) -> SettingValue:
    """Return the value of a setting as it may be shown: without keys, and without passwords in locations."""
    from ace.calls.secrets import HIDDEN, redact
    from ace.skillbook.locations import shown_location

    holder = next(part for part in (settings, settings.learning, settings.run) if hasattr(part, setting.name))
    value: Any = getattr(holder, setting.name)
    if isinstance(value, tuple):
        value = ",".join(value) or None
    if not isinstance(value, str):
        return value  # type: ignore[no-any-return]  # it was checked against its declaration
    return HIDDEN if setting.is_secret else redact(shown_location(value))


def clock_from_environment(environ: Mapping[str, str] | None = None) -> Callable[[], datetime]:
    """Return the clock for a skillbook.

    Args:
        environ: The environment; by default that of the process.

    Raises:
        UsageError: `SOURCE_DATE_EPOCH` is not a number of seconds.

    Example:
        >>> clock_from_environment({"SOURCE_DATE_EPOCH": "0"})().isoformat()
        '1970-01-01T00:00:00+00:00'
    """
    variables = os.environ if environ is None else environ
    fixed = variables.get("SOURCE_DATE_EPOCH", "").strip()
    if not fixed:
        return lambda: datetime.now(UTC)
    try:
        moment = datetime.fromtimestamp(int(fixed), UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"the variable SOURCE_DATE_EPOCH must be whole seconds since 1970, got {fixed!r}") from None
    return lambda: moment
