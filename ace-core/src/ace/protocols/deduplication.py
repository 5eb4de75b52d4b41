"""The protocols of deduplication managers and embedders, their settings, and the registry of embedders.

`ace.plugins` fills the registry; LiteLLM's embedding models are registered in the same way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ace._internal.arguments import checked_class
from ace._internal.registry import Registry

if TYPE_CHECKING:
    from ace.skill import Skill, SkillCase
    from ace.skillbook import Skillbook

__all__ = [
    "DEFAULT_THRESHOLD",
    "AsksSkillManagerLike",
    "CaseOutcomeLike",
    "CaseProverLike",
    "DeduplicationConfig",
    "DeduplicationManagerLike",
    "EmbedderFactory",
    "EmbedderLike",
    "ProvesMergesLike",
    "SkillConsolidatorLike",
    "embedder_names",
    "find_embedder",
    "register_embedder",
    "unregister_embedder",
]

BUILT_IN_PROVIDERS: Final = ("auto", "litellm", "local", "lexical")
MERGE_RULES: Final = ("wording", "longest")


class EmbeddersOwn(float):
    """A default that applies only to embedders without a value of their own."""

    __slots__ = ()


DEFAULT_THRESHOLD: Final = EmbeddersOwn(0.85)
"""The cosine from which skills count as similar, for embedders without a `similarity_threshold` of their own.

It fits large embedding models. Smaller ones give lower values to rewordings of one skill.
"""


@checked_class
@dataclass(frozen=True, slots=True)
class DeduplicationConfig:
    """Settings of deduplication.

    Raises:
        ValueError: The threshold is not between 0 and 1, or the provider or the rule is unknown.
    """

    enabled: bool = True
    """False disables deduplication."""
    similarity_threshold: float = DEFAULT_THRESHOLD
    """Cosine similarity from 0 to 1, from which two skills count as similar. By default the one that fits the
    embedder: its `similarity_threshold`, such as 0.66 for `local`, else 0.85; `lexical` has 0.68."""
    within_section_only: bool = True
    """True compares only skills of one section."""
    rule: str = "wording"
    """What is merged without a model: `wording` merges skills of the same wording, and `longest` also similar ones.
    The longest text and the oldest id are kept. Skills that may contradict each other are never merged by a rule."""
    embedding_provider: str = "auto"
    """`auto` uses LiteLLM if `embedding_model` is set, else `local`, word vectors on this machine. `litellm`, `local`,
    `lexical`, which compares words, or the name of a plugin choose one."""
    embedding_model: str | None = None
    """The model string for LiteLLM embeddings; `litellm` without one takes `text-embedding-3-small`."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.similarity_threshold <= 1.0:
            raise ValueError(f"similarity_threshold must be between 0 and 1, got {self.similarity_threshold!r}")
        if self.rule not in MERGE_RULES:
            raise ValueError(f"rule must be {' or '.join(map(repr, MERGE_RULES))}, got {self.rule!r}")
        if self.embedding_provider in BUILT_IN_PROVIDERS:
            return

        if find_embedder(self.embedding_provider) is None:
            provider = self.embedding_provider
            known = ", ".join(repr(name) for name in dict.fromkeys([*BUILT_IN_PROVIDERS, *embedder_names()]))
            raise ValueError(
                f"embedding_provider must be one of {known}, got {provider!r}; to use another one, install a plugin "
                f"that provides an embedder named {provider!r}, or register your own with "
                f"ace.protocols.register_embedder({provider!r}, factory)"
            )


@runtime_checkable
class DeduplicationManagerLike(Protocol):
    """Finds similar skills. Inheritance is not needed."""

    def get_similarity_report(self, skillbook: Skillbook) -> str | None:
        """Return a text on the similar skills of a book, or None if there are none."""
        ...


@runtime_checkable
class AsksSkillManagerLike(DeduplicationManagerLike, Protocol):
    """A manager that can ask a skill manager about doubtful pairs."""

    def with_skill_manager(self, skill_manager: object) -> DeduplicationManagerLike:
        """Return a manager that asks this skill manager, unless this one has a skill manager of its own.

        Args:
            skill_manager: Judges similar skills.
        """
        ...


class CaseOutcomeLike(Protocol):
    """The answer to the question of a case; see `ace.proof.prover.CaseOutcome`."""

    @property
    def answer(self) -> str:
        """The answer; empty if there is none that can be used."""
        ...

    @property
    def passed(self) -> bool | None:
        """Whether it passes the check of the case; None if that could not be judged."""
        ...


@runtime_checkable
class CaseProverLike(Protocol):
    """Asks an agent the questions of cases, as `ace.proof.CaseProver` does. Inheritance is not needed.

    Where it has an attribute `model`, the name of the model is kept with the results.
    """

    def outcome(self, case: SkillCase, skills: Sequence[Skill]) -> CaseOutcomeLike:
        """Ask the question of a case with these skills, and check the answer.

        Args:
            skills: The skills that the agent may see.

        Raises:
            LLMError: The model could not be reached.
        """
        ...


@runtime_checkable
class ProvesMergesLike(DeduplicationManagerLike, Protocol):
    """A manager that can prove its merges on the cases of the skills."""

    def with_prover(self, prover: CaseProverLike) -> DeduplicationManagerLike:
        """Return a manager that proves its merges with this prover, unless this one has a prover of its own.

        Args:
            prover: Asks the questions of cases.
        """
        ...


@runtime_checkable
class EmbedderLike(Protocol):
    """Turns texts into vectors. Inheritance is not needed.

    An embedder may have a `similarity_threshold`: the cosine from which two skills count as similar by default.
    """

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order, all of one length.

        Args:
            texts: The texts; at least one.

        Raises:
            LLMError: The model could not be reached.
        """
        ...


@runtime_checkable
class SkillConsolidatorLike(Protocol):
    """A skill manager that can also be asked about similar skills; its method may be `async def`."""

    def consolidate_skills(self, *, prompt: str) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Ask what to do with similar skills.

        Args:
            prompt: The whole question, with the groups of similar skills.

        Returns:
            The answer: an object with the list `consolidation_operations`.

        Raises:
            LLMError: The model could not be reached or gave no usable answer.
        """
        ...


class EmbedderFactory(Protocol):
    """Makes an embedder."""

    def __call__(self, model: str | None, /) -> EmbedderLike:
        """Return an embedder.

        Args:
            model: The name of the embedding model; None for the factory's own choice.
        """
        ...


_embedders = Registry[EmbedderFactory]("embedders", "an embedder")


def register_embedder(name: str, factory: EmbedderFactory) -> None:
    """Register an embedder.

    Args:
        name: The value of `embedding_provider` that selects it.
        factory: Makes the embedder.

    Raises:
        ValueError: The name is taken.
    """
    _embedders.register(name, factory)


def unregister_embedder(name: str) -> None:
    """Unregister an embedder; an unknown name is ignored.

    Args:
        name: Its name.
    """
    _embedders.unregister(name)


def embedder_names() -> list[str]:
    """Return the names of the embedders, sorted."""
    return sorted(_embedders.all())


def find_embedder(name: str) -> EmbedderFactory | None:
    """Return the factory of an embedder, or None.

    Args:
        name: The value of `embedding_provider`.

    Example:
        >>> find_embedder("nonsense") is None
        True
    """
    return _embedders.get(name, built_in=True)
