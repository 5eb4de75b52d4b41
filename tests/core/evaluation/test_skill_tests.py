"""`SkillTests`: what the cases of a skillbook say about its skills."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ace.environments import EnvironmentResult, Sample, TaskEnvironment
from ace.evaluation import SkillTestProgress, SkillTests, case_samples, junit_xml
from ace.outputs import AgentOutput
from ace.pipeline import CancellationToken
from ace.protocols import LLMCallError, RoleError
from ace.retrieval import TopSkills
from ace.skill import CaseCheck, Skill, SkillCase
from ace.skillbook import Skillbook

MODEL = "scripted"
FORM = "Write every time of day in the form 14h30."
SIGNER = "Contracts above 10,000 dollars are signed by Petersen."
HARMFUL = "Hours are told as 2:30 pm, never otherwise."
TIDE = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"), wrong="2:30 pm", expected="14h30")
FERRY = SkillCase.make("When does the ferry leave?", CaseCheck("contains", "09h15"), wrong="9:15", expected="09h15")
SIGNS = SkillCase.make("Who signs a contract of 12,000 dollars?", CaseCheck("contains", "Petersen"))
SUM = SkillCase.make("What is 2 + 2?", CaseCheck("numeric", "4"), expected="4")


class Clerk:
    """Answers by the rules that it is shown; sums it knows without. The last rule on a matter wins."""

    model = MODEL

    def __init__(self) -> None:
        self.llm = self
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self._lock = threading.Lock()

    def generate(self, *, question: str, skillbook: Any, **kwargs: Any) -> AgentOutput:
        texts = tuple(skill.content for skill in skillbook.skills())
        with self._lock:
            self.asked.append((question, texts))
        return AgentOutput(reasoning="", final_answer=answer_by(question, texts))


def answer_by(question: str, texts: Sequence[str]) -> str:
    if "2 + 2" in question:
        return "4"
    if "contract" in question:
        return "Petersen" if SIGNER in texts else "Anna"
    forms = [text for text in texts if text in (FORM, HARMFUL)]
    plain, coded = ("2:30 pm", "14h30") if "water" in question else ("9:15", "09h15")
    return coded if forms and forms[-1] == FORM else plain


@dataclass
class Clock:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> Any:
    with Skillbook.open(tmp_path / "skills.db", clock=clock) as book:
        book.add_skill("times", FORM, cases=[TIDE, FERRY])
        book.add_skill("contracts", SIGNER, cases=[SIGNS])
        book.add_skill("sums", "Add the numbers.", cases=[SUM])
        book.add_skill("manners", "Be polite.")
        yield book


def verdicts(report: Any) -> dict[str, str]:
    return {skill.skill_id: skill.verdict for skill in report.skills}


def suite_of(book: Skillbook, agent: Any, clock: Clock, **options: Any) -> SkillTests:
    return SkillTests(book, agent, clock=clock, **options)


def test_each_case_is_asked_once_with_the_whole_book_and_noted_as_one_version(book: Skillbook, clock: Clock) -> None:
    clerk, version = Clerk(), book.version
    report = suite_of(book, clerk, clock).run(author="me")
    assert [(test.case.id, test.result, test.answer) for test in report.cases] == [
        (TIDE.id, "passed", "14h30"),
        (FERRY.id, "passed", "09h15"),
        (SIGNS.id, "passed", "Petersen"),
        (SUM.id, "passed", "4"),
    ]
    assert [len(texts) for _, texts in clerk.asked] == [4] * 4
    assert verdicts(report) == {
        "times-00001": "proven",
        "contracts-00002": "proven",
        "sums-00003": "proven",
        "manners-00004": "unproven",
    }
    assert (report.share, report.model, report.stopped_by, report.is_noted) == (1.0, MODEL, "", True)
    assert version is not None and book.version == version + 1
    assert [entry.author for entry in book.blame("times-00001")] == ["", "me"]
    [noted] = [case for skill in book.skills() for case in skill.cases if case.id == SIGNS.id]
    assert (noted.last_result, noted.model) == ("passed", MODEL)
    assert [skill.proof for skill in book.skills()] == ["proven", "proven", "proven", "unproven"]


def test_without_noting_the_book_stays_as_it_is(book: Skillbook, clock: Clock) -> None:
    before = book.dumps()
    report = suite_of(book, Clerk(), clock).run(note=False)
    assert not report.is_noted
    assert book.dumps() == before


def test_a_harmful_skill_turns_it_red_and_alone_names_it(book: Skillbook, clock: Clock) -> None:
    harmful = book.add_skill("times", HARMFUL)
    plain = suite_of(book, Clerk(), clock).run()
    assert [test.case.id for test in plain.failed] == [TIDE.id, FERRY.id]
    assert plain.share == 0.5
    assert [test.reason for test in plain.failed] == ["lacks '14h30'", "lacks '09h15'"]
    assert verdicts(plain)["times-00001"] == "failing"
    clerk = Clerk()
    told = suite_of(book, clerk, clock).run(alone=True)
    [verdict] = [skill for skill in told.skills if skill.skill_id == "times-00001"]
    assert (verdict.verdict, verdict.interfering) == ("interfered", (harmful.id,))
    assert harmful.id in verdict.reason
    assert dict(told.cases[0].alone) == {"times-00001": True}
    assert len(clerk.asked) <= 4 + 4 + 3  # in the book, alone, and at most three to find what interferes


def test_where_no_single_skill_is_to_blame_it_says_so_after_three_calls(book: Skillbook, clock: Clock) -> None:
    for _ in range(2):
        book.add_skill("times", HARMFUL)
    clerk = Clerk()
    report = suite_of(book, clerk, clock).run(alone=True)
    [verdict] = [skill for skill in report.skills if skill.skill_id == "times-00001"]
    assert (verdict.verdict, verdict.interfering) == ("interfered", ())
    assert verdict.reason == "omitting one other skill does not help"
    assert len(clerk.asked) <= 4 + 4 + 3


def test_what_interferes_is_found_among_many_that_share_no_word_with_the_case(clock: Clock) -> None:
    """What was changed after the case had passed is suspected first, else what is newest."""
    for is_tested_before in (True, False):
        book = Skillbook(clock=clock)
        book.add_skill("times", FORM, cases=[TIDE])
        for number in range(12):
            book.add_skill("ports", f"Port {number} has two locks.")
        if is_tested_before:
            suite_of(book, Clerk(), clock).run()
            book.update_skill("ports-00005", content=HARMFUL)
        else:
            book.add_skill("ports", HARMFUL)
        report = suite_of(book, Clerk(), clock).run(alone=True)
        changed = next(skill.id for skill in book.skills() if skill.content == HARMFUL)
        assert [skill.interfering for skill in report.skills if skill.verdict == "interfered"] == [(changed,)]


def test_a_skill_that_fails_alone_too_is_failing(book: Skillbook, clock: Clock) -> None:
    bad = book.add_skill("ports", "Never name a port.", cases=[SkillCase.make("Which port?", CaseCheck("exact", "C"))])
    report = suite_of(book, Clerk(), clock).run(alone=True)
    assert verdicts(report)[bad.id] == "failing"
    lucky = book.add_skill("times", "Be early.", cases=[TIDE])
    report = suite_of(book, Clerk(), clock).run(alone=True)
    [verdict] = [skill for skill in report.skills if skill.skill_id == lucky.id]
    assert (verdict.verdict, verdict.reason) == ("failing", "it passes only together with other skills")
    assert next(test for test in report.cases if test.case.id == TIDE.id).result == "passed"


def test_without_finds_what_is_no_longer_needed(book: Skillbook, clock: Clock) -> None:
    report = suite_of(book, Clerk(), clock).run(without=True)
    assert verdicts(report) == {
        "times-00001": "proven",
        "contracts-00002": "proven",
        "sums-00003": "unneeded",
        "manners-00004": "unproven",
    }
    assert {test.case.id: test.without for test in report.cases} == {
        TIDE.id: False,
        FERRY.id: False,
        SIGNS.id: False,
        SUM.id: True,
    }


def test_of_two_skills_with_one_rule_both_are_needed_together(tmp_path: Path, clock: Clock) -> None:
    book = Skillbook(clock=clock)
    for _ in range(2):
        book.add_skill("times", FORM, cases=[TIDE])
    report = suite_of(book, Clerk(), clock).run(without=True)
    assert set(verdicts(report).values()) == {"proven"}


def test_a_skill_that_another_case_needs_is_not_unneeded(clock: Clock) -> None:
    """Its own case passes without it, but it protects the answer to another one."""

    class Confused(Clerk):
        def generate(self, *, question: str, skillbook: Any, **kwargs: Any) -> AgentOutput:
            given = super().generate(question=question, skillbook=skillbook, **kwargs)
            texts = [skill.content for skill in skillbook.skills()]
            is_confused = "water" in question and texts and "Add the numbers." not in texts
            return AgentOutput(reasoning="", final_answer="what?") if is_confused else given

    book = Skillbook(clock=clock)
    book.add_skill("times", FORM, cases=[TIDE])
    adds = book.add_skill("sums", "Add the numbers.", cases=[SUM])
    report = suite_of(book, Confused(), clock).run(without=True)
    assert verdicts(report)[adds.id] == "proven"


def test_only_what_a_broken_case_was_shown_is_put_back(clock: Clock) -> None:
    """Two skills are not needed for their own cases; one of them protects another answer, the other one does not."""

    class Confused(Clerk):
        def generate(self, *, question: str, skillbook: Any, **kwargs: Any) -> AgentOutput:
            given = super().generate(question=question, skillbook=skillbook, **kwargs)
            texts = [skill.content for skill in skillbook.skills()]
            is_confused = "water" in question and texts and "Add the numbers." not in texts
            return AgentOutput(reasoning="", final_answer="what?") if is_confused else given

    def chosen(question: str, skillbook: Any) -> list[Skill]:
        return [skill for skill in skillbook.skills() if ("water" in question) == (skill.content != "Count.")]

    book = Skillbook(clock=clock)
    book.add_skill("times", FORM, cases=[TIDE])
    protects = book.add_skill("sums", "Add the numbers.", cases=[SUM])
    counts = book.add_skill("sums", "Count.", cases=[replace(SUM, id="counting")])
    found = verdicts(suite_of(book, Confused(), clock, retrieval=chosen).run(without=True))
    assert (found[protects.id], found[counts.id]) == ("proven", "unneeded")


def test_only_some_skills_or_cases(book: Skillbook, clock: Clock) -> None:
    tests = suite_of(book, Clerk(), clock)
    assert [case.id for case in tests.cases(only=["times-00001"])] == [TIDE.id, FERRY.id]
    report = tests.run(only=[FERRY.id, "sums-00003"])
    assert [test.case.id for test in report.cases] == [FERRY.id, SUM.id]
    assert verdicts(report) == {"times-00001": "unproven", "sums-00003": "proven"}  # TIDE was never run
    assert verdicts(tests.run(only=["manners-00004"])) == {"manners-00004": "unproven"}
    with pytest.raises(ValueError, match="'nothing'"):
        tests.run(only=["nothing"])


def by_matter(question: str, skillbook: Any) -> list[Skill]:
    matter = "contracts" if "contract" in question else "sums" if "2 + 2" in question else "times"
    return [skill for skill in skillbook.skills() if skill.section == matter]


def test_a_case_that_was_not_chosen_counts_with_its_last_result(book: Skillbook, clock: Clock) -> None:
    harmful = book.add_skill("times", HARMFUL)
    tests = suite_of(book, Clerk(), clock)
    tests.run()
    book.remove_skill(harmful.id)
    assert verdicts(tests.run(only=[FERRY.id])) == {"times-00001": "failing"}
    assert verdicts(tests.run(only=[TIDE.id])) == {"times-00001": "proven"}


def test_changed_asks_what_changed_since_the_last_test_and_what_is_shown_with_it(book: Skillbook, clock: Clock) -> None:
    tests = suite_of(book, Clerk(), clock, retrieval=by_matter)

    def due() -> list[str]:
        return [case.id for case in tests.cases(changed=True)]

    assert len(tests.run(changed=True).cases) == 4
    assert due() == []
    book.update_skill("contracts-00002", content=f"{SIGNER} Always.")
    assert due() == [SIGNS.id]
    tests.run(changed=True)
    assert due() == [SIGNS.id]  # it failed, so it stays due
    book.update_skill("contracts-00002", content=SIGNER)
    tests.run(changed=True)
    assert due() == []
    added = book.add_skill("times", HARMFUL)  # shown with the cases of another skill
    assert due() == [TIDE.id, FERRY.id]
    assert [test.case.id for test in tests.run(changed=True).failed] == due()
    book.remove_skill(added.id, soft=True)
    assert due() == [TIDE.id, FERRY.id]
    tests.run(changed=True)
    assert due() == []
    assert len(suite_of(book, Clerk(), clock, model="another").cases(changed=True)) == 4


def test_where_the_whole_book_is_shown_the_skills_that_fit_best_make_a_case_due(clock: Clock) -> None:
    book = Skillbook(clock=clock)
    book.add_skill("times", FORM, cases=[TIDE])
    for number in range(5):
        book.add_skill("ports", f"Port {number} has a lock.")
    tests = suite_of(book, Clerk(), clock)
    tests.run()
    other = book.add_skill("ports", "Port 9 has a lock.")
    assert tests.cases(changed=True) == []
    book.update_skill(other.id, content="At port 9 high water comes late.")
    assert [case.id for case in tests.cases(changed=True)] == [TIDE.id]


def test_a_removed_skill_that_was_shown_makes_a_case_due(book: Skillbook, clock: Clock) -> None:
    tests = suite_of(book, Clerk(), clock)
    extra = book.add_skill("times", "High water is when the water is high.")
    tests.run()
    assert tests.cases(changed=True) == []
    book.remove_skill(extra.id, soft=True)
    assert TIDE.id in [case.id for case in tests.cases(changed=True)]


def test_kept_answers_are_not_asked_again_and_make_no_version(book: Skillbook, clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    first = Clerk()
    tests = suite_of(book, first, clock, answers_path=path, label="scripted t=0")
    assert tests.unanswered(alone=True, without=True) == 12
    tests.run(alone=True, without=True)
    version = book.version
    second = Clerk()
    again = suite_of(book, second, clock, answers_path=path, label="scripted t=0")
    assert again.unanswered(alone=True, without=True) == 0
    report = again.run(alone=True, without=True)
    assert second.asked == []
    assert all(case.is_kept for case in report.cases)
    assert verdicts(report)["sums-00003"] == "unneeded"
    assert (book.version, report.is_noted) == (version, False)
    assert suite_of(book, Clerk(), clock, answers_path=path, label="other").unanswered() == 4
    book.add_skill("times", HARMFUL)
    assert suite_of(book, Clerk(), clock, answers_path=path, label="scripted t=0").unanswered() == 4


def test_an_agent_that_is_async_is_asked_by_several_workers_at_once(book: Skillbook, clock: Clock) -> None:
    here = threading.Barrier(4)

    class Async(Clerk):
        async def generate(self, **arguments: Any) -> AgentOutput:  # type: ignore[override]  # the other form
            await asyncio.to_thread(here.wait, 60)  # ends only when all four are asked
            return Clerk.generate(self, **arguments)

    seen: list[SkillTestProgress] = []
    report = suite_of(book, Async(), clock, workers=4).run(on_progress=seen.append)
    assert len(report.passed) == 4
    assert [progress.answered for progress in seen] == [1, 2, 3, 4]
    assert {progress.planned for progress in seen} == {4}


def test_no_more_workers_are_busy_than_asked_for(book: Skillbook, clock: Clock) -> None:
    busy: list[int] = [0, 0]
    lock = threading.Lock()

    class Counting(Clerk):
        def generate(self, **arguments: Any) -> AgentOutput:
            with lock:
                busy[0] += 1
                busy[1] = max(busy)
            try:
                return super().generate(**arguments)
            finally:
                with lock:
                    busy[0] -= 1

    for number in range(30):
        book.add_skill("sums", f"Sum {number}.", cases=[SkillCase.make(f"2 + 2? {number}", CaseCheck("numeric", "4"))])
    report = suite_of(book, Counting(), clock, workers=2).run()
    assert len(report.passed) == 34
    assert busy[1] <= 2
    with pytest.raises(ValueError, match="workers"):
        SkillTests(book, Clerk(), workers=0)


class Harbour(TaskEnvironment):
    def evaluate(self, *, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        return EnvironmentResult("", metrics={"correct": float(agent_output.final_answer == "14h30")})


def test_a_case_whose_environment_is_not_there_is_not_run_and_says_why(book: Skillbook, clock: Clock) -> None:
    judged = SkillCase.make("When is high water today?", CaseCheck("environment", "harbour"))
    book.put_cases("times-00001", [judged])
    clerk = Clerk()
    report = suite_of(book, clerk, clock).run()
    [test] = report.not_run
    assert (test.case.id, test.reason) == (judged.id, "the environment 'harbour' does not exist")
    assert not test.is_error and report.share == 1.0
    assert len(clerk.asked) == 4  # nothing was paid for what cannot be judged
    [verdict] = [skill for skill in report.skills if skill.skill_id == "times-00001"]
    assert (verdict.verdict, verdict.reason) == ("unproven", "the environment 'harbour' does not exist")
    there = suite_of(book, clerk, clock, environments={"harbour": Harbour()}).run()
    assert verdicts(there)["times-00001"] == "proven"
    rubric = SkillCase.make("Say hello.", CaseCheck("judge", "It is polite."))
    book.put_cases("manners-00004", [rubric])
    assert [result.reason for result in suite_of(book, clerk, clock).run().not_run][-1] == "no judge was given"


def test_a_model_that_cannot_be_reached_is_no_failed_case(book: Skillbook, clock: Clock) -> None:
    class Gone(Clerk):
        def generate(self, *, question: str, **arguments: Any) -> AgentOutput:
            if "contract" in question:
                raise LLMCallError("no connection", model=MODEL)
            return super().generate(question=question, **arguments)

    report = suite_of(book, Gone(), clock).run()
    [test] = report.not_run
    assert (test.case.id, test.is_error) == (SIGNS.id, True)
    assert "no connection" in test.reason
    assert report.share == 0.75
    [case] = next(skill for skill in book.skills() if skill.id == "contracts-00002").cases
    assert case.last_result == "not_run"


def test_an_agent_that_does_not_fit_is_an_error_of_the_program(book: Skillbook, clock: Clock) -> None:
    class Wrong:
        def generate(self, **arguments: Any) -> str:
            return "4"

    for workers in (1, 3):
        with pytest.raises(RoleError, match="AgentOutput"):
            SkillTests(book, Wrong(), workers=workers).run()  # type: ignore[arg-type]  # what is tested


def test_a_cancelled_test_notes_and_reports_what_is_there(book: Skillbook, clock: Clock) -> None:
    token = CancellationToken()

    def stop(progress: SkillTestProgress) -> None:
        if progress.answered == 2:
            token.cancel()

    report = suite_of(book, Clerk(), clock).run(cancel_token=token, on_progress=stop, alone=True)
    assert [case.result for case in report.cases] == ["passed", "passed", "not_run", "not_run"]
    assert report.stopped_by == "cancelled"
    assert [skill.proof for skill in book.skills()][:2] == ["proven", "unproven"]
    assert [case.id for case in suite_of(book, Clerk(), clock).cases(changed=True)] == [SIGNS.id, SUM.id]


def test_one_case_of_two_skills_is_asked_once_and_noted_in_both(book: Skillbook, clock: Clock) -> None:
    second = book.add_skill("times", "Times of day have an h.", cases=[TIDE])
    clerk = Clerk()
    report = suite_of(book, clerk, clock).run()
    assert len(clerk.asked) == 4
    assert report.cases[0].skill_ids == ("times-00001", second.id)
    assert {skill.proof for skill in book.skills() if skill.section == "times"} == {"proven"}


class Short(Clerk):
    """Chooses what it is shown by itself, as an agent for small models does."""

    def shown_skills(self, question: str, skillbook: Any) -> Sequence[Skill]:
        return TopSkills(1)(question, skillbook)


def test_what_one_copy_of_a_case_lacks_makes_it_due(book: Skillbook, clock: Clock) -> None:
    tests = suite_of(book, Clerk(), clock)
    tests.run()
    book.add_skill("manners", "Say thanks.", cases=[SUM])  # its copy has no result yet
    assert [case.id for case in tests.cases(changed=True)] == [SUM.id]
    tests.run(changed=True)
    assert tests.cases(changed=True) == []


def test_what_changes_while_it_is_tested_stays_due(book: Skillbook, clock: Clock) -> None:
    def edit(progress: SkillTestProgress) -> None:
        if progress.answered == 1:
            book.update_skill("times-00001", section="clocks")

    tests = suite_of(book, Clerk(), clock)
    tests.run(on_progress=edit)
    assert {TIDE.id, FERRY.id} <= {case.id for case in tests.cases(changed=True)}


@pytest.mark.parametrize("who", ["this process", "another process"])
def test_a_result_is_not_noted_on_a_text_that_was_not_asked(
    who: str, book: Skillbook, clock: Clock, tmp_path: Path
) -> None:
    def edit(progress: SkillTestProgress) -> None:
        if progress.answered != progress.planned:
            return
        if who == "this process":
            book.update_skill("times-00001", content=HARMFUL)
        else:
            with Skillbook.open(tmp_path / "skills.db", clock=clock) as theirs:
                theirs.update_skill("times-00001", content=HARMFUL)

    suite_of(book, Clerk(), clock).run(on_progress=edit)
    with Skillbook.open(tmp_path / "skills.db") as reopened:
        results = {skill.id: [case.last_result for case in skill.cases] for skill in reopened.skills()}
        assert reopened.dumps() == book.dumps()
        assert reopened.as_of(reopened.version or 0).dumps() == book.dumps()
    assert results["times-00001"] == ["not_run", "not_run"]
    assert results["contracts-00002"] == ["passed"]


def test_an_agent_that_chooses_is_shown_rules_and_the_report_names_them(book: Skillbook, clock: Clock) -> None:
    report = suite_of(book, Short(), clock).run()
    by_id = {test.case.id: test for test in report.cases}
    assert by_id[SIGNS.id].shown == ("contracts-00002",)


def test_the_junit_file_names_case_skill_question_and_answer(book: Skillbook, clock: Clock) -> None:
    nasty = SkillCase.make("Is \x1b[1m<b>&\ufffe ok?\n]]>", CaseCheck("exact", "y\x00"))
    environment = SkillCase.make("Elsewhere?", CaseCheck("environment", "harbour"))
    book.put_cases("manners-00004", [nasty, environment])
    book.add_skill("times", HARMFUL)
    text = junit_xml(suite_of(book, Clerk(), clock).run(), "skills.db")
    suite = ElementTree.fromstring(text.encode())
    assert dict(suite.attrib) | {"time": ""} == {
        "name": "skills.db",
        "tests": "6",
        "failures": "3",
        "errors": "0",
        "skipped": "1",
        "time": "",
    }
    tide = suite[0]
    assert (tide.get("classname"), tide.get("name")) == ("times-00001", f"{TIDE.id}: When is high water?")
    failure = tide.find("failure")
    assert failure is not None and failure.get("message") == "answered '2:30 pm', expected '14h30'"
    assert "Question: When is high water?" in str(failure.text) and "Answer: 2:30 pm" in str(failure.text)
    skipped = suite[-1].find("skipped")
    assert skipped is not None and "harbour" in str(skipped.get("message"))


def test_the_report_as_json_values(book: Skillbook, clock: Clock) -> None:
    data = suite_of(book, Clerk(), clock).run(alone=True, without=True).to_dict()
    assert (data["passed"], data["failed"], data["not_run"], data["share"]) == (4, 0, 0, 1.0)
    assert data["cases"][0]["alone"] == {"times-00001": True}
    assert data["skills"][2]["verdict"] == "unneeded"


def test_cases_are_samples(book: Skillbook) -> None:
    book.put_cases(
        "manners-00004",
        [
            SkillCase.make("Which two?", CaseCheck("contains", "A1\nB2"), expected="A1 and B2"),
            SkillCase.make("Anything?", CaseCheck("judge", "It is polite.")),
            replace(TIDE, context="today"),
        ],
    )
    samples = case_samples(book)
    assert [(sample.id, sample.ground_truth) for sample in samples][-2:] == [
        (SUM.id, "4"),
        (samples[-1].id, "A1 and B2"),
    ]
    assert samples[0].metadata == {"skills": ["times-00001", "manners-00004"]}
    assert samples[0].question == TIDE.question
