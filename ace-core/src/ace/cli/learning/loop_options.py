"""The options of `ace learn` that decide what is learned from a trace: the mode, the confidence, gates and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from ace.cli.errors import UsageError
from ace.cli.inputs import STANDARD_INPUT, task_ids
from ace.cli.learning.validated_run import ValidationOptions
from ace.cli.options import TASK_OPTION

if TYPE_CHECKING:
    from ace.cli.learning.learning_command import RunFlags
    from ace.cli.settings import Settings
    from ace.cli.skillbooks.opened_book import SkillbookPlace

__all__ = ["GateName", "LoopChoice", "LoopFlags"]

GateName = Literal["cases", "counters", "score", "auto"]
"""`auto` means `cases`, or `counters` if the book has no cases."""

_GATES: Final[Sequence[GateName]] = ("counters", "cases", "score", "auto")
"""Those that ask no model come first."""
_NONE: Final = "none"
_MOST_CHANGES: Final = 3
_CONFIDENCE: Final = 0.8
_OFFLINE_EPOCHS: Final = 3


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LoopFlags:
    """Options of learning from tasks."""

    task: Annotated[list[str], Parameter(name=TASK_OPTION, negative="", group="Tasks")] = field(default_factory=list)
    """Learn only from the attempts at these tasks in a trace log; separate ids by commas, or repeat the option."""
    mode: Annotated[Literal["online", "offline"] | None, Parameter(show=False, group="Tasks")] = None
    """online learns from each attempt once, in the order of the log. offline learns in 3 epochs with the tasks in
    random order; after each, it removes skills with a net score below -3, and it stops after an epoch that changes no
    skill. [default with --task: online]"""
    watch: Annotated[bool, Parameter(negative="", show_default=False, group="Tasks")] = False
    """Follow the trace log, and learn from new attempts until Ctrl-C. Each attempt is learned once, even after a
    restart."""
    use_legacy: Annotated[bool, Parameter(negative="", show_default=False, show=False, group="Learning")] = False
    """Learn from every insight, without a gate; the same as --min-confidence 0 --gate none."""

    def checked(
        self,
        paths: Sequence[str],
        settings: Settings,
        place: SkillbookPlace,
        run: RunFlags,
        validation: ValidationOptions,
    ) -> LoopChoice:
        """Return the validated options, with the defaults.

        Args:
            paths: The inputs.
            settings: The settings of the command line.
            place: The skillbook that learns.
            run: The options of the run.
            validation: The options of the validation.

        Raises:
            UsageError: The options contradict each other, or the skillbook does not support them.
        """
        is_given = settings.origins["min_confidence"] != "default"
        confidence = settings.learning.min_confidence if is_given else None
        if self.use_legacy and (confidence or settings.gate not in (None, _NONE)):
            raise UsageError("--use-legacy means --min-confidence 0 --gate none; omit it, or the other option")
        if self.watch:
            self._check_watch(paths, settings, run, validation)
        is_loop = bool(self.task or self.mode or self.watch)
        gates = self._gates(settings.gate, place, is_loop=is_loop, validates=bool(validation.validate))
        if confidence is None:
            confidence = _CONFIDENCE if is_loop and not self.use_legacy else 0.0
        return LoopChoice(
            tasks=task_ids(self.task),
            is_loop=is_loop,
            is_offline=self.mode == "offline",
            is_watching=self.watch,
            min_confidence=confidence,
            max_operations=settings.learning.max_operations or (_MOST_CHANGES if is_loop else None),
            gates=gates,
            has_insights=(is_loop or bool(confidence)) and not self.use_legacy,
            block=None if settings.block is None else Path(settings.block),
        )

    def _check_watch(
        self, paths: Sequence[str], settings: Settings, run: RunFlags, validation: ValidationOptions
    ) -> None:
        if self.mode == "offline":
            raise UsageError("--watch follows a growing log, and --mode offline needs a complete one; omit one of them")
        if run.resume or run.give_up:
            raise UsageError("--watch always resumes where it was stopped; omit --resume and --give-up")
        if STANDARD_INPUT in paths:
            raise UsageError("--watch needs a file that grows, not standard input; give the path of a trace log")
        if len(paths) > 1:
            raise UsageError(f"--watch takes one trace log, got {len(paths)} paths")
        if validation.validate:
            raise UsageError("--watch has no end at which to validate; omit --validate, or --watch")
        if run.dry_run or settings.limit is not None or run.results is not None:
            raise UsageError("--watch cannot be combined with --dry-run, --limit or --results")
        if settings.epochs > 1 or settings.run.shuffle is not None:
            raise UsageError("--watch learns from each attempt once, in the order of the log; omit --epochs, --shuffle")

    def _gates(
        self, gate: str | None, place: SkillbookPlace, *, is_loop: bool, validates: bool
    ) -> tuple[GateName, ...]:
        """Return the gates in the order in which they are asked."""
        listed = _NONE if self.use_legacy else gate
        default = (*(("auto",) if is_loop else ()), *(("score",) if validates else ()))
        names = [name.strip() for name in listed.split(",")] if listed is not None else list(default)
        unknown = [name for name in names if name not in (*_GATES, _NONE)]
        if unknown:
            raise UsageError(f"--gate takes counters, cases, score, auto or none, not {unknown[0]!r}")
        if _NONE in names and len(names) > 1:
            raise UsageError("--gate none cannot be combined with another gate")
        if "score" in names and not validates:
            raise UsageError("--gate score needs samples to validate on: give --validate FILE")
        wants_gate = any(name != _NONE for name in names)
        if (wants_gate or self.watch) and not place.keeps_history:
            why = "--watch" if self.watch else f"--gate {listed}" if listed else "the gate of --task and --mode"
            other = "" if self.watch else ", or --gate none"
            raise UsageError(
                f"{why} needs a skillbook with a history, and {place.name!r} has none; "
                f"give a skillbook that ends in .db{other}"
            )
        return tuple(gate for gate in _GATES if gate in names)


@dataclass(frozen=True, kw_only=True)
class LoopChoice:
    """What `LoopFlags` mean, with the defaults."""

    tasks: Sequence[str] = ()
    """The ids of the tasks; all if it is empty."""
    is_loop: bool = False
    """Whether attempts at tasks are learned one after the other."""
    is_offline: bool = False
    is_watching: bool = False
    min_confidence: float = 0.0
    """The confidence from which insights are learned, from 0 to 1."""
    max_operations: int | None = None
    """How many changes from one trace are applied."""
    gates: Sequence[GateName] = ()
    """The gates, in the order in which they are asked."""
    has_insights: bool = False
    """Whether insights, and the folders about accepted versions, are written."""
    block: Path | None = None
    """The file with a managed block of the skills."""

    def settings(self, settings: Settings) -> Settings:
        """Return the settings with the defaults of the mode.

        Args:
            settings: The settings of the command line.
        """
        if not self.is_offline:
            return settings
        epochs = _OFFLINE_EPOCHS if settings.origins["epochs"] == "default" else settings.epochs
        return replace(settings, epochs=epochs, run=replace(settings.run, shuffle=settings.run.shuffle or 0))
