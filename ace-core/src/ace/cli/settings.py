"""The settings of the command line: defaults < user file < project file < `--config` < environment < flags.

The clock is one too: `SOURCE_DATE_EPOCH` stops it, so that a run can be repeated to the byte.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ace.cli.errors import UsageError
from ace.cli.settings_file import LEARNING_TABLE, LONGEST_NAME, entries_in
from ace.skill import PROVENANCES, Provenance

if TYPE_CHECKING:
    from ace.steps.leakage_guard import GuardedKind

__all__ = [
    "FIELDS",
    "PluginSetting",
    "SettingField",
    "SettingTable",
    "SettingValue",
    "Settings",
    "clock_from_environment",
    "load_settings",
    "plugin_setting",
    "project_file",
    "setting_tables",
    "shown_setting",
    "user_file",
]

_MOST_BITS: Final = 62
_LONGEST_SHOWN: Final = 80

SettingValue = str | int | float | bool | None

_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
"""The values of a variable for a setting that is true or false."""


# fmt: off
_PROJECT_PROVIDERS: Final = frozenset({
    "anthropic", "azure", "cerebras", "cohere", "cohere_chat", "dashscope", "deepinfra", "deepseek", "fireworks_ai",
    "gemini", "groq", "hosted_vllm", "lm_studio", "mistral", "moonshot", "nvidia_nim", "ollama", "ollama_chat",
    "openai", "openrouter", "perplexity", "sambanova", "together_ai", "xai",
})
# fmt: on
"""The providers that the file of a project may name.

Their host is fixed, or comes from the user's environment; no part of the model's name becomes a part of it. (With some
other providers, a name can be an address, the first label of a host, or the path of a file to load.) A test checks the
host of each.
"""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}){0,3}")
_KNOWN_NAME: Final = re.compile(r"(?:gpt-|chatgpt-|o[1-9]|claude-)[A-Za-z0-9._:-]{0,100}")
"""What LiteLLM gives to OpenAI or Anthropic without a provider before it."""
_LOCAL_ADDRESS: Final = re.compile(r"https?://(\[[0-9a-f:]{2,39}\]|[0-9.]{7,15}|localhost)(?::\d{1,5})?(?:/[\w./~-]*)?")
"""Only this form: where an address has a user, a backslash or blanks, libraries differ about its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingField:
    """A setting. Its variable is `ACE_` and its name in capitals."""

    name: str
    """The name in a settings file."""
    kind: type[str] | type[int] | type[float] | type[bool]
    """What a value is."""
    help: str
    """What it does, as a sentence."""
    default: SettingValue = None
    """The value if no source sets another one."""
    least: float | None = None
    """The smallest number that is accepted."""
    above: float | None = None
    """The number that a value must be greater than."""
    most: float | None = None
    """The largest number that is accepted."""
    can_be_unset: bool = False
    """Whether an empty text overrides an earlier source with no value."""
    is_secret: bool = False
    """Whether the value is never shown."""
    choices: Sequence[str] = ()
    """The texts that a value may be; none if it may be any."""
    words: Callable[[], Sequence[str]] | None = None
    """Returns what a value is made of, with commas between them; a settings file may also have a list."""
    is_list: bool = False
    """Whether the value is a comma-separated list of texts; in a settings file, it may also be a list."""

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return f"ACE_{self.name.upper()}"

    def checked(self, value: object) -> SettingValue:
        """Return a value from a settings file or a flag. An empty text unsets a setting that can be unset.

        Args:
            value: The value.

        Raises:
            ValueError: It has another type, or is out of range. The text says what is accepted.
        """
        if self.words is not None or self.is_list:
            return self._checked_words(value, None if self.words is None else self.words())
        if self.choices and isinstance(value, str) and value.strip() not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}, got {_short(value)}")
        if self.kind is str and isinstance(value, str):
            if value.strip():
                return value.strip() if self.choices else value
            if self.can_be_unset:
                return None
            raise ValueError("must not be empty")
        if self.kind is bool and isinstance(value, bool):
            return value
        if self.kind in (int, float) and isinstance(value, int | float) and not isinstance(value, bool):
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ValueError(f"must be {self._wanted}, got one of {value.bit_length()} bits")
            if (self.kind is int and not isinstance(value, int)) or not self._is_in_range(value):
                raise ValueError(f"must be {self._wanted}, got {value:g}")
            return self.kind(value)
        shown = "" if self.is_secret else f", got {_short(value)}"
        raise ValueError(f"must be {self._wanted}{shown}")

    def _checked_words(self, value: object, known: Sequence[str] | None) -> str | None:
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
            raise ValueError(f"must be a list of words, got {_short(value)}")
        found = [word.strip() for word in given if word.strip()]
        for word in found:
            if known is not None and word not in known:
                raise ValueError(f"knows {', '.join(known)}, not {_short(word)}")
        return ",".join(found) or None

    def _is_in_range(self, value: float) -> bool:
        return (
            float("-inf") < value < float("inf")
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
        )

    def parsed(self, text: str) -> SettingValue:
        """Return the value that a variable holds.

        Args:
            text: The value of the variable.

        Raises:
            ValueError: It is none. The text says what is wanted.
        """
        if self.kind is str:
            return self.checked(text)
        if self.kind is bool:
            return self.checked(_BOOLEANS.get(text.strip().lower(), text))
        try:
            number = float(text) if self.kind is float else int(text)
        except ValueError:
            raise ValueError(f"must be {self._wanted}, got {_short(text)}") from None
        return self.checked(number)

    @property
    def _wanted(self) -> str:
        what = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}[self.kind]
        if self.least is not None and self.most is not None:
            return f"{what} from {self.least:g} to {self.most:,.0f}"
        if self.above is not None:
            return f"{what} greater than {self.above:g}" + (f" and at most {self.most:,.0f}" if self.most else "")
        return what if self.least is None else f"{what} of at least {self.least:g}"


def _short(value: object) -> str:
    """Return how a value looks in an error: a nested table can be long, and too deep to be written at all."""
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # ValueError: a number with thousands of digits
        return f"a {type(value).__name__}"
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."


def _guarded_kinds() -> Sequence[str]:
    from ace.steps.leakage_guard import guarded_kinds  # slow to import, and hardly any command is given this setting

    return guarded_kinds()


FIELDS: Final[Sequence[SettingField]] = (
    SettingField(name="model", kind=str, help="The model, in LiteLLM notation: openai/NAME, anthropic/NAME."),
    SettingField(
        name="api_base",
        kind=str,
        help="The base URL of an OpenAI-compatible server.",
        can_be_unset=True,
    ),
    SettingField(name="api_key", kind=str, help="The API key; not allowed in a project file.", is_secret=True),
    SettingField(
        name="skillbook", kind=str, help="The skillbook: .db keeps a history, .json does not.", default="skills.db"
    ),
    SettingField(
        name="max_tokens", kind=int, help="The maximum length of an answer, in tokens.", default=2048, least=1
    ),
    SettingField(name="temperature", kind=float, help="The sampling temperature.", default=0.0, least=0),
    SettingField(
        name="timeout",
        kind=float,
        help="The timeout of a model call, in seconds.",
        default=120.0,
        above=0,
        most=1_000_000,
    ),
    SettingField(
        name="epochs", kind=int, help="The number of passes over the inputs.", default=1, least=1, most=10_000
    ),
    SettingField(name="shuffle", kind=int, help="A random seed, with which the inputs are shuffled in each epoch."),
    SettingField(
        name="reflection_window",
        kind=int,
        help="How many of the most recent reflections the agent and the reflector are shown.",
        default=0,
        least=0,
        most=1000,
    ),
    SettingField(name="workers", kind=int, help="The number of inputs to process concurrently.", least=1, most=1000),
    SettingField(
        name="reflections_per_call",
        kind=int,
        help="How many reflections one request to the skill manager may be about.",
        default=1,
        least=1,
        most=16,
    ),
    SettingField(
        name="lag",
        kind=int,
        help="How many earlier inputs may not yet be learned from when an input starts; 0 makes runs reproducible.",
        least=0,
        most=1_000_000,
    ),
    SettingField(
        name="allow",
        kind=str,
        help="Classes of sensitive text that are neither redacted nor rejected.",
        words=_guarded_kinds,
    ),
    SettingField(
        name="provenance",
        kind=str,
        help="What to record about the source of a skill: full, or ids for none of its text.",
        default="full",
        choices=PROVENANCES,
    ),
    SettingField(name="max_cost", kind=float, help="The cost in USD at which a run starts no new inputs.", above=0),
    SettingField(
        name="learn_without_truth",
        kind=bool,
        help="Whether unverified answers may change skills, not only judge them.",
        default=False,
    ),
    SettingField(name="fail_fast", kind=bool, help="Whether the first input that fails stops a run.", default=False),
    SettingField(
        name="checkpoint_dir",
        kind=str,
        help="The folder for copies of the skillbook during a run.",
        can_be_unset=True,
    ),
    SettingField(
        name="checkpoint_interval",
        kind=int,
        help="The number of inputs between two copies in checkpoint_dir.",
        default=10,
        least=1,
        most=1_000_000,
    ),
    SettingField(
        name="prompts",
        kind=str,
        help="A folder of prompt templates: agent.md, reflector.md, skill_manager.md.",
        can_be_unset=True,
    ),
    SettingField(
        name="sections",
        kind=str,
        help="The sections that new skills may be in; others are moved to the nearest of them.",
        is_list=True,
    ),
    SettingField(
        name="logs", kind=str, help="The folder of the trace log, the insights and the artifacts.", default="logs"
    ),
    SettingField(
        name="artifact_skills",
        kind=int,
        help="The number of skills up to which an artifact contains the whole skillbook.",
        default=2000,
        least=0,
        most=10_000_000,
    ),
    SettingField(
        name="block",
        kind=str,
        help="A text file in which a managed block contains the skills, such as AGENTS.md.",
        can_be_unset=True,
    ),
    SettingField(
        name="max_input_mb",
        kind=float,
        help="The size of the largest file or stream that is read, in megabytes.",
        default=1000.0,
        above=0,
        most=1_000_000,
    ),
)


_NOT_OF_RUNS: Final = frozenset(
    {"model", "api_base", "api_key", "skillbook", "max_tokens", "temperature", "timeout", "max_input_mb", "logs"}
    | {"block"}
)
"""The settings that the table `learning` of a file does not take."""


class _FileValue(NamedTuple):
    """A value and the line that sets it."""

    value: SettingValue
    line: int


def _read_settings_file(path: Path) -> Mapping[str, _FileValue]:
    """Return the values of a settings file by name.

    Args:
        path: A file in TOML or YAML; the settings of a run may be in its table `learning`.

    Raises:
        UsageError: It cannot be read, or holds an unknown name or a value of the wrong type.
    """
    known = {field.name: field for field in FIELDS}
    of_runs = {field.name: field for field in FIELDS if field.name not in _NOT_OF_RUNS}
    values: dict[str, _FileValue] = {}
    for name, value, line, table, table_line in entries_in(path):
        if table and table != LEARNING_TABLE:
            _check_is_of_plugin(path, table_line, table, known)
            continue
        accepted = of_runs if table else known
        shown = name[:LONGEST_NAME]
        if name not in accepted:
            where = f" in [{LEARNING_TABLE}]" if table else ""
            raise UsageError(f"{path}, line {line}: no such setting{where}: {shown!r}{_suggestion(shown, accepted)}")
        if name in values:
            raise UsageError(f"{path}, line {line}: the setting {name!r} is already in line {values[name].line}")
        try:
            values[name] = _FileValue(known[name].checked(value), line)
        except ValueError as error:
            raise UsageError(f"{path}, line {line}: the setting {name!r} {error}") from error
    return values


def _check_is_of_plugin(path: Path, line: int, table: str, known: Mapping[str, object]) -> None:
    """Reject a table that cannot belong to a plugin. The plugin need not be installed, because projects are shared."""
    from ace.arguments import closest_name  # only needed for a file with such a table
    from ace.cli.command_table import built_in_names

    shown = table[:LONGEST_NAME]
    if table in known:
        raise UsageError(f"{path}, line {line}: the setting {shown!r} must be a value, not a table")
    if closest_name(table, [LEARNING_TABLE]) is not None or table in built_in_names():
        raise UsageError(
            f"{path}, line {line}: no such setting: {shown!r}; the settings of a run are in [{LEARNING_TABLE}]"
        )


class SettingTable(NamedTuple):
    """The table of a plugin in one settings file."""

    path: Path
    values: Mapping[str, object]
    lines: Mapping[str, int]
    """The line of each value."""
    is_project: bool
    """Whether it is the file of a project, which may not be trusted."""


def setting_tables(
    name: str, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Sequence[SettingTable]:
    """Return the tables of a plugin in the settings files, in order; later ones override earlier ones.

    Args:
        name: The name of the plugin.
        environ: The environment; by default that of the process.
        folder: The folder in which the command runs; by default the current one.

    Raises:
        UsageError: A file cannot be read.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "ace.toml").write_text("[acme]\\ndepth = 2\\n", encoding="utf-8")
        ...     [table.values for table in setting_tables("acme", environ={"HOME": folder}, folder=Path(folder))]
        [{'depth': 2}]
    """
    variables = os.environ if environ is None else environ
    user, project = user_file(variables), project_file(Path.cwd() if folder is None else folder)
    files = [(user, False)] * user.is_file() + ([] if project is None else [(project, True)])
    tables = []
    for path, is_project in files:
        entries = [entry for entry in entries_in(path) if entry.table == name]
        values = {entry.name: entry.value for entry in entries}
        tables.append(SettingTable(path, values, {entry.name: entry.line for entry in entries}, is_project))
    return [table for table in tables if table.values]


def _suggestion(name: str, known: Mapping[str, object]) -> str:
    from ace.arguments import closest_name  # only needed for an error

    near = closest_name(name, known)
    return f"; did you mean {near!r}?" if near else f"; there are {', '.join(known)}"


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's settings, which may not exist.

    Args:
        environ: The environment.

    Example:
        >>> user_file({"XDG_CONFIG_HOME": "/home/ann/settings"}).as_posix()
        '/home/ann/settings/ace/config.toml'
    """
    folder = environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says that a relative path is to be ignored.
    home = Path(folder) if Path(folder).is_absolute() else _home(environ) / ".config"
    return home / "ace" / "config.toml"


def project_file(folder: Path) -> Path | None:
    """Return the `ace.toml` of the project, or None.

    It is looked for in the folder, and above it only inside a git repository: a file that a stranger put into a
    shared folder above must not steer a run.

    Args:
        folder: The folder in which the command runs.
    """
    folder = folder.resolve()
    above = [folder, *folder.parents]
    root = next((place for place, parent in enumerate(above) if (parent / ".git").exists()), 0)
    return next((parent / "ace.toml" for parent in above[: root + 1] if (parent / "ace.toml").is_file()), None)


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return Path(home) if home else Path.home()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one command, and the source of each."""

    model: str | None
    """The model string; None leaves the choice to the key-free default."""
    api_base: str | None
    """The base URL of an OpenAI-compatible server."""
    api_key: str | None = field(repr=False)
    """The API key; None reads it from the environment variable of the provider."""
    skillbook: str
    """The path of the skillbook, or `scheme://...`."""
    max_tokens: int
    """The maximum length of an answer, in tokens."""
    temperature: float
    """The sampling temperature."""
    timeout: float
    """The timeout of a model call, in seconds."""
    epochs: int
    """The number of passes over the inputs."""
    shuffle: int | None
    """The seed with which the inputs are shuffled in each epoch; None keeps their order."""
    reflection_window: int
    """How many of the most recent reflections the agent and the reflector are shown."""
    workers: int | None
    """The number of inputs to process concurrently; None is the default of the runner."""
    lag: int | None
    """How many earlier inputs may not yet be learned from when an input starts; None is the default of the runner."""
    max_input_mb: float
    """The maximum size of a file or stream, in megabytes."""
    max_cost: float | None
    """The cost in USD at which a run starts no new inputs."""
    fail_fast: bool
    """Whether the first input that fails stops a run."""
    learn_without_truth: bool
    """Whether unverified answers may change skills, not only judge them."""
    checkpoint_dir: str | None
    """The folder for copies of the skillbook during a run; None for no copies."""
    checkpoint_interval: int
    """The number of inputs between two copies."""
    prompts: str | None
    """The folder of prompt templates; None for the built-in ones."""
    allow: str | None
    """The classes of sensitive text that are not redacted, separated by commas; None for none."""
    provenance: Provenance
    """What to record about the source of a skill: full, or ids for none of its text."""
    sections: str | None
    """The sections that new skills may be in, separated by commas; None for any."""
    logs: str
    """The folder of the trace log, the insights and the artifacts."""
    artifact_skills: int
    """The number of skills up to which an artifact contains the whole skillbook."""
    block: str | None
    """The text file with a managed block of the skills; None for none."""
    reflections_per_call: int
    """How many reflections one request to the skill manager may be about."""
    origins: Mapping[str, str]
    """The source of each value, as text, by name."""

    @property
    def max_input_bytes(self) -> int:
        """The maximum size of a file or stream, in bytes."""
        return int(self.max_input_mb * 1_000_000)

    @property
    def trace_log(self) -> Path:
        """The file of the trace log."""
        return Path(self.logs) / "execution_traces.jsonl"

    @property
    def section_names(self) -> list[str]:
        """The names in `sections`."""
        return [] if self.sections is None else self.sections.split(",")

    @property
    def insights(self) -> Path:
        """The file of the insights."""
        return Path(self.logs) / "insights.jsonl"

    @property
    def artifacts(self) -> Path:
        """The folder of the artifacts."""
        return Path(self.logs) / "artifacts"

    @property
    def allowed(self) -> list[GuardedKind]:
        """The words of `allow`."""
        words: list[Any] = [] if self.allow is None else self.allow.split(",")  # each was checked against its field
        return words


def load_settings(
    flags: Mapping[str, SettingValue],
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Merge the settings: defaults < user file < project file < `--config` < environment < flags.

    Args:
        flags: The values of the flags by name; None where a flag was not given.
        config: The file of `--config`. It is trusted like the flags, since the user has named it.
        environ: The environment; by default that of the process.
        folder: The folder in which the command runs; by default the current one.

    Raises:
        UsageError: A source holds an unknown name or a value that is out of range.
    """
    variables = os.environ if environ is None else environ
    values: dict[str, SettingValue] = {field.name: field.default for field in FIELDS}
    origins = dict.fromkeys(values, "default")
    user = user_file(variables)
    if user.is_file():
        _take_file(user, _read_settings_file(user), values, origins)
    project = project_file(Path.cwd() if folder is None else folder)
    if project is not None:
        _take_file(project, _trusted(project, _read_settings_file(project)), values, origins)
    if config is not None:
        _take_file(config, _read_settings_file(config), values, origins)
    for setting in FIELDS:
        if variables.get(setting.variable):
            values[setting.name] = _from_variable(setting, variables[setting.variable])
            origins[setting.name] = f"variable {setting.variable}"
        if flags.get(setting.name) is not None:
            values[setting.name] = _from_flag(setting, flags[setting.name])
            origins[setting.name] = f"flag {_flag(setting)}"
    found: dict[str, Any] = {**values, "origins": origins}  # each value was checked against its field
    return Settings(**found)


class PluginSetting(NamedTuple):
    """A setting of a plugin."""

    value: str
    """Its value."""
    origin: str
    """Where it comes from."""


def plugin_setting(
    plugin: str, name: str, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> PluginSetting | None:
    """Return a setting of a plugin, or None if it is not set: user file < project file < environment.

    Args:
        plugin: The name of the plugin, which is also the name of the table.
        name: The name of the setting. Its variable is `ACE_`, the name of the plugin, `_` and this name, in capitals.
        environ: The environment; by default that of the process.
        folder: The folder in which the command runs; by default the current one.

    Raises:
        UsageError: A file cannot be read, or the value is not a text.

    Example:
        >>> plugin_setting("beads", "test", environ={"ACE_BEADS_TEST": "pytest -q"})
        PluginSetting(value='pytest -q', origin='variable ACE_BEADS_TEST')
    """
    variables = os.environ if environ is None else environ
    variable = f"ACE_{plugin}_{name}".upper()
    if variables.get(variable, "").strip():
        return PluginSetting(variables[variable], f"variable {variable}")
    for table in reversed(setting_tables(plugin, environ=variables, folder=folder)):
        if name in table.values:
            value, origin = table.values[name], f"{table.path}, line {table.lines[name]}"
            if not isinstance(value, str) or not value.strip():
                raise UsageError(f"{origin}: the setting {name!r} in [{plugin}] must be a text, got {_short(value)}")
            return PluginSetting(value, origin)
    return None


def shown_setting(field: SettingField, settings: Settings) -> SettingValue:
    """Return the value of a setting as it may be shown: without keys, and without passwords in locations.

    Args:
        field: The setting.
        settings: The settings.
    """
    from ace.calls.secrets import HIDDEN, redact
    from ace.skillbook.locations import shown_location

    value: SettingValue = getattr(settings, field.name)
    if not isinstance(value, str):
        return value
    return HIDDEN if field.is_secret else redact(shown_location(value))


def _take_file(
    path: Path, entries: Mapping[str, _FileValue], values: dict[str, SettingValue], origins: dict[str, str]
) -> None:
    from ace.skillbook.locations import has_scheme

    for name, (value, line) in entries.items():
        values[name] = value
        if (
            name in ("skillbook", "checkpoint_dir", "logs", "block", "prompts")
            and isinstance(value, str)
            and not has_scheme(value)
        ):
            values[name] = str(path.parent / Path(value).expanduser())
        origins[name] = f"{path}, line {line}"


def _trusted(path: Path, entries: Mapping[str, _FileValue]) -> Mapping[str, _FileValue]:
    """Reject settings with which a cloned project could steal the user's key or traces."""
    refusals: dict[str, Callable[[str], str | None]] = {
        "api_key": _problem_with_key,
        "api_base": _problem_with_address,
        "model": _problem_with_model,
        "skillbook": _problem_with_skillbook,
        "allow": _problem_with_allowed,
        "provenance": _problem_with_provenance,
        "checkpoint_dir": partial(_problem_with_folder, "checkpoint_dir", path.parent),
        "logs": partial(_problem_with_folder, "logs", path.parent),
        "block": partial(_problem_with_folder, "block", path.parent, what="file"),
        "prompts": partial(_problem_with_prompts, path.parent),
    }
    for name, problem_with in refusals.items():
        if name not in entries:
            continue
        value, line = entries[name]
        if value is not None and (problem := problem_with(str(value))):
            raise UsageError(
                f"{path}, line {line}: {problem}; put {name!r} into your own settings file ('ace config' shows "
                f"where it is) or the variable ACE_{name.upper()}{_or_flag(name)}"
            )
    return entries


def _or_flag(name: str) -> str:
    """Return the option as a third place; a key has none, because other users could see it in the list of processes."""
    return "" if name == "api_key" else f", or give --{name.replace('_', '-')}"


def _problem_with_key(_key: str) -> str:
    return "a key does not belong in the file of a project"


def _problem_with_address(address: str) -> str | None:
    if _is_this_machine(address):
        return None
    return "'api_base' in the file of a project may only name this machine, since your key and your traces go there"


def _problem_with_skillbook(location: str) -> str | None:
    from ace.skillbook.locations import has_scheme

    if not has_scheme(location):
        return None
    return "'skillbook' in the file of a project may only name a file, since questions from your traces go there"


def _problem_with_folder(name: str, project: Path, folder: str, what: str = "folder") -> str | None:
    if (project / folder).resolve().is_relative_to(project.resolve()):
        return None
    return f"{name!r} in the file of a project must be a {what} inside the project, since files are written there"


def _problem_with_prompts(project: Path, folder: str) -> str | None:
    if (project / folder).resolve().is_relative_to(project.resolve()):
        return None
    return "'prompts' in the file of a project must be a folder inside the project, since its contents are sent"


def _problem_with_allowed(words: str) -> str | None:
    private = [word for word in words.split(",") if not word.startswith("copied_")]
    if not private:
        return None
    return f"'allow' in the file of a project may not contain {private[0]!r}, since your own data would be sent"


def _problem_with_provenance(provenance: str) -> str | None:
    if provenance == "ids":
        return None
    return (
        f"'provenance' in the file of a project may not be {provenance!r}, since it would keep texts that your own "
        "settings may not allow"
    )


def _problem_with_model(model: str) -> str | None:
    """Return the reason why a project may not name this model, or None.

    It goes by what is known to be safe: plugins and LiteLLM read addresses and paths out of model strings in more ways
    than anyone can list.
    """
    provider, slash, name = model.partition("/")
    if not slash:
        is_safe = _KNOWN_NAME.fullmatch(model) is not None
    elif provider == "local":
        from ace.providers.local.catalogue import CATALOGUE

        is_safe = any(name == field.name for field in CATALOGUE)
    else:
        is_safe = provider in _PROJECT_PROVIDERS and _PLAIN_NAME.fullmatch(name) is not None
    if is_safe:
        return None
    return (
        f"'model' in the file of a project may only be a hosted model such as openai/NAME or anthropic/NAME, or one of "
        f"'ace models list', since your traces go there; {model!r} may hold an address or a path"
    )


def _is_this_machine(address: str) -> bool:
    found = _LOCAL_ADDRESS.fullmatch(address)
    if found is None:
        return False
    try:
        return found[1] == "localhost" or ipaddress.ip_address(found[1].strip("[]")).is_loopback
    except ValueError:
        return False


def _from_variable(setting: SettingField, text: str) -> SettingValue:
    try:
        return setting.parsed(text)
    except ValueError as error:
        raise UsageError(f"the variable {setting.variable} {error}") from error


def _from_flag(setting: SettingField, value: SettingValue) -> SettingValue:
    try:
        return setting.checked(value)
    except ValueError as error:
        raise UsageError(f"the option {_flag(setting)} {error}") from error


def _flag(setting: SettingField) -> str:
    return f"--{setting.name.replace('_', '-')}"


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
