"""`ace eval --split`: learns from the older runs, and asks the questions of the newest ones."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ace.calls.secrets import known_secrets
from ace.cli.console import counted, note, print_json, print_table, print_text, visible, warnings_shown
from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES, UsageError
from ace.cli.inputs import GatheredTraces, gather_traces, problem_lines, run_filter
from ace.cli.inspection import confirm, cost_told, estimate_of
from ace.cli.learning.evaluation_questions import NO_CASES, standard_trace
from ace.cli.learning.learning_command import RunFlags
from ace.cli.learning.measurement import MeasurementStopped, until_stopped
from ace.cli.model_choice import announce
from ace.cli.signals import on_forced_exit
from ace.cli.skillbooks.opened_book import SkillbookPlace, opened_skillbook
from ace.redaction import Redactor

if TYPE_CHECKING:
    from ace.cli.learning.learning_command import LearningCommand
    from ace.cli.learning.measurement import OnAnswer
    from ace.cli.learning.respondent import Respondent
    from ace.cli.learning.run_report import RunReport
    from ace.cli.settings import Settings
    from ace.environments import Sample
    from ace.evaluation import Budget, Evaluation
    from ace.runners import RecordedTrace
    from ace.skillbook import Skillbook

__all__ = ["SplitEvaluation"]

_WAYS: Final = ("without skills", "with skills", "raw memory")
_EXAMPLES_SHOWN: Final = 3
"""How many recorded runs raw memory shows with a question, as many as an agent for small models shows skills."""
_LONGEST: Final = 60
_QUESTIONS_SHOWN: Final = 20


@dataclass(frozen=True, kw_only=True)
class SplitEvaluation:
    """Learns from the older part of recorded runs, and asks the questions of the newest part in three ways."""

    paths: Sequence[str]
    """Where the runs are."""
    settings: Settings
    """The settings of learning, and of the model."""
    respondent: Respondent
    """Who answers the questions."""
    command: LearningCommand
    """How is learned."""
    share: float
    """The share of the runs that is learned from."""
    learned: Path | None = None
    """The skillbook to learn into; by default a temporary one."""
    answers: Path | None = None
    """The file that keeps the answers."""
    repeats: int = 1
    """How many times each question is asked in each way."""
    seed: int = 0
    """For random numbers."""

    def carry_out(self) -> int:
        """Learn, ask, print the result, and return the exit code.

        Raises:
            UsageError: Nothing can be measured, or something is wrong with the options or the model. Nothing was paid.
        """
        own = frozenset[Path]() if self.learned is None else SkillbookPlace(str(self.learned)).own_files()
        wanted = run_filter(self.settings, own)
        with warnings_shown(), gather_traces(self.paths, limit=self.settings.limit, wanted=wanted) as gathered:
            order = _oldest_first(gathered)
            count = self._older_count(len(order))
            older, newest = ([gathered.traces[at] for at in part] for part in (order[:count], order[count:]))
            if not confirm(gathered.summary, self.settings, assume_yes=self.respondent.assume_yes):
                return DONE
            if gathered.problems:
                note(f"ace: not all inputs can be used:{problem_lines(gathered.problems)}")
            self._check_not_learned(newest)
            held_out = [standard_trace(trace) for trace in newest]
            self._announce(len(order), len(older), sum(gathered.tokens[at] for at in order[:count]), held_out)
            questions = self._questions(newest, self.respondent.with_judgements(held_out), len(order))
            self.respondent.fetch_and_check()
            with self._book() as (book, place):
                return self._measure(book, place, gathered, older, questions)

    def _questions(
        self, newest: Sequence[RecordedTrace], held_out: Sequence[Mapping[str, Any]], total: int
    ) -> list[Sample]:
        from ace.evaluation import case_questions, is_mistake

        pairs = zip(held_out, newest, strict=True)
        questions = [question for trace, recorded in pairs for question in case_questions(trace, recorded.place)]
        which = f"the newest {len(newest)} of {counted(total, 'run')}"
        if not questions:
            raise UsageError(f"nothing to ask: {which} have no case: {NO_CASES}, or give a smaller --split")
        if not any(map(is_mistake, questions)):
            raise UsageError(
                f"nothing to measure: {which} have {counted(len(questions), 'question')}, and no answer in them was "
                "wrong; give a smaller --split or more runs, or omit --split to ask all questions"
            )
        if not self.respondent.is_quiet:
            answers = counted(len(questions) * len(_WAYS) * self.repeats, "answer")
            by = "" if self.respondent.command is None else f" of the command {visible(self.respondent.command_line)}"
            note(f"ace: {which} have {counted(len(questions), 'question')}; asking for {answers}{by}")
        return questions

    @contextmanager
    def _book(self) -> Iterator[tuple[Skillbook, SkillbookPlace]]:
        """Open the skillbook that learns: a new one that is deleted afterwards, or the one that is kept."""
        if self.learned is not None:
            with opened_skillbook(SkillbookPlace(str(self.learned)), quiet=True) as opened:
                yield opened
            return
        with tempfile.TemporaryDirectory(prefix="ace-eval-") as folder:
            target = SkillbookPlace(str(Path(folder) / "skills.db"))
            with (
                on_forced_exit(lambda: shutil.rmtree(folder, ignore_errors=True)),
                opened_skillbook(target, quiet=True) as opened,
            ):
                yield opened

    def _check_not_learned(self, newest: Sequence[RecordedTrace]) -> None:
        from ace.runners.run_record import new_inputs

        if self.learned is None or not self.learned.exists():
            return
        with opened_skillbook(SkillbookPlace(str(self.learned)), is_dry_run=True, quiet=True) as (book, _):
            known = len(newest) - new_inputs(book, newest)
        if known:
            raise UsageError(
                f"--learned: {str(self.learned)!r} has learned from {known} of the {len(newest)} newest runs, whose "
                "questions it would know; give the name of a new file"
            )

    def _older_count(self, total: int) -> int:
        count = round(self.share * total)
        if not 0 < count < total:
            raise UsageError(
                f"--split {self.share:g} of {counted(total, 'run')} leaves nothing to learn from, or nothing to ask; "
                "give more runs or another share"
            )
        return count

    def _announce(self, total: int, older: int, tokens: int, held_out: Sequence[Mapping[str, Any]]) -> None:
        """Say what is done with which model and what that will cost, before anything is paid."""
        from ace.cli.learning.judgement_reader import needs_reading
        from ace.evaluation import case_questions

        if self.respondent.is_quiet:
            return
        # What is wrong in a run that has yet to be read is not known; one question is likely.
        to_read = sum(map(needs_reading, held_out))
        questions = to_read + sum(len(case_questions(trace, "")) for trace in held_out)
        answers = questions * len(_WAYS) * self.repeats if self.respondent.command is None else 0
        announce(f"learning from the older {older} of {counted(total, 'run')}", self.settings)
        found = estimate_of(older, tokens, self.settings, answers=to_read + answers)
        note(f"ace: {cost_told(found['model'], found['calls'], found['input_tokens'], found['output_tokens'])}")

    def _measure(
        self,
        book: Skillbook,
        place: SkillbookPlace,
        gathered: GatheredTraces,
        older: Sequence[RecordedTrace],
        questions: Sequence[Sample],
    ) -> int:
        kept = self.learned is not None
        way_on = (
            "the same command continues where it stopped" if kept else "--learned FILE.db would keep what was learned"
        )
        left = self._left(0.0)
        if left is not None and left <= 0:
            note("ace: stopped before learning, because the limit of --max-cost was reached")
            return WITH_FAILURES
        report, stopped_by = self._learn(book, place, older, left, way_on)
        if stopped_by:
            note(f"ace: stopped while learning ({stopped_by}); {way_on}")
            return INTERRUPTED if stopped_by == "cancelled" else WITH_FAILURES
        left = self._left(report.use.cost)
        needed = len(questions) * len(_WAYS) * self.repeats
        try:
            evaluations = until_stopped(
                lambda budget, on_answer: self._asked(budget, on_answer, book, older, questions),
                left,
                needed,
                quiet=self.respondent.is_quiet,
            )
        except MeasurementStopped as stopped:
            note(f"ace: stopped after {stopped}; --learned FILE.db and --answers FILE keep what was paid for")
            return WITH_FAILURES if stopped.reason == "max_cost" else INTERRUPTED
        has_failures = self.respondent.report_failures(evaluations)
        self._print(report, len(gathered.traces), older, questions, evaluations)
        return WITH_FAILURES if has_failures or report.failures or gathered.problems else DONE

    def _learn(
        self,
        book: Skillbook,
        place: SkillbookPlace,
        older: Sequence[RecordedTrace],
        max_cost: float | None,
        way_on: str,
    ) -> tuple[RunReport, str]:
        from ace.cli.learning.run_plan import RunPlan

        plan = RunPlan(
            command=self.command,
            paths=self.paths,
            settings=replace(self.settings, skillbook=str(place), run=replace(self.settings.run, max_cost=max_cost)),
            options=RunFlags(),
            assume_yes=self.respondent.assume_yes,
            as_json=self.respondent.is_quiet,
        )
        return plan.learn_into(book, place, older, self.respondent.client, way_on=way_on)

    def _left(self, spent: float) -> float | None:
        """Return what is left of the limit of cost after reading and learning; None without a limit."""
        limit = self.settings.run.max_cost
        return None if limit is None else limit - spent - self.respondent.reader.cost

    def _asked(
        self,
        budget: Budget,
        on_answer: OnAnswer,
        book: Skillbook,
        older: Sequence[RecordedTrace],
        questions: Sequence[Sample],
    ) -> list[Evaluation]:
        """Ask the questions without skills, with them, and with the older runs as they are."""
        from ace.evaluation import memory_of
        from ace.retrieval import LexicalRanker, TopSkills

        plain = self.respondent.evaluator(questions, self.answers)
        of_memory = self.respondent.evaluator(
            questions,
            self.answers,
            retrieval=None if self.respondent.shows_some else TopSkills(_EXAMPLES_SHOWN, ranker=LexicalRanker()),
        )
        # The agent is asked what was asked in the runs; of other runs it sees no more than the learning model does.
        redactor = Redactor(known_secrets(self.respondent.client), allow=self.settings.learning.allow)
        memory = memory_of(map(standard_trace, older), redactor)
        ways = zip(_WAYS, (plain, plain, of_memory), (None, book, memory), strict=True)
        return [
            budget.evaluate(evaluator, questions, skills, name=name, repeats=self.repeats, on_answer=on_answer)
            for name, evaluator, skills in ways
        ]

    def _print(
        self,
        report: RunReport,
        total: int,
        older: Sequence[RecordedTrace],
        questions: Sequence[Sample],
        evaluations: Sequence[Evaluation],
    ) -> None:
        from ace.cli.learning.run_report import report_as_json
        from ace.evaluation import mistake_rates

        rates = mistake_rates(questions, evaluations, seed=self.seed)
        if self.respondent.is_quiet:
            print_json(
                {
                    "command": "eval",
                    "model": self.respondent.model,
                    "place": self.respondent.place,
                    "split": {"share": self.share, "learned": len(older), "held_out": total - len(older)},
                    "learning": report_as_json(report),
                    "rates": [
                        {**asdict(rate), "tokens_in": _tokens(found)}
                        for rate, found in zip(rates, evaluations, strict=True)
                    ],
                    "questions": _questions_as_json(questions, evaluations),
                }
            )
            return
        skills, calls = counted(report.skills.total, "skill"), counted(report.use.calls, "call")
        mistakes = counted(rates[0].mistakes, "mistake")
        print_text(
            f"Learned {skills} from the older {len(older)} of {counted(total, 'run')} in {calls}. "
            f"The other {total - len(older)} have {mistakes}. Repeated:"
        )
        has_new = rates[0].right > 0
        rows = [
            [
                rate.name,
                f"{rate.repeated.value * rate.mistakes:g} of {rate.mistakes}",
                f"{rate.repeated.value:.0%} [{100 * rate.repeated.low:.0f}, {100 * rate.repeated.high:.0f}]",
                *([f"{rate.new:g} of {rate.right}"] if has_new else []),
                f"{_tokens(found):.0f}",
                "" if rate is rates[0] else f"{rate.p_value:.2g}",
            ]
            for rate, found in zip(rates, evaluations, strict=True)
        ]
        new = ["new mistakes"] if has_new else []
        print_table(["", "repeated", "rate [95 %]", *new, "tokens in per answer", "p"], rows)
        print_text("")
        shown = [
            [_short(question.question), *("right" if share == 1 else "wrong" for share in shares)]
            for question, *shares in zip(questions, *(found.values("correct") for found in evaluations), strict=True)
        ]
        print_table(["question", *_WAYS], shown[:_QUESTIONS_SHOWN])
        if len(shown) > _QUESTIONS_SHOWN:
            print_text(f"... and {len(shown) - _QUESTIONS_SHOWN} more; --json lists all")
        if self.learned is not None:
            print_text(f"\nThe skills are in {str(self.learned)!r}.")


def _oldest_first(gathered: GatheredTraces) -> list[int]:
    """Return the places of the traces by the time at which they began if all have one, else as they were found."""
    order = list(range(len(gathered.traces)))
    times = [began.timestamp() for began in gathered.began if began is not None]
    if len(times) == len(order):
        order.sort(key=lambda place: times[place])
    elif times:
        without = len(order) - len(times)
        note(f"ace: {without} of {counted(len(order), 'run')} have no time, so they are taken in the order found")
    return order


def _tokens(evaluation: Evaluation) -> float:
    """Return the mean tokens of the prompts for an answer."""
    values = evaluation.values("input_tokens")
    return sum(values) / len(values)


def _questions_as_json(questions: Sequence[Sample], evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    from ace.evaluation import case_of

    listed = []
    answered = [list(evaluation.by_sample.values()) for evaluation in evaluations]
    for place, question in enumerate(questions):
        case = case_of(question)
        assert case is not None
        answers = {
            evaluation.name: [
                {"answer": answer.answer, "correct": answer.correct, "error": answer.error} for answer in found[place]
            ]
            for evaluation, found in zip(evaluations, answered, strict=True)
        }
        about = {"id": question.id, "question": question.question, "wrong": case.wrong, "expected": case.expected}
        listed.append({**about, "evidence": case.evidence, "check": case.check.to_dict(), "answers": answers})
    return listed


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
