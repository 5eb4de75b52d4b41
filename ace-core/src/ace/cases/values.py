"""The deciding values of a case: numbers, codes, names and phrases that the correction introduced."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from ace.cases.recoveries import call_terms, named_by_error
from ace.retrieval import words
from ace.skill import SkillCase

__all__ = [
    "FUNCTION_WORDS",
    "SENTENCE_END",
    "SPELLINGS",
    "competes",
    "content_words",
    "deciding_values",
    "has_digit",
    "holds",
    "inverted_number",
    "is_strong",
    "keeps",
    "missing_values",
    "number_in",
    "numbers_in",
    "right_values",
    "tokens",
    "with_example",
    "worked_example",
]

_TOKEN: Final = re.compile(
    r"(?:(?<!\d)\d+(?:,\d+)+(?!\d)|(?<=[^\W\d_])['’](?=[^\W\d_])|[^\s,;!?\"'()\[\]{}<>`*“”„‘’«»—–…])+"  # noqa: RUF001
)
SENTENCE_END: Final = re.compile(r"(?<=[.!?:;])\s+|\n+")
_CLAUSE_END: Final = re.compile(r"(?<=[.!?:;])\s+|\n+|\b(?:otherwise|else|but)\b", re.IGNORECASE)
_CODE_MARKS: Final = "/-_#@=\\+"
_FUNCTION_WORD_LIST: Final = (
    "a an the of in on at to for is are was were be been it its it's this that that's these those then than and or so "
    "as by with not no yes do does did has have had must should shall into from you we i i'm i'll me my our your their "
    "his her they he she him us them all any each every always never again wrong right correct understood up only just "
    "also too what which who whom when where how why there here will would can could may might please sorry put now if "
    "but because since about after before until over under out off per via such like instead rather first next finally "
    "afterwards"
)
FUNCTION_WORDS: Final = frozenset(_FUNCTION_WORD_LIST.split())
"""Words that are never a value by themselves."""
_PLAIN_VERB_LIST: Final = (
    "ask asks be call calls do does get gets give gives go goes handle handles make makes need needs pass say says "
    "send sends take takes tell tells use uses want wants write writes"
)
_PLAIN_VERBS: Final = frozenset(_PLAIN_VERB_LIST.split())
"""Verbs that only carry the value of an answer, such as "call" in "call Halvorsen"."""
_TITLES: Final = frozenset(("mr", "mrs", "ms", "miss", "dr", "prof", "nurse", "sir", "madam", "captain"))
_MOST_CHARACTERS: Final = 4000
"""Of a longer answer or correction, such as one with a log in it, the values are looked for in the beginning."""
_LONGEST_RUN: Final = 20
_LONGEST_PHRASE: Final = 100
"""Words. A longer value is compared as a text: its spellings are not what decides."""
_LONGEST_EXAMPLE: Final = 160
"""Characters of a question or an answer in a worked example; three of them have to fit into a small prompt."""

_UNITS: Final = (
    ("km", "kilometre", "kilometres", "kilometer", "kilometers"),
    ("m", "metre", "metres", "meter", "meters"),
    ("cm", "centimetre", "centimetres", "centimeter", "centimeters"),
    ("mm", "millimetre", "millimetres", "millimeter", "millimeters"),
    ("kg", "kilo", "kilos", "kilogram", "kilograms", "kilogramme", "kilogrammes"),
    ("g", "gram", "grams", "gramme", "grammes"),
    ("l", "litre", "litres", "liter", "liters"),
    ("ml", "millilitre", "millilitres", "milliliter", "milliliters"),
    ("h", "hr", "hrs", "hour", "hours"),
    ("min", "mins", "minute", "minutes"),
    ("s", "sec", "secs", "second", "seconds"),
    ("%", "percent", "per cent"),
    ("kWh", "kilowatt hour", "kilowatt hours"),
    ("°C", "degrees celsius"),
    ("€", "EUR", "euro", "euros"),
    ("$", "USD", "dollar", "dollars"),
)
SPELLINGS: Final = {name.casefold(): names for names in _UNITS for name in names}
"""The spellings of a unit, its symbol first, by each of them."""
_SHORT_UNITS: Final = "|".join(re.escape(names[0]) for names in _UNITS)

_DIGITS: Final = "\\d{1,3}(?:[,.'\u00a0\u202f]\\d{3})+(?:[.,]\\d+)?|\\d+(?:[.,]\\d+)?"
_NUMBER: Final = re.compile(
    rf"(?<![\w.])(?<!\w[,:/\-])([-\u2212]?(?:{_DIGITS}))"
    rf"(?:(?:{_SHORT_UNITS})(?![\w%]))?(?![\w])(?![.,:/'’]\w)(?!-)"  # noqa: RUF001
)
_NUMBER_WORDS: Final = {
    word: Decimal(value)
    for value, word in enumerate(
        ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 2
    )
}


def tokens(text: str) -> list[str]:
    """Return the words, numbers and codes of a text as written, without surrounding punctuation.

    Args:
        text: Any text.

    Example:
        >>> tokens("It is Tove's K7-BLUE, at 14:30.")
        ['It', 'is', 'Tove', 'K7-BLUE', 'at', '14:30']
    """
    found = (token.strip(".:'’") for token in _TOKEN.findall(text))  # noqa: RUF001
    return [re.sub(r"['’]s$", "", token) for token in found if token]  # noqa: RUF001


def number_in(text: str) -> Decimal | None:
    """Return the value of a text that is only a number; None for codes such as 007 or +493012345.

    A comma or a point before exactly three digits is a thousands separator if it is a comma or occurs more than once;
    before any other number of digits it is the decimal mark.

    Example:
        >>> [str(number_in(text)) for text in ("12.0", "12,5", "1,234.5", "1.234,5", "1,200", "007", "14:30")]
        ['12.0', '12.5', '1234.5', '1234.5', '1200', 'None', 'None']
    """
    digits = text.strip().replace("\u2212", "-")
    if not re.fullmatch(rf"-?(?:{_DIGITS})", digits) or (
        not digits.isascii() and not re.search("[\u00a0\u202f]", digits)
    ):
        return None
    digits = re.sub("['\u00a0\u202f]", "", digits)
    if re.match(r"-?0\d", digits):
        return None
    if "," in digits and "." in digits:
        thousands = "," if digits.rfind(".") > digits.rfind(",") else "."
        digits = digits.replace(thousands, "")
    elif digits.count(".") > 1 or re.fullmatch(r"-?[1-9]\d{0,2}(?:,\d{3})+", digits):
        digits = re.sub("[.,]", "", digits)
    return Decimal(digits.replace(",", "."))


def numbers_in(text: str) -> list[Decimal]:
    """Return the numbers in a text by value, except for parts of codes, dates, times and versions.

    Args:
        text: Any text.

    Example:
        >>> [str(number) for number in numbers_in("2 of 12.50 km at 14:30 on 2024-05-03, tag 88-ML, 40%")]
        ['2', '12.50', '40']
    """
    values = (number_in(match) for match in _NUMBER.findall(text))
    return [value for value in values if value is not None]


def holds(text: str, value: str) -> bool:
    """Return whether a text contains a value as a whole: a number by value, words and codes at word boundaries.

    Args:
        text: An answer, or a rule.
        value: A number, a code, a name or a phrase.

    Example:
        >>> holds("It is 12.0 km", "12"), holds("K7-BLUE", "K7"), holds("at 14:30", "14"), holds("7%", "7 percent")
        (True, False, False, True)
    """
    wanted = number_in(value)
    if wanted is not None:
        if wanted in numbers_in(text):
            return True
        return any(_NUMBER_WORDS.get(word.casefold()) == wanted for word in tokens(text))
    words = value.split()
    if not words:
        return False
    if len(words) == 1 and len(words[0]) == 1 and words[0].isalpha():
        return _holds_letter(text, words[0])
    return _holds_phrase(text, words)


def right_values(question: str, wrong: str, correction: str, right: str) -> tuple[str, ...]:
    """Return what a correct answer must contain: the values in the accepted answer that the wrong one lacks.

    Values that also appear in the correction come first, and numbers, codes and names come before other words; phrases
    are not split. If a number was corrected and the correction only explains how to compute it, it is that number.

    Args:
        wrong: The answer that was corrected.
        right: The accepted answer.

    Example:
        >>> right_values("When is high water?", "2:30 pm", "Write it as 14h30.", "It is 14h30.")
        ('14h30',)
        >>> right_values("How many km is 8600?", "8600 km", "These are metres: divide by 1000.", "8.6 km")
        ('8.6',)
        >>> right_values("Last words to a sponsor?", "Best regards", "Sponsors get Fair winds.", "Fair winds")
        ('Fair winds',)
    """
    result = _without_calculation(right[:_MOST_CHARACTERS])
    asked = {word.lower() for word in tokens(question)}
    spoken = _lowered_sentences(correction[:_MOST_CHARACTERS])
    words = _NewWords(result, wrong)
    common = [run for run in _runs(words, spoken) if any(word.lower() not in asked for word in run)]
    strong = [run for run in common if any(is_strong(word) and word.lower() not in asked for word in run)]
    computed = [w for w in words.new if has_digit(w) and w.lower() not in asked]
    numeric = any(has_digit(word) for word in tokens(wrong))
    known = _runs(words, spoken)
    forms = {_form(word) for word in tokens(wrong) if is_strong(word)}
    same = [run for run in known if any(is_strong(word) and _form(word) in forms for word in words.new_in(run))]
    codes = [word for word in words.new if is_strong(word) and word.lower() not in asked]
    choices: tuple[Sequence[str], ...] = (
        [_trimmed(run, words, asked) for run in strong],
        computed if numeric else (),
        [_trimmed(run, words, ()) for run in same],
        [value for run in common if (value := _trimmed(run, words, asked)).lower() not in _PLAIN_VERBS],
        [_trimmed(run, words, ()) for run in known],
        computed,
        codes,
        words.new,
    )
    return tuple(dict.fromkeys(value for value in next((choice for choice in choices if choice), ()) if value))


def deciding_values(case: SkillCase) -> tuple[str, ...]:
    """Return the values of the correction that a rule must contain: those that are not in the question.

    They are the numbers, codes and names in sentences that state what is right, the numbers in comparisons, and the
    phrases that the right answer adopts from the correction. Of a case about a call, they are the values of the call
    that worked which the error named.

    Example:
        >>> from ace.skill import CaseCheck
        >>> case = SkillCase.make(
        ...     "Who signs the contract over 12,000 dollars?", CaseCheck("contains", "Petersen"), wrong="Anna",
        ...     correction="No, contracts above 10,000 dollars are signed by Petersen.", expected="Petersen",
        ... )
        >>> deciding_values(case)
        ('10,000', 'Petersen')
    """
    if case.check.kind == "call":
        return named_by_error(case)
    correction = case.correction[:_MOST_CHARACTERS]
    right = right_values(case.question, case.wrong, correction, case.expected) if correction else ()
    in_question = set(tokens(case.question))
    numbers = sorted((word for word in in_question if has_digit(word)), key=len, reverse=True)
    rejected = {word.lower() for word in tokens(case.wrong)} - {word.lower() for word in tokens(case.expected)}
    found: list[str] = []
    for sentence, decides in _judged_sentences(correction, right):
        for place, word in enumerate(tokens(sentence)):
            if not decides and not has_digit(word):
                continue
            if not _is_value(word, place) or word.lower() in rejected or _is_asked(word, in_question, right):
                continue
            found += _without_numbers_of_the_question(word, numbers)
    spoken = " ".join(sentence for sentence, _ in _judged_sentences(correction, right))
    asked = {word.lower() for word in in_question}
    offered = re.search(r"\bor\b", case.question) is not None
    phrases = [
        value for value in right if holds(spoken, value) and (offered or not set(value.lower().split()) <= asked)
    ]
    inside = {word.lower() for phrase in phrases for word in phrase.split() if len(phrase.split()) > 1}
    # A phrase that holds a value comes in the place of the value.
    kept = [value for value in found if value.lower() not in inside]
    return tuple(dict.fromkeys([*kept, *(phrase for phrase in phrases if not _is_of_the_case(phrase, numbers))]))


def missing_values(text: str, case: SkillCase) -> tuple[str, ...]:
    """Return the deciding values of a case that a rule does not contain.

    Args:
        text: The rule.
        case: The case that it was learned from.

    Example:
        >>> from ace.skill import CaseCheck
        >>> case = SkillCase.make("High water?", CaseCheck("contains", "14h30"), correction="Write it as 14h30.",
        ...                       wrong="2:30 pm", expected="14h30")
        >>> missing_values("When a tide is written, use 24 hours.", case)
        ('14h30',)
    """
    return tuple(value for value in deciding_values(case) if not keeps(text, value))


def keeps(text: str, value: str) -> bool:
    """Return whether a rule contains a deciding value, which may be a part of a code or of a path.

    Args:
        text: The rule.
        value: One of `deciding_values`.

    Example:
        >>> keeps("Cards end in -ML.", "-ML"), keeps("Deliver within 15 minutes.", "5")
        (True, False)
    """
    # What is left of a code without the number of its case, such as -ML, is only ever a part of a word.
    is_part = value[:1] in _CODE_MARKS + "." or value[-1:] in _CODE_MARKS + "."
    return value.lower() in text.lower() if is_part else holds(text, value) or value in call_terms(text)


def inverted_number(text: str, case: SkillCase) -> str:
    """Return the number of a correction that a rule assigns to the wrong alternative; empty if there is none.

    Small models invert conditions. This is only detected if the correction names one of the two answers in the clause
    with the number, and the rule names the other one. A rule that correctly states the opposite condition is also taken
    for an inverted one.

    Args:
        text: The rule.
        case: The case that it was learned from.

    Example:
        >>> from ace.skill import CaseCheck
        >>> case = SkillCase.make("A boat of 6 metres: pier A or pier C?", CaseCheck("contains", "A"), wrong="Pier C",
        ...                       correction="Pier C is for boats longer than 9 metres.", expected="Pier A")
        >>> inverted_number("Boats longer than 9 metres moor at pier A, others at pier C.", case)
        ''
        >>> inverted_number("Boats longer than 9 metres moor at pier A; others at pier C.", case)
        '9'
    """
    if case.check.kind == "call":
        return ""
    right = right_values(case.question, case.wrong, case.correction, case.expected) if case.correction else ()
    expected_words = {word.lower() for word in tokens(case.expected)}
    wrong = [word for word in tokens(case.wrong) if is_strong(word) and word.lower() not in expected_words]
    for number in (value for value in deciding_values(case) if number_in(value) is not None):
        said = _answers_beside(case.correction, number, right, wrong)
        beside = _answers_beside(text, number, right, wrong)
        if said[0] != said[1] and beside[0] != beside[1] and said != beside:
            return number
    return ""


def _answers_beside(text: str, number: str, right: Sequence[str], wrong: Sequence[str]) -> tuple[bool, bool]:
    """Return whether a clause with a number contains the right answer, and whether one contains the wrong one."""
    clauses = [clause for clause in _CLAUSE_END.split(text) if holds(clause, number)]
    has_right = any(holds(clause, value) for clause in clauses for value in right)
    return has_right, any(holds(clause, value) for clause in clauses for value in wrong)


def worked_example(case: SkillCase) -> str:
    """Return the case as one line that shows the right answer to its question.

    Long texts are truncated to the line with the value of the check. Without a known answer, the result is empty. The
    wrong answer and the failed call are not shown, because small models copy them.

    Example:
        >>> from ace.skill import CaseCheck
        >>> worked_example(SkillCase.make("High water?", CaseCheck("contains", "14h30"), expected="14h30"))
        'Example: High water? -> 14h30'
    """
    if case.check.kind == "call":
        return f"Example: {_shown(case.question, ())} -> {case.expected}" if case.expected else ""
    values = case.check.value.splitlines() if case.check.kind in ("contains", "any_of", "numeric", "exact") else []
    answer = _shown(case.expected, values) or _shown(" ".join(values), ())
    return f"Example: {_shown(case.question, ())} -> {answer}" if answer else ""


def with_example(text: str, case: SkillCase) -> str:
    """Return the text of a skill with the worked example of a case after it; unchanged if it has it, or there is none.

    Example:
        >>> from ace.skill import CaseCheck
        >>> case = SkillCase.make("High water?", CaseCheck("contains", "14h30"), expected="14h30")
        >>> with_example("Write times with an h.", case).endswith("High water? -> 14h30")
        True
    """
    example = worked_example(case)
    return text if not example or example in text else f"{text} {example}"


def competes(text: str, case: SkillCase, own: Sequence[str]) -> bool:
    """Return whether a text can change the answer to a case that the agent gives with other texts.

    It can if it fits the question better than they do, by the words that it shares with the question, or if it
    contains the wrong answer of the case.

    Args:
        text: The text of a skill.
        case: The case of another skill.
        own: The texts of the skills that have the case.

    Example:
        >>> from ace.skill import CaseCheck
        >>> case = SkillCase.make("Who signs an offer?", CaseCheck("contains", "Ann"), wrong="Ben", expected="Ann")
        >>> own = ["An offer is signed by Ann."]
        >>> competes("Offers of spare parts are signed by Ben.", case, own), competes("Dogs bark.", case, own)
        (True, False)
    """
    asked, found = _vocabulary(case.question), _vocabulary(text)
    best = max((len(asked.stems & _vocabulary(other).stems) for other in own), default=0)
    if len(asked.stems & found.stems) > best:
        return True
    return not found.words.isdisjoint(_vocabulary(case.wrong).values - _vocabulary(case.expected).words - asked.words)


class _Vocabulary(NamedTuple):
    """The words of a text in lower case."""

    words: frozenset[str]
    stems: frozenset[str]
    """The stems of all but function words."""
    values: frozenset[str]
    """The numbers, codes and names."""


@functools.lru_cache(maxsize=20_000)
def _vocabulary(text: str) -> _Vocabulary:
    found = tokens(text)
    stems = frozenset(words(" ".join(content_words(text))))
    return _Vocabulary(frozenset(map(str.lower, found)), stems, frozenset(map(str.lower, filter(is_strong, found))))


def content_words(text: str) -> list[str]:
    """Return the words of a text, in lower case, without function words.

    Args:
        text: Any text.
    """
    return [word.lower() for word in tokens(text) if word.lower() not in FUNCTION_WORDS]


def has_digit(word: str) -> bool:
    """Return whether a word contains a digit."""
    return any(character.isdigit() for character in word)


def is_strong(word: str) -> bool:
    """Return whether the form of a word makes it a value: a number, a code, an abbreviation or a name.

    Args:
        word: A token.
    """
    if word.lower() in FUNCTION_WORDS:
        return False
    return has_digit(word) or any(mark in word for mark in _CODE_MARKS) or word[:1].isupper()


class _NewWords:
    """The words of the accepted answer, and those among them that the wrong answer lacks."""

    def __init__(self, right: str, wrong: str) -> None:
        self.all = tokens(right)
        self.wrong = {word.lower() for word in tokens(wrong)}
        self._exact = set(tokens(wrong))
        self.places = [place for place in range(len(self.all)) if self._is_new(place)]
        if not self.places:
            # Only the case of letters differs, or a single function word such as "No".
            short = len(self.all) <= 2
            self.places = [
                place
                for place, word in enumerate(self.all)
                if (short and word.lower() not in self.wrong)
                or (word not in self._exact and word.lower() in self.wrong and word.lower() not in FUNCTION_WORDS)
            ]
        self.new = [self.all[place] for place in self.places]

    def new_in(self, run: Sequence[str]) -> list[str]:
        """Return the new words in a sequence of words."""
        return [word for word in run if word in self.new]

    def _is_new(self, place: int) -> bool:
        word = self.all[place]
        if word.lower() in self.wrong:
            return False
        return word.lower() not in FUNCTION_WORDS or _is_letter_code(word, place)


def _runs(words: _NewWords, spoken: Sequence[list[str]]) -> list[list[str]]:
    """Return the longest sequences of words that the answer and the correction share and that contain a new word."""
    runs: list[list[str]] = []
    place = 0
    while place < len(words.all):
        length = _longest(words.all, place, spoken)
        for run_start, run_end in _parts(words.all, place, place + length):
            if any(run_start <= new < run_end for new in words.places):
                runs.append(words.all[run_start:run_end])
        place += max(1, length)
    return runs


def _longest(right: Sequence[str], place: int, spoken: Sequence[list[str]]) -> int:
    best = 0
    lowered = [word.lower() for word in right[place : place + _LONGEST_RUN]]
    for sentence in spoken:
        for start, word in enumerate(sentence):
            if word != lowered[0]:
                continue
            length = 0
            while (
                length < len(lowered) and start + length < len(sentence) and lowered[length] == sentence[start + length]
            ):
                length += 1
            best = max(best, length)
    return best


def _parts(words: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    """Split a sequence at its function words: "depot in Lund" names two things."""
    parts: list[tuple[int, int]] = []
    first = start
    for place in range(start, end + 1):
        cut = place == end or (
            words[place].lower() in FUNCTION_WORDS and not _is_letter_code(words[place], place) and end - start > 1
        )
        if cut:
            if place > first:
                parts.append((first, place))
            first = place + 1
    return parts


def _trimmed(run: Sequence[str], words: _NewWords, asked: Collection[str]) -> str:
    """Return a sequence without the words at its ends that also appear in the wrong answer or the question."""
    kept = list(run)

    stems = {word[:4].lower() for word in (*words.wrong, *asked) if len(word) > 3}

    def is_extra(word: str) -> bool:
        lowered = word.lower()
        known = lowered in words.wrong or lowered in asked or (len(word) > 3 and lowered[:4] in stems)
        return (known or lowered in _PLAIN_VERBS) and not has_digit(word)

    while len(kept) > 1 and is_extra(kept[0]) and any(not is_extra(word) for word in kept[1:]):
        kept.pop(0)
    while len(kept) > 1 and is_extra(kept[-1]) and any(not is_extra(word) for word in kept[:-1]):
        kept.pop()
    while len(kept) > 1 and kept[0].lower() in _TITLES and is_strong(kept[1]):
        kept.pop(0)
    return " ".join(kept)


def _lowered_sentences(text: str) -> list[list[str]]:
    return [[word.lower() for word in tokens(part)] for part in re.split(r"(?<=[.!?])\s+|\n+|[,;]\s+", text)]


_CALCULATION: Final = re.compile(
    r"(?<![\d.,])[\d.,]++\s*+\S{0,12}\s*+(?:/|÷|\*|x|×|\+|-|divided by|times|plus|minus|multiplied by)\s*"  # noqa: RUF001
    r"[\d.,]+[^=.;\n]{0,20}?(?:=|\bis\b|\bare\b|\bgives\b|\bmakes\b|\bequals\b)\s*",
    re.IGNORECASE,
)


def _without_calculation(text: str) -> str:
    """Return an answer without its calculation, such as "8600 / 1000 =", whose numbers are not the answer."""
    return _CALCULATION.sub("", text)


def _judged_sentences(correction: str, right: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the sentences with deciding values, and whether they state what is right.

    They also do so if they state when something else is right, such as "ERROR only if data is lost". Of mere
    comparisons, such as "Pier C is kept for boats longer than 9 metres", only the numbers are values.
    """
    sentences = [sentence for sentence in SENTENCE_END.split(correction) if sentence.strip()]
    decisive = {sentence for sentence in sentences if any(holds(sentence, value) for value in right)}
    if not decisive:
        return [(sentence, True) for sentence in sentences]
    decisive |= {sentence for sentence in sentences if _CONDITION.search(sentence)}
    return [
        (sentence, sentence in decisive)
        for sentence in sentences
        if sentence in decisive or _COMPARISON.search(sentence)
    ]


_CONDITION: Final = re.compile(r"\b(only (if|when|where|for|in|on)|unless|except)\b", re.IGNORECASE)
_COMPARISON: Final = re.compile(
    r"\b(than|above|over|under|below|least|most|up to|more|less|fewer|from|until|before|after|within|between|per|"
    r"every|older|younger|longer|shorter|exceed\w*|minimum|maximum|divide\w*|multipl\w*|times|add|minus|plus)\b|%",
    re.IGNORECASE,
)


def _is_value(word: str, place: int) -> bool:
    if word.lower() in FUNCTION_WORDS and not _is_letter_code(word, place):
        return False
    return (
        has_digit(word)
        or any(mark in word for mark in _CODE_MARKS if mark not in "-/" or word.startswith(mark) or word.isupper())
        or word.endswith("/")
        or (word[:1].isupper() and place > 0)
        or (len(word) > 1 and word.isupper())
    )


def _is_asked(word: str, in_question: set[str], right: Sequence[str]) -> bool:
    """Whether a word is in the question, possibly in another form, such as Sweden and Swedish."""
    if has_digit(word):
        return False
    if any(word.lower() in value.lower().split() for value in right):
        return False
    if word.isalpha() and len(word) > 4:
        return any(other[:4].lower() == word[:4].lower() for other in in_question)
    return word in in_question


def _without_numbers_of_the_question(word: str, numbers: Sequence[str]) -> list[str]:
    """Return the parts of a word without the number of this one case: board_ and .md for board_14.md."""
    if word in numbers:
        return []
    pattern = "|".join(rf"(?<!\d){re.escape(number)}(?!\d)" for number in numbers)
    if not numbers or not re.search(pattern, word):
        return [word]
    parts = [part for part in re.split(pattern, word) if part]
    # A letter by itself is in every text, and a number that is left was made from the question, as a month is.
    return [] if any(has_digit(part) for part in parts) else [part for part in parts if len(part) > 1]


def _is_of_the_case(value: str, numbers: Sequence[str]) -> bool:
    """Whether a value contains a number of this one question, so that a rule does not have to contain it."""
    return any(re.search(rf"(?<!\d){re.escape(number)}(?!\d)", value) for number in numbers)


def _is_letter_code(word: str, place: int) -> bool:
    """Whether a single letter is a name, such as the A of "pier A", rather than the article at the start."""
    return place > 0 and len(word) == 1 and word.isupper() and word != "I"


def _form(word: str) -> str:
    """Return the form of a value: LP-2 and LP-9 have the same form, and so have all names."""
    if not has_digit(word):
        return "name"
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", word))


def _holds_letter(text: str, letter: str) -> bool:
    """Whether a text contains a single letter as a name. The article at the start of a sentence is not the name A."""
    if text.strip(" .!\n").casefold() == letter.casefold():
        return True
    for found in re.finditer(_bounded(re.escape(letter)), text):
        starts = not text[: found.start()].strip() or text[: found.start()].rstrip().endswith((".", "!", "?"))
        if not (letter in "AI" and starts and re.match(r"\s+[a-z]", text[found.end() :])):
            return True
    return False


def _holds_phrase(text: str, words: Sequence[str]) -> bool:
    if len(words) > _LONGEST_PHRASE:
        return " ".join(words).casefold() in " ".join(text.split()).casefold()
    numbers: list[tuple[int, Decimal]] = []
    pattern = ""
    for place, word in enumerate(words):
        value = number_in(word)
        spellings = SPELLINGS.get(word.casefold(), ())
        follows_number = bool(numbers) and numbers[-1][0] == place - 1
        gap = "" if not place else r"\s*" if follows_number and spellings else r"\s+"
        if value is not None:
            numbers.append((place, value))
            pattern += rf"{gap}(?P<number{place}>[-\u2212]?(?:{_DIGITS}))"
        elif spellings and follows_number:
            pattern += gap + "(?:" + "|".join(re.escape(spelling.casefold()) for spelling in spellings) + ")"
        else:
            pattern += gap + re.escape(word.casefold())
    folded = text.casefold()
    for found in re.finditer(_bounded(pattern), folded):
        if all(number_in(found[f"number{place}"]) == value for place, value in numbers):
            return True
    return False


def _bounded(pattern: str) -> str:
    """Return a pattern that matches a value, but not as a part of a longer code."""
    return rf"(?<![\w.\-/@\\#])(?<!\w:)(?:{pattern})(?![\w\-@/\\]|[.:,]\w|['’](?!s\b)\w)" if pattern else pattern  # noqa: RUF001


def _shown(text: str, values: Collection[str]) -> str:
    """Return a text as one line for a worked example; a long text is reduced to the line with the values."""
    whole = " ".join(text.split())
    if len(whole) <= _LONGEST_EXAMPLE:
        return whole
    telling = [
        " ".join(sentence.split()) for sentence in SENTENCE_END.split(text) if any(holds(sentence, v) for v in values)
    ]
    short = " ... ".join(sentence for sentence in telling if sentence)
    if short and len(short) <= _LONGEST_EXAMPLE:
        return f"... {short}"
    return f"{(short or whole)[: _LONGEST_EXAMPLE - 4].rstrip()} ..."
