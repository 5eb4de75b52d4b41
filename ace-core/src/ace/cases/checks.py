"""The cases of a trace, and strict checks of answers to them.

A part of a code, or an answer that names both alternatives, does not pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from ace.cases.recoveries import call_cases, call_lacks
from ace.cases.values import (
    FUNCTION_WORDS,
    SENTENCE_END,
    content_words,
    has_digit,
    holds,
    is_strong,
    number_in,
    numbers_in,
    right_values,
    tokens,
)
from ace.skill import CHECK_KINDS, CaseCheck, SkillCase
from ace.traces import TraceCorrection, TraceStep

__all__ = [
    "cases_of",
    "check_for",
    "check_of_correction",
    "check_passes",
    "other_alternatives",
    "why_not",
]

_MOST_WORDS_OF_A_SHORT_ANSWER: Final = 12
_LONGEST_REPLACED: Final = 6
"""In words. If a longer part of an answer was replaced, it is not known which of its words were wrong."""
_MOST_WORDS_OF_AN_EXACT_ANSWER: Final = 6
"""A longer answer is not asked for letter by letter, nor is one that only makes a long answer short."""
_MOST_WORDS_OF_A_FORM: Final = 20
_MOST_PAIRS: Final = 250_000
"""Of words that are compared; beyond, two long answers are not aligned."""
_OR: Final = re.compile(r",?(?<!\s)\s+or\s+", re.IGNORECASE)
_YES_NO: Final = {"yes": "no", "no": "yes"}


def check_passes(check: CaseCheck, answer: str, *, question: str = "") -> bool | None:
    """Return whether an answer passes a check.

    Args:
        question: The question. An answer may repeat its numbers, even if the check expects a number.

    Returns:
        None if the check needs an environment or a judge.

    Raises:
        re.error: The value of a `regex` check is not a pattern.

    Example:
        >>> check_passes(CaseCheck("contains", "K7"), "K7-BLUE"), check_passes(CaseCheck("numeric", "12"), "12.0 km")
        (False, True)
    """
    if check.kind in ("environment", "judge"):
        return None
    return not _lacks(check, answer, question)


def why_not(check: CaseCheck, answer: str, *, question: str = "", wrong: str = "", expected: str = "") -> str:
    """Return why an answer does not pass a check, as text; empty if it passes.

    Args:
        check: The check, neither `environment` nor `judge`.
        wrong: The answer that was corrected.
        expected: The accepted answer.

    Example:
        >>> why_not(CaseCheck("contains", "Pier C"), "Pier A or pier C", question="Pier A or pier C?")
        "names 'A' beside 'Pier C'"
    """
    lacking = _lacks(check, answer, question)
    if lacking or check.kind in ("regex", "call"):
        return lacking
    value = " and ".join(repr(line) for line in check.value.splitlines())
    if wrong and _repeats(answer, wrong, expected):
        return "repeats the answer that was wrong"
    for rejected in (
        *_rejected(wrong, question, check, expected),
        *other_alternatives(question, check.value, expected),
    ):
        if all(holds(answer, word) for word in rejected):
            return f"names {' '.join(rejected)!r} beside {value}"
    return ""


def check_for(expected: str) -> CaseCheck:
    """Return the strict check for a ground truth.

    A number is compared by value, yes and no by the start of the answer, everything else as a whole at word boundaries.

    Args:
        expected: The ground truth.

    Example:
        >>> check_for("42"), check_for("Pier C")
        (CaseCheck(kind='numeric', value='42'), CaseCheck(kind='contains', value='Pier C'))
    """
    text = " ".join(expected.split())
    if number_in(text) is not None:
        return CaseCheck("numeric", text)
    word = text.strip(".!").lower()
    if word in _YES_NO:
        return CaseCheck("regex", rf"(?is)\A\W*{word}\b(?!.*\b{_YES_NO[word]}\b)")
    bare = text.strip(" .!,;:")
    return CaseCheck("contains", bare if bare and holds(text, bare) else text)


def check_of_correction(question: str, wrong: str, correction: str, right: str) -> CaseCheck | None:
    """Return a check that distinguishes the accepted answer from the wrong one; None if code cannot do so.

    Args:
        wrong: The answer that was corrected.
        right: The accepted answer.

    Example:
        >>> check_of_correction("Price?", "2.40", "German tags take a comma: 2,40", "2,40").kind
        'regex'
    """
    values = right_values(question, wrong, correction, right)
    for check in (*_value_checks(values), *_letter_checks(values, wrong, right)):
        # Why both: the first is what new answers meet, and a check that the wrong answer passes proves nothing.
        if _lacks(check, right, question) or why_not(check, right, question=question, wrong=wrong, expected=right):
            continue
        if why_not(check, wrong, question=question, expected=right):
            return check
    return None


def other_alternatives(question: str, value: str, expected: str = "") -> list[tuple[str, ...]]:
    """Return the words that distinguish the other alternatives of a question from the right one.

    Args:
        question: The question, such as "Pier A or pier C?".
        value: The value in the right answer.
        expected: The whole right answer; its own words are never another alternative.

    Example:
        >>> other_alternatives("Where does it moor, pier A or pier C?", "Pier C")
        [('A',)]
        >>> other_alternatives("Is the flag red, green or blue?", "green")
        [('red',), ('blue',)]
    """
    found: list[tuple[str, ...]] = []
    for left, right in _alternatives(question):
        options = [*left, right]
        own = next((at for at, option in enumerate(options) if _names(option, value)), None)
        if own is None:
            continue
        for at, option in enumerate(options):
            if at != own:
                other = _telling(option, options[own], value, from_end=at < len(left), own_at_end=own < len(left))
                if other and not all(holds(expected, word) for word in other):
                    found.append(other)
    return found


def _lacks(check: CaseCheck, answer: str, question: str) -> str:
    match check.kind:
        case "exact":
            same = _squeezed(answer).casefold() == _squeezed(check.value).casefold()
            return "" if same else f"is not {check.value!r}"
        case "contains":
            missing = [value for value in check.value.splitlines() if not holds(answer, value)]
            return f"lacks {' and '.join(map(repr, missing))}" if missing or not check.value.strip() else ""
        case "any_of":
            if any(holds(answer, value) for value in check.value.splitlines()):
                return ""
            return f"holds none of {', '.join(map(repr, check.value.splitlines()))}"
        case "numeric":
            return _lacks_number(check.value, answer, question)
        case "regex":
            return "" if re.search(check.value, answer) else f"does not match the pattern {check.value!r}"
        case "call":
            return call_lacks(check.value, answer)
        case "environment" | "judge":
            raise ValueError(f"code cannot check an answer if the check is {check.kind!r}")


def _lacks_number(value: str, answer: str, question: str) -> str:
    wanted = number_in(value)
    if wanted is None or not holds(answer, value):
        return f"lacks the number {value}"
    asked = set(numbers_in(question))
    others = [str(number) for number in numbers_in(answer) if number != wanted and number not in asked]
    return f"holds the number {others[0]} beside {value}" if others else ""


def _value_checks(values: Sequence[str]) -> list[CaseCheck]:
    if not values:
        return []
    if len(values) == 1 and (number_in(values[0]) is not None or values[0].lower() in _YES_NO):
        return [check_for(values[0]), CaseCheck("contains", values[0])]
    return [CaseCheck("contains", "\n".join(values))]


def _letter_checks(values: Sequence[str], wrong: str, right: str) -> list[CaseCheck]:
    """Return literal checks, for formats: otherwise, 2,40 and 2.40 are one number, and osl and OSL one word."""
    checks = []
    if values:
        ahead = "".join(rf"(?=.*(?<![\w.,\-/]){re.escape(value)}(?![\w\-/]|[.,:]\w))" for value in values)
        checks.append(CaseCheck("regex", rf"(?s)\A{ahead}"))
    short = len(tokens(right)) <= _MOST_WORDS_OF_AN_EXACT_ANSWER and len(tokens(wrong)) <= _MOST_WORDS_OF_A_FORM
    if short and "\n" not in right.strip():
        if _squeezed(wrong).casefold() != _squeezed(right).casefold():
            checks.append(CaseCheck("exact", _squeezed(right)))
        checks.append(CaseCheck("regex", rf"\A\s*{re.escape(right.strip())}\s*\Z"))
    return checks


def _rejected(wrong: str, question: str, check: CaseCheck, expected: str) -> list[tuple[str, ...]]:
    """Return the words of the wrong answer that an answer must not contain, each tuple as a whole.

    For a long wrong answer, these are only the words that the right answer replaces by its value.
    """
    if not wrong:
        return []
    words = tokens(wrong)
    if len(words) > _MOST_WORDS_OF_A_SHORT_ANSWER:
        words = _replaced(words, tokens(expected), check)
    harmless = {word.lower() for word in tokens(f"{expected} {check.value}")}
    numeric = check.kind == "numeric"
    asked = {word.lower() for word in tokens(question)}
    left = [
        word
        for place, word in enumerate(words)
        if word.lower() not in harmless
        and (word.lower() not in FUNCTION_WORDS or (place > 0 and len(word) == 1 and word.isupper()))
        and not (numeric and has_digit(word) and word.lower() in asked)
        and not _same_number(word, check)
    ]
    telling = [word for word in left if word.lower() not in asked] or left
    single = [
        (word,) for word in telling if is_strong(word) and (has_digit(word) or word != words[0] or len(telling) == 1)
    ]
    return [*single, tuple(telling)] if telling else []


def _same_number(word: str, check: CaseCheck) -> bool:
    value = number_in(word)
    return value is not None and any(number_in(line) == value for line in check.value.splitlines())


def _replaced(wrong: Sequence[str], expected: Sequence[str], check: CaseCheck) -> list[str]:
    """Return the words of a long wrong answer that the expected one replaces by the value of the check."""
    values = {word.lower() for word in tokens(check.value)}
    if len(wrong) * len(expected) > _MOST_PAIRS:
        return []
    matcher = SequenceMatcher(None, [w.lower() for w in wrong], [w.lower() for w in expected], autojunk=False)
    return [
        word
        for kind, start, end, other_start, other_end in matcher.get_opcodes()
        if kind == "replace"
        and end - start <= max(_LONGEST_REPLACED, 2 * (other_end - other_start))
        and values & {w.lower() for w in expected[other_start:other_end]}
        for word in wrong[start:end]
    ]


def _repeats(answer: str, wrong: str, expected: str) -> bool:
    """Whether the answer contains the whole wrong one, unless that is only a part of the right one."""
    said, rejected = _squeezed(answer).casefold(), _squeezed(wrong).casefold().strip(" .!")
    if not rejected or rejected in _squeezed(expected).casefold():
        return False
    return re.search(rf"(?<![\w.\-/]){re.escape(rejected)}(?![\w\-/]|[.,:]\w)", said) is not None


def _alternatives(question: str) -> list[tuple[list[list[str]], list[str]]]:
    """Return the options around each "or" in a question as words: before it, split at commas, and after it."""
    found = []
    for sentence in SENTENCE_END.split(question):
        parts = _OR.split(sentence)
        for place in range(1, len(parts)):
            before = [tokens(part) for part in parts[place - 1].split(",")]
            after = tokens(parts[place].split(",")[0])
            kept = [before[-1]]
            for segment in reversed(before[:-1]):
                if len(before) == 1 or (len(segment) > 4 or _asks(segment)):
                    break
                kept.insert(0, segment)
            if all(kept) and after:
                found.append((kept, after))
    return found


def _asks(words: Sequence[str]) -> bool:
    first = words[0].lower() if words else ""
    return first.startswith("wh") or first in ("how", "in", "to", "from", "for", "on", "at", "does", "do", "did", "can")


def _names(option: Sequence[str], value: str) -> bool:
    text = " ".join(option)
    lines = value.splitlines()
    return bool(lines) and any(holds(text, line) for line in lines)


def _telling(
    option: Sequence[str], own: Sequence[str], value: str, *, from_end: bool, own_at_end: bool
) -> tuple[str, ...]:
    """Return the words of another option that are not in the right one, as many as the right one has."""
    wanted = {word.lower() for word in tokens(value)}
    places = [at for at, word in enumerate(own) if word.lower() in wanted]
    if not places:
        return ()
    length = len(own) - places[0] if own_at_end else places[-1] + 1
    own_words = {word.lower() for word in own}
    for count in range(length, len(option) + 1):
        words = option[len(option) - count :] if from_end else option[:count]
        telling = [
            word
            for at, word in enumerate(words)
            if word.lower() not in own_words
            and (word.lower() not in FUNCTION_WORDS or (len(word) == 1 and word.isupper() and (at > 0 or count == 1)))
        ]
        if telling:
            return tuple(telling)
    return ()


def _squeezed(text: str) -> str:
    return " ".join(text.split())


_LEAST_WORDS_TO_JUDGE = 3
"""Words of a correction, beyond function words, without which a judge would not know what to look for."""


def cases_of(
    trace: Mapping[str, Any], *, trace_id: str = "", made_at: str = "", can_be_asked_again: bool = False
) -> tuple[SkillCase, ...]:
    """Return the cases of a standard trace, without using a model.

    Each correction yields one case; a trace without corrections yields one if it was scored, by an environment or
    against a ground truth. A question that was answered with tools cannot be asked again without them, so a scored
    trace with tool calls yields no such case, and neither does a correction whose right answer came from a tool. If
    code cannot distinguish the right answer from the wrong one, the check is left to a judge. Each failed call that
    teaches something yields a case, too, which asks for the call: see `failed_calls`.

    Args:
        trace: The result of `read_trace`.
        trace_id: The name of the trace, which is stored with each case.
        made_at: The time, which is stored with each case: ISO 8601, UTC.
        can_be_asked_again: Whether the cases will be asked of the agent that produced the trace, with its tools. Then
            a scored trace yields a case in spite of its tool calls.

    Example:
        >>> [case.check for case in cases_of({"question": "6*7?", "answer": "41", "ground_truth": "42"})]
        [CaseCheck(kind='numeric', value='42')]
    """
    corrections: Sequence[TraceCorrection] = trace.get("corrections") or ()
    steps: Sequence[TraceStep] = trace.get("steps") or ()
    truth, check = trace.get("ground_truth") or "", _check_in(trace)
    is_judged = bool(trace.get("question")) and (check is not None or bool(truth and not _by_dialogue(corrections)))
    found: list[SkillCase | None]
    if is_judged and (can_be_asked_again or not any(step["kind"] == "call" for step in steps)):
        found = [_judged(trace, truth, check)]
    else:
        # The feedback of a judged trace may come from the judge, who saw what the tools did; what was said did not.
        said = [correction for correction in corrections if not is_judged or correction["place"] != "feedback"]
        found = [_corrected(correction, steps, trace.get("context") or "") for correction in said]
    found += call_cases(steps, trace.get("question") or "")
    unique = {case.id: case for case in found if case is not None}
    return tuple(_placed(case, trace_id, made_at) for case in unique.values())


def _by_dialogue(corrections: Sequence[TraceCorrection]) -> bool:
    return any(correction["place"] != "feedback" for correction in corrections)


def _check_in(trace: Mapping[str, Any]) -> CaseCheck | None:
    """Return the check with which an environment scored the answer, if the trace contains it."""
    check = trace.get("check")
    if (
        not isinstance(check, Mapping)
        or check.get("kind") not in CHECK_KINDS
        or not isinstance(check.get("value"), str)
        or (check["kind"] == "regex" and not _is_pattern(check["value"]))
    ):
        return None
    return CaseCheck(check["kind"], check["value"])


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _judged(trace: Mapping[str, Any], truth: str, check: CaseCheck | None) -> SkillCase:
    check = check or check_for(truth)
    answer = trace.get("answer") or ""
    passed = check_passes(check, answer, question=trace["question"])
    if passed is None:
        passed = _was_correct(trace)
    return SkillCase.make(
        trace["question"],
        check,
        context=trace.get("context") or "",
        wrong="" if passed else answer,
        correction=trace.get("feedback") or "",
        expected=truth,
    )


def _was_correct(trace: Mapping[str, Any]) -> bool:
    rest = trace.get("rest")
    for holder in (trace, rest if isinstance(rest, Mapping) else {}):
        metrics = holder.get("metrics")
        if isinstance(metrics, Mapping) and isinstance(metrics.get("correct"), int | float):
            return float(metrics["correct"]) >= 1.0
    return trace.get("success") is True


def _corrected(correction: TraceCorrection, steps: Sequence[TraceStep], context: str) -> SkillCase | None:
    question, wrong, said, right = (correction[name] for name in ("question", "wrong", "correction", "right"))
    context = context if correction["place"] == "feedback" else ""

    def case(check: CaseCheck) -> SkillCase:
        return SkillCase.make(
            question, check, context=context, wrong=wrong, correction=said, expected=right, evidence="person"
        )

    if right:
        check = check_of_correction(question, wrong, said, right)
        if check is not None:
            if _came_from_a_tool(check, correction, steps):
                return None
            return case(check)
    if len(content_words(said)) < _LEAST_WORDS_TO_JUDGE:
        return None
    return case(CaseCheck("judge", f"Does the answer do what this correction asks for? The correction: {said}"))


def _came_from_a_tool(check: CaseCheck, correction: TraceCorrection, steps: Sequence[TraceStep]) -> bool:
    """Whether tools were called after the correction, and the value of the check is not in the correction."""
    if check.kind in ("contains", "numeric") and all(
        holds(correction["correction"], value) for value in check.value.splitlines()
    ):
        return False
    places = [at for at, step in enumerate(steps) if step["place"] == correction["place"] and step["name"] == "user"]
    for step in steps[places[0] + 1 :] if places else ():
        if step["kind"] == "message" and step["name"] == "user":
            return False
        if step["kind"] == "call":
            return True
    return False


def _placed(case: SkillCase, trace_id: str, made_at: str) -> SkillCase:
    return SkillCase(**{**case.__dict__, "trace_id": trace_id, "made_at": made_at})
