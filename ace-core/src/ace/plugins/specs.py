"""The specs that hooks yield: they describe what a plugin provides by names, without importing any framework."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "CommandSpec",
    "EmbedderSpec",
    "ExecuteStepSpec",
    "ExtraStepsSpec",
    "LLMClientSpec",
    "LogReaderSpec",
    "ObserverOption",
    "ObserverSpec",
    "RunnerSpec",
    "SkillbooksSpec",
    "Spec",
    "StoreSpec",
    "TraceConverterSpec",
]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_SUFFIX: Final = re.compile(r"\.[^/\\.A-Z]+")
_TARGET: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_REFERENCES: Final = ("target", "produces", "accepts", "recognises")
"""The fields, of any spec, that name an object as `package.module:attribute`."""
_TUPLES: Final = ("requires", "schemes", "suffixes")
"""The fields, of any spec, that are tuples of strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The common fields of all specs.

    Raises:
        ValueError: A name, a target, a class or a requirement has the wrong format.

    Example:
        >>> RunnerSpec(name="acme", target="ace_acme.runner")
        Traceback (most recent call last):
        ...
        ValueError: RunnerSpec 'acme': target must be written as 'package.module:attribute', got 'ace_acme.runner'
    """

    name: str
    """The name of the plugin, which is that of its entry point: `[a-z][a-z0-9_]*`."""
    target: str
    """The object that is provided, as `package.module:attribute`. It is imported on first use."""
    summary: str = ""
    """A description of one line, for lists and help."""
    requires: tuple[str, ...] = ()
    """The distributions that the target requires, as PEP 508 requirements. They are checked before it is imported."""

    def __post_init__(self) -> None:
        if not _is_written(_NAME, self.name):
            raise ValueError(f"{type(self).__name__}: name must match [a-z][a-z0-9_]*, got {self.name!r}")
        for name in _REFERENCES:
            reference = getattr(self, name, None)
            if reference is not None and not _is_written(_TARGET, reference):
                raise self._wrong(name, "written as 'package.module:attribute'", reference)
        for name in _TUPLES:
            self._check_texts(name, getattr(self, name, ()))
        for requirement in self.requires:
            self._check_requirement(requirement)

    @property
    def references(self) -> tuple[str, ...]:
        """Everything that it names, the target first."""
        found = (getattr(self, name, None) for name in _REFERENCES)
        return tuple(dict.fromkeys(reference for reference in found if reference is not None))

    def _check_texts(self, field: str, texts: object) -> None:
        if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
            raise self._wrong(field, "a tuple of strings", texts)

    def _check_requirement(self, requirement: str) -> None:
        # Imported here, because every hook module imports this one and most specs have no requirements.
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            Requirement(requirement)
        except InvalidRequirement as error:
            raise self._wrong("a requirement", "written as in PEP 508", requirement) from error

    def _wrong(self, field: str, form: str, value: object) -> ValueError:
        return ValueError(f"{type(self).__name__} {self.name!r}: {field} must be {form}, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecuteStepSpec(Spec):
    """A step that runs a framework: it injects the skills and puts the result on `ctx.trace`."""

    produces: str | None = None
    """The class of the result, as `package.module:Class`."""
    is_async: bool = False
    """Whether the step is called asynchronously."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceConverterSpec(Spec):
    """A step without arguments that converts a framework's result, or a record in memory, to a standard trace dict."""

    accepts: str | None = None
    """The class of the result, as `package.module:Class`. Its instances are always converted by this plugin."""
    recognises: str | None = None
    """A function, as `package.module:function`, which must not import the framework. It is called with a record in
    memory, of any type, and returns a score from 0 (not supported) to 1 (certain). The plugin with the highest score is
    used. Logs in files are the task of a `LogReaderSpec`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReaderSpec(Spec):
    """A reader of the logs of one tool, as a class without arguments that implements `ace.logs.LogReader`.

    Its `name` is that of the plugin. It must not import the framework, which need not be where its logs are read.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSpec(Spec):
    """A runner class. For a plugin with both steps but without a runner, one is composed from the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraStepsSpec(Spec):
    """Steps that `ACELiteLLM.from_model(model, acme=True, acme_depth=2)` appends to those that learn.

    If the argument with the name of the plugin is true, the target is called with the arguments that begin with this
    name and an underscore, without that prefix: `target(depth=2)`. It returns a list of steps.
    """

    options: tuple[str, ...] = ()
    """The names of these arguments, without the prefix: `("depth",)`."""

    def __post_init__(self) -> None:
        Spec.__post_init__(self)
        self._check_texts("options", self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMClientSpec(Spec):
    """A client of a language model, selected by model strings of the form `name/...`.

    The target is called with the rest of the model string and with settings such as `max_tokens`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec(Spec):
    """A subcommand of `ace`: a typed function or a cyclopts `App`. Underscores in its name become hyphens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverOption:
    """An option of every `ace` command, which sets an environment variable for the observer of a plugin.

    `--acme-depth` sets `ACE_ACME_DEPTH` to `1`, or to the value that follows it.

    Example:
        >>> ObserverOption(name="acme-depth", summary="How much to report", values=("all", "some")).variable
        'ACE_ACME_DEPTH'
    """

    name: str
    """Its name without hyphens at the beginning: the name of the plugin, or that name and `-more`."""
    summary: str
    """A description of one line."""
    values: tuple[str, ...] = ()
    """The values that may follow it."""
    required_variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For values that need them, the names of environment variables. If one is not set, no command is started."""

    @property
    def variable(self) -> str:
        """The environment variable that the option sets."""
        return f"ACE_{self.name.upper().replace('-', '_')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverSpec(Spec):
    """A callable that receives the events of runs, samples, steps, model calls and skills."""

    options: tuple[ObserverOption, ...] = ()
    """The options of `ace` that are for the observer. The first one enables it: the observer is called only if the
    variable of this option is set to something other than `0`, by the option or by the user. Without options, it is
    always called."""

    def __post_init__(self) -> None:
        Spec.__post_init__(self)
        shown = self.name.replace("_", "-")
        for option in self.options:
            if option.name != shown and not option.name.startswith(f"{shown}-"):
                raise self._wrong("the name of an option", f"{shown!r}, or begin with '{shown}-'", option.name)

    def is_enabled(self, environ: Mapping[str, str]) -> bool:
        """Return whether the observer is called.

        Args:
            environ: The environment variables.
        """
        return not self.options or environ.get(self.options[0].variable, "") not in ("", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSpec(Spec):
    """A store of skillbooks. The target is called with the location."""

    schemes: tuple[str, ...] = ()
    """The URL schemes of the store's locations: `("acme",)` for `acme://...`."""
    suffixes: tuple[str, ...] = ()
    """The suffixes of the store's files, such as `(".acme",)`."""

    def __post_init__(self) -> None:
        Spec.__post_init__(self)
        for scheme in self.schemes:
            if not _is_written(_SCHEME, scheme):
                raise self._wrong("a scheme", "in lower case, such as 'acme'", scheme)
        for suffix in self.suffixes:
            if not _is_written(_SUFFIX, suffix):
                raise self._wrong("a suffix", "in lower case, such as '.acme'", suffix)
        if not self.schemes and not self.suffixes:
            raise ValueError(
                f"StoreSpec {self.name!r}: schemes or suffixes must be given, otherwise the store cannot be opened"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillbooksSpec(Spec):
    """The skillbooks that a plugin keeps for the folders of projects, which `ace review` shows there.

    The target is a function that is called with a folder and returns `ace.plugins.KeptSkillbook` objects.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSpec(Spec):
    """An embedding model, selected with `embedding_provider=name`.

    The target is called with the name of the embedding model, or None for its default.
    """


def _is_written(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
