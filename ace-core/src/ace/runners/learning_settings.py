"""The settings of all learning runners, and the steps that result from them."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ace._internal.arguments import (
    check_keywords,
    checked_class,
    file_path,
    instance_of,
    sequence_of_steps,
    shown,
    whole_number,
    with_method,
)
from ace._internal.options import ProjectRule, learning_option, option
from ace.context import ACEStepContext
from ace.pipeline import Branch, Pipeline, StepProtocol
from ace.protocols.llm import find_model_prefix
from ace.skillbook import Skillbook
from ace.steps.tail_settings import TailSettings

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.pipeline import PipelineHook, StepProtocol
    from ace.proof.leakage_guard import GuardedKind
    from ace.protocols.deduplication import DeduplicationConfig, DeduplicationManagerLike
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import AgentLike, ReflectorLike, Retrieval, SkillManagerLike

__all__ = [
    "CLIENT_SETTINGS",
    "LearningSettings",
    "check_books",
    "client_and_options",
    "client_from_model",
    "client_settings",
    "learning_client",
    "rebound",
    "rebound_steps",
    "recomposed",
    "with_save_path",
]


def _guarded_kinds() -> Sequence[str]:
    from ace.proof.leakage_guard import guarded_kinds

    return guarded_kinds()


def _allowed_in_project(name: str, words: str, _project: Path) -> str | None:
    private = [word for word in words.split(",") if not word.startswith("copied_")]
    if not private:
        return None
    return f"{name!r} in the file of a project may not contain {private[0]!r}, since your own data would be sent"


@checked_class
@dataclass(frozen=True, kw_only=True)
class LearningSettings(TailSettings):
    """The settings of learning that all runners share.

    Raises:
        TypeError: The skillbook, a path or the settings of deduplication have the wrong type.
        ValueError: Two settings exclude each other, one is invalid, or the path is not one for a skillbook.

    Example:
        >>> from ace import Skillbook
        >>> LearningSettings(skillbook=Skillbook(), skillbook_path="skills.json")
        Traceback (most recent call last):
        ...
        ValueError: pass skillbook or skillbook_path, not both
    """

    skillbook: Skillbook | None = option(None, "The book that learns; by default a new one.", python_only=True)
    skillbook_path: str | Path | None = option(
        None,
        "Its file: `.db` is a store with history, as is a location of a plugin, such as `acme://team/skills`; a "
        "`.json` file is loaded if it exists, and saved.",
        python_only=True,
    )
    dedup_config: DeduplicationConfig | None = option(
        None, "The settings of a manager that merges duplicate skills, to create.", python_only=True
    )
    extra_steps: Sequence[StepProtocol[ACEStepContext]] | None = option(
        None, "Further steps, which come last.", python_only=True
    )
    allow: Collection[GuardedKind] = learning_option(
        (),
        "Turn off a safeguard: allow personal data (or one class of it), secrets, or copies of the correct answer or "
        "of a prompt, which are otherwise redacted or rejected.",
        details="See `LeakageGuard`.",
        group="Safeguards",
        words=_guarded_kinds,
        project=ProjectRule("only copies of the correct answer or of a prompt", _allowed_in_project),
    )
    proof_agent: AgentLike | None = option(
        None,
        "The agent that is asked to prove skills; by default that of the run, or one over the client of the roles.",
        python_only=True,
    )
    hooks: Sequence[PipelineHook] | None = option(None, "Observers of the foreground steps.", python_only=True)
    background_limit: int = option(
        1000,
        "How many samples may be behind the boundary at once, see `Pipeline`.",
        python_only=True,
    )
    failures_path: str | Path | None = option(
        None,
        "The file of the failed samples; by default `failures.jsonl` in `checkpoint_dir`, or else next to the file of "
        "the skillbook.",
        python_only=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.skillbook is not None or self.skillbook_path is not None:
            self._check_book()
        if self.failures_path is not None:
            file_path("failures_path", self.failures_path)
        if self.extra_steps is not None:
            sequence_of_steps("extra_steps", self.extra_steps)
        if self.dedup_config is not None:
            from ace.protocols.deduplication import DeduplicationConfig

            instance_of("dedup_config", self.dedup_config, DeduplicationConfig)
        if self.proof_agent is not None:
            with_method("proof_agent", self.proof_agent, "generate")
        whole_number("background_limit", self.background_limit, of="samples")
        if self.dedup_manager is not None and self.dedup_config is not None:
            raise ValueError("pass dedup_manager or dedup_config, not both")

    def _check_book(self) -> None:
        from ace.skillbook.book import TEXT_SUFFIXES, Skillbook

        if self.skillbook is not None:
            instance_of("skillbook", self.skillbook, Skillbook, advice="give the path of one as skillbook_path")
        if self.skillbook_path is not None:
            file_path("skillbook_path", self.skillbook_path, advice="give a Skillbook as skillbook")
        if self.skillbook is not None and self.skillbook_path is not None:
            raise ValueError("pass skillbook or skillbook_path, not both")
        if self.skillbook_path is not None and Path(self.skillbook_path).suffix.lower() in TEXT_SUFFIXES:
            raise ValueError(
                f"{self.skillbook_path}: a run saves its skillbook as .json or .db; "
                "load a text with Skillbook.load_from_file and pass it as skillbook"
            )

    def book(self) -> Skillbook:
        """Return the given book, the one in the file, or a new one."""
        from ace.skillbook import Skillbook

        if self.skillbook is not None:
            return self.skillbook
        return Skillbook() if self.skillbook_path is None else Skillbook.open(self.skillbook_path)

    def tail(
        self,
        reflector: ReflectorLike,
        skill_manager: SkillManagerLike,
        skillbook: Skillbook,
        *,
        agent: AgentLike | None = None,
        environment: TaskEnvironment | None = None,
        retrieval: Retrieval | None = None,
    ) -> list[StepProtocol[ACEStepContext]]:
        """Return the steps that learn, with those that save and those of the caller.

        Args:
            reflector: Determines what can be learned from a trace.
            skill_manager: Converts that to operations on the skillbook.
            skillbook: The book that learns.
            agent: The agent of the run, if there is one.
            environment: Judges its answers; optional.
            retrieval: Chooses the skills that it sees; optional.

        Raises:
            TypeError: A role lacks the method that it needs.
            ValueError: Skills are to be proven, but no agent is given.
        """
        with_method("reflector", reflector, "reflect")
        with_method("skill_manager", skill_manager, "update_skills")
        from ace.proof.leakage_guard import LeakageGuard
        from ace.skillbook.stores import find_store
        from ace.steps.checkpoint import SaveSkillbookStep
        from ace.steps.tail import tail_steps

        steps = tail_steps(
            reflector,
            skill_manager,
            skillbook,
            replace(self, dedup_manager=self._manager(skill_manager), dedup_config=None),
            guard=LeakageGuard(self.allow),
            agent=agent if self.proof_agent is None else self.proof_agent,
            environment=environment,
            retrieval=retrieval,
        )
        path = self.skillbook_path
        if path is not None and find_store(path) is None:
            steps.append(SaveSkillbookStep(path, skillbook))
        return [*steps, *(self.extra_steps or ())]

    def failures_file(self) -> Path | None:
        """Return the file for failed samples; None if no file or directory is known for it."""
        from ace.skillbook.locations import has_scheme

        if self.failures_path is not None:
            return Path(self.failures_path)
        if self.checkpoint_dir is not None:
            return Path(self.checkpoint_dir) / "failures.jsonl"
        if self.skillbook_path is None or has_scheme(self.skillbook_path):
            return None
        return Path(self.skillbook_path).with_name("failures.jsonl")

    def moved(self, old: Skillbook, new: Skillbook, path: str | Path) -> LearningSettings:
        """Return the settings for another book; extra steps that changed the old one change the new one.

        Args:
            old: The book so far.
            new: The other book.
            path: Its file.
        """
        steps = rebound_steps(self.extra_steps or (), old, new)
        if self.skillbook_path is None:
            return replace(self, skillbook=new, extra_steps=steps)
        return replace(self, skillbook_path=path, extra_steps=steps)

    def _manager(self, skill_manager: SkillManagerLike) -> DeduplicationManagerLike | None:
        if self.dedup_config is None:
            return self.dedup_manager
        if not self.dedup_config.enabled:
            return None
        from ace.deduplication import DeduplicationManager

        return DeduplicationManager(self.dedup_config, skill_manager=skill_manager)


Step = StepProtocol[ACEStepContext]

_LEARNED_FIELDS = frozenset({"reflection", "skill_manager_output"})


def check_books(pipeline: Pipeline[ACEStepContext], skillbook: Skillbook, runner: str) -> None:
    """Check that what a pipeline learns is written into the book of its runner.

    Args:
        skillbook: The book of the runner.
        runner: The name of the runner, for the error.

    Raises:
        ValueError: A step has another book, or none has this one although one of them learns.
    """
    steps = list(_all_steps(pipeline.steps))
    others = [(step, book) for step in steps if (book := _book_of(step)) is not None and book is not skillbook]
    if others:
        owners = ", ".join(f"{type(step).__name__} holds a {book!r}" for step, book in others)
        raise ValueError(
            f"{owners}, but {runner} has {skillbook!r}, another object: what is learned would not be in "
            f"{runner}.skillbook. Create the steps with skillbook=book, and create the runner with the same book"
        )
    learning = [type(step).__name__ for step in steps if _LEARNED_FIELDS & frozenset(step.provides)]
    if learning and not any(_holds(step, skillbook) for step in steps):
        raise ValueError(
            f"no step of {runner} writes its skillbook, so what it learns would be lost: its learning steps are "
            f"{', '.join(learning)}. Add the steps that write, or end the pipeline in "
            "learning_tail(reflector, skill_manager, skillbook)"
        )


def _all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps, and those of nested pipelines and branches."""
    for step in steps:
        if isinstance(step, Pipeline):
            yield from _all_steps(step.steps)
        elif isinstance(step, Branch):
            yield from _all_steps(step.pipelines)
        else:
            yield step


def _book_of(step: Step) -> Skillbook | None:
    """Return the book that a step writes: the key of its lane, or what it calls `skillbook`."""
    for name in ("lane_key", "skillbook"):
        found = getattr(step, name, None)
        if isinstance(found, Skillbook):
            return found
    return None


def _holds(step: Step, skillbook: Skillbook) -> bool:
    """Whether a step refers to a book, under whatever name."""
    return _book_of(step) is skillbook or any(value is skillbook for value in getattr(step, "__dict__", {}).values())


def recomposed(pipeline: Pipeline[ACEStepContext], steps: Sequence[Step]) -> Pipeline[ACEStepContext]:
    """Return a pipeline of the given steps with the hooks and the background limit of another one.

    Args:
        pipeline: The other one.
    """
    from ace.runners.run_session import StepEvents  # not above: the command line reads settings without it

    return Pipeline[ACEStepContext](
        steps, hooks=pipeline.hooks, background_limit=pipeline.background_limit, step_observer=StepEvents()
    )


def rebound_steps(steps: Sequence[Step], old: Skillbook, new: Skillbook) -> list[Step]:
    """Return copies of the steps with every reference to the old book replaced; the given ones do not change.

    Args:
        steps: The steps of a pipeline.
        old: The book that they change.
        new: The book that the returned steps change.
    """
    return [rebound(step, old, new) for step in steps]


def rebound(step: Step, old: Skillbook, new: Skillbook) -> Step:
    """Return a copy of a step with every reference to the old book replaced, or the step itself if it has none.

    Args:
        old: The book that it changes.
        new: The book that the returned step changes.
    """
    if isinstance(step, Pipeline):
        inner = rebound_steps(step.steps, old, new)
        return (
            step
            if _same(inner, step.steps)
            else Pipeline(inner, hooks=step.hooks, background_limit=step.background_limit)
        )
    if isinstance(step, Branch):
        children = rebound_steps(step.pipelines, old, new)
        return step if _same(children, step.pipelines) else Branch(*children, merge=step._merge_fn)
    names = [name for name, value in getattr(step, "__dict__", {}).items() if value is old]
    if not names:
        return step
    changed = copy.copy(step)
    for name in names:
        setattr(changed, name, new)
    return changed


def with_save_path(steps: Sequence[Step], path: Path | None) -> list[Step]:
    """Return the steps with a `SaveSkillbookStep` to another file.

    Args:
        steps: The steps of a pipeline.
        path: The JSON file; None removes the step.
    """
    from ace.steps.checkpoint import SaveSkillbookStep

    found: list[Step] = []
    for step in steps:
        if not isinstance(step, SaveSkillbookStep):
            found.append(step)
        elif path is not None:
            found.append(SaveSkillbookStep(path, step.skillbook, interval=step.interval))
    return found


def _same(first: Sequence[Step], second: Sequence[Step]) -> bool:
    return all(one is other for one, other in zip(first, second, strict=True))


CLIENT_SETTINGS = ("api_base", "api_key", "temperature")
"""What the `from_model` of an integration passes on to the client that learns."""


def client_from_model(model: str, **settings: Any) -> LLMClientLike:
    """Return a client for a model string.

    Args:
        model: A LiteLLM model string, one with the prefix of a plugin, or `local/` and a model on this machine: a name
            from the catalogue, or the path of a GGUF file.
        **settings: The settings of the client: max_tokens, temperature, api_base, api_key and so on.
    """
    found = find_model_prefix(model)
    if found is not None:
        factory, rest = found
        return factory(rest, **settings)
    from ace.providers.litellm_client import LiteLLMClient

    return LiteLLMClient(model, **settings)


def client_and_options(
    owner: type, model: object, own: Collection[str], **options: Any
) -> tuple[LLMClientLike, dict[str, Any]]:
    """Return a client for the `from_model` of a class, and the arguments that are not for the client.

    Args:
        owner: The class, for errors.
        model: A model string, as `client_from_model` takes it.
        own: The names of the arguments that the class takes itself.
        **options: All arguments.

    Raises:
        TypeError: The model is not a string, or neither the class nor the client takes one of the arguments.
    """
    if not isinstance(model, str):
        advice = f"give a client to {owner.__name__}{'.from_client' if hasattr(owner, 'from_client') else ''}(client)"
        raise TypeError(f"{owner.__name__}.from_model() takes a model string, got {shown(model)}; {advice}")
    settings = {name: value for name, value in options.items() if name not in own}
    taken = client_settings(model)
    if taken is not None:
        check_keywords(f"{owner.__name__}.from_model", settings, {*taken, *own})
    return client_from_model(model, **settings), {name: options[name] for name in options if name in own}


def client_settings(model: object) -> frozenset[str] | None:
    """Return the names of the settings that the client of a model takes; None if only the client knows.

    Args:
        model: A model string, as `client_from_model` takes it; None is returned for anything else.
    """
    if not isinstance(model, str):
        return None
    found = find_model_prefix(model)
    if found is None:
        from ace.providers.litellm_client import LiteLLMClient

        factory: Callable[..., object] = LiteLLMClient
    else:
        factory, _ = found
    parameters = inspect.signature(factory).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters) - {"model"}


def learning_client(
    owner: type,
    *,
    ace_model: str = "gpt-4o-mini",
    ace_max_tokens: int = 2048,
    ace_llm: LLMClientLike | None = None,
    settings: Mapping[str, Any],
) -> LLMClientLike:
    """Return the client that learns, for the `from_model` of a runner.

    Args:
        owner: The class of the runner, for errors.
        ace_model: The model string.
        ace_max_tokens: The maximum length of an answer, in tokens.
        ace_llm: A client to use instead.
        settings: Further settings of the client.

    Raises:
        TypeError: Both `settings` and `ace_llm` are given.
    """
    if ace_llm is None:
        return client_from_model(ace_model, max_tokens=ace_max_tokens, **settings)
    if settings:
        names = ", ".join(settings)
        raise TypeError(f"{owner.__name__}.from_model() takes {names} or ace_llm, not both: the client has its own")
    return ace_llm
