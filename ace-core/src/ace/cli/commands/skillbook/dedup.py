"""`ace skillbook dedup`: merges duplicate skills."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

from ace.cli.console import counted, note, print_json, print_table, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError, print_error
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.model_choice import announce, check_model, client_from_settings
from ace.cli.options import Flag, JsonFlag, ModelOptions, SkillbookOption, YesFlag
from ace.cli.settings import load_settings
from ace.cli.skillbooks.described_history import print_undo, undo_command
from ace.cli.skillbooks.opened_book import check_writable, location_of, opened, save
from ace.skillbook import Skillbook
from ace.skillbook.locations import shown_location

if TYPE_CHECKING:
    from ace.deduplication import (
        ConsolidationOperation,
        ConsolidationResult,
        DeduplicationConfig,
        DeduplicationManager,
    )
    from ace.protocols.llm import AnyLLMClient

__all__ = ["command"]

_DEFAULT_MODEL = ModelOptions()
_DONE = {"MERGE": "merged", "DELETE": "removed", "UPDATE": "reworded", "KEEP": "kept"}


def command(
    *,
    rule: Literal["wording", "longest"] = "wording",
    threshold: float | None = None,
    across_sections: Annotated[bool, Flag] = False,
    embedding_provider: str = "auto",
    embedding_model: str | None = None,
    dry_run: Annotated[bool, Flag] = False,
    skillbook: SkillbookOption = None,
    model_options: ModelOptions = _DEFAULT_MODEL,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Merge duplicate skills.

    Skills with the same wording and the same numbers, codes and names are merged: their counters add up, and their
    sources and cases are joined. Skills that are only similar are listed and kept, unless you choose --rule longest,
    which merges them into the longest text if no word of them suggests a contradiction. With --model, the model decides
    whether to merge, remove, reword or keep them. A change to skills with cases is tested first: the model answers the
    questions of all their cases with the new text. A change that breaks a case is skipped, and such a merge is not
    tried again. Without --model, skills with cases are merged only if their texts differ in nothing but case,
    whitespace and punctuation.

    For example:

        ace skillbook dedup --dry-run
        ace skillbook dedup --threshold 0.7 --model anthropic/claude-sonnet-4-5

    Args:
        rule: What is merged without a model: skills with the same wording, or also similar ones, of which the longest
            text and the oldest id are kept.
        threshold: The similarity, from 0 to 1, from which two skills count as similar. The default depends on the
            embedder: 0.66 for local, 0.68 for lexical, else 0.85.
        across_sections: Also compare skills of different sections.
        embedding_provider: The source of the vectors: auto, litellm, local, lexical, or the name of a plugin.
        embedding_model: The embedding model for litellm.
        dry_run: Change nothing, and show what would be done.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        model_options: Options of the model that judges and proves.
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    config = _config(rule, threshold, across_sections, embedding_provider, embedding_model)
    location = location_of(skillbook)
    check_writable(location)
    with opened(location) as book:
        if model_options.model is not None:
            settings = load_settings(model_options.flags())
            announce(f"comparing {counted(len(book), 'skill')}, and judging similar ones", settings, quiet=as_json)
        manager = _manager(config, _client(model_options, assume_yes=yes))
        before = version = book.version
        if dry_run:
            result = manager.consolidate(Skillbook.loads(book.dumps()))
        else:
            with book.deferred_commits():
                result = manager.consolidate(book)
                # A store keeps the vectors too, even where nothing was merged.
                is_changed = bool(result.applied) or book.has_uncommitted_changes
                version = save(book, location, author="ace skillbook dedup") if is_changed else book.version
    if as_json:
        print_json(
            {
                "command": "skillbook dedup",
                "skillbook": shown_location(location),
                "version": version,
                "dry_run": dry_run,
                **_as_json(result),
            }
        )
    else:
        _print(result, is_judged=model_options.model is not None, dry_run=dry_run)
        if dry_run:
            note("nothing was changed: this was a dry run")
        elif result.applied and before is not None:
            print_undo(location, version, undo_command(location, version))
    return WITH_FAILURES if result.problem else DONE


def _config(
    rule: str, threshold: float | None, across_sections: bool, provider: str, model: str | None
) -> DeduplicationConfig:
    from ace.deduplication import DeduplicationConfig
    from ace.protocols.deduplication import DEFAULT_THRESHOLD

    try:
        return DeduplicationConfig(
            similarity_threshold=DEFAULT_THRESHOLD if threshold is None else threshold,
            within_section_only=not across_sections,
            rule=rule,
            embedding_provider=provider,
            embedding_model=model,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _client(options: ModelOptions, *, assume_yes: bool) -> AnyLLMClient | None:
    """Return the client of the model that judges and proves, after a test call; None without a model."""
    if options.model is None:
        return None
    settings = load_settings(options.flags())
    client = client_from_settings(settings)
    fetch_if_missing(settings, assume_yes=assume_yes)
    check_model(client, settings)
    return client


def _manager(config: DeduplicationConfig, client: AnyLLMClient | None) -> DeduplicationManager:
    from ace.deduplication import DeduplicationManager

    try:
        manager = DeduplicationManager(config)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if client is None:
        return manager
    from ace.proof import CaseProver
    from ace.roles import agent_for, skill_manager_for

    # The checks of kind `judge` are left to the same model.
    prover = CaseProver(agent_for(client), judge=client)
    return manager.with_skill_manager(skill_manager_for(client)).with_prover(prover)


def _as_json(result: ConsolidationResult) -> dict[str, object]:
    return {
        "applied": [_operation_as_json(operation) for operation in result.applied],
        "skipped": [
            {"operation": _operation_as_json(skipped.operation), "reason": skipped.reason} for skipped in result.skipped
        ],
        "undecided": [list(ids) for ids in result.undecided],
        "problem": result.problem,
    }


def _operation_as_json(operation: ConsolidationOperation) -> dict[str, object]:
    return {**asdict(operation), "skill_ids": list(operation.skill_ids)}


def _print(result: ConsolidationResult, *, is_judged: bool, dry_run: bool) -> None:
    rows = [
        [_DONE[operation.type], ", ".join(operation.skill_ids), operation.reasoning] for operation in result.applied
    ]
    rows += [
        [f"{_DONE[skipped.operation.type]}: skipped", ", ".join(skipped.operation.skill_ids), skipped.reason]
        for skipped in result.skipped
    ]
    why = "the model did not decide" if is_judged else "similar, with different wording"
    refused = [set(skipped.operation.skill_ids) for skipped in result.skipped]
    rows += [
        ["kept", ", ".join(ids), why] for ids in result.undecided if not any(set(ids) <= group for group in refused)
    ]
    if rows:
        print_table(["would be" if dry_run else "done", "skills", "why"], rows)
    else:
        print_text("no duplicate skills")
    if result.problem:
        print_error(f"similar skills were not changed: {result.problem}")
