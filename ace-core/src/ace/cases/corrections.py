"""Detects corrections by a person: in the steps of a trace, in a dialogue as text, and in feedback on an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Final, Literal

from ace.cases.values import FUNCTION_WORDS, content_words, has_digit, is_strong, number_in, right_values, tokens
from ace.traces import TraceCorrection, TraceStep, trace_step

__all__ = ["accepted_answer", "answer_in", "correction_in_feedback", "corrections_in", "steps_of_dialogue"]


def _pattern(*alternatives: str, before: str = "", after: str = "") -> re.Pattern[str]:
    """Return a pattern for one of several alternatives; a plain apostrophe in it matches a typographic one, too."""
    text = f"{before}(?:{'|'.join(alternatives)}){after}"
    return re.compile(text.replace("'", "['\u2019]"), re.IGNORECASE | re.MULTILINE)


_START: Final = r"\A\W*"
_ASIDE: Final = _pattern(
    r"thanks?|thank you|thx|cheers|great|perfect|good|nice|ok|okay|cool|awesome|excellent|wonderful|lovely|super",
    r"fine|all right|alright|got it|understood|i see|yes|yep|yeah|exactly|correct|right|looks good|well done",
    r"that(?:'s| is) (?:right|correct|good|great|fine|it|perfect)",
    r"no problem|no worries|no rush|no,? thanks?|no,? thank you|not bad|never mind|ha(?:ha)+|lol|wow",
    r"bye|goodbye|hello|hi|hey|good (?:morning|evening|afternoon|night)",
    before=_START + "(",
    after=r")\b[^.!?,;:\n]*[.!?,;:\n]*\s*",
)
"""Messages that do not concern the answer: thanks, praise, small talk."""
_AGREES: Final = _pattern(
    r"correct|right|exactly|yes|yep|yeah|that(?:'s| is) (?:right|correct|it)|well done", before=_START, after=r"\b"
)
_BUT: Final = _pattern("but", "however", "though", "except", "only that", "still", before=r"\b", after=r"\b")
_GREETING: Final = _pattern(
    r"hello|hi|hey|greetings", r"good (?:morning|evening|afternoon)", before=_START, after=r"\b[\w ]{0,20}\W*\Z"
)
_OBJECTION: Final = _pattern(
    r"(?:^|[.!?;:\u2013\u2014]\s*)(?:no|nope|nah|wrong|incorrect|false|not|never|stop|please (?:not|don't)|refused|"
    r"rejected|wait|actually|oops|nonsense|still wrong|hm+|ugh|careful|almost|nearly|close)\b(?!-)",
    r"\b(?:is|was|are|were|be)(?:n't| not) (?:right|correct|true|it|how|what|a|the|where|possible|allowed|let|our)\b",
    r"\b(?:that|this|it)'s (?:not|wrong|incorrect|false|outdated)\b",
    r"\b(?:is|was|are|were|still|sounds?|looks?) (?:\w+ )?(?:wrong|incorrect|false|outdated|mistaken|a mistake)\b",
    r"\b(?:is|was|are) closed\b",
    r"\b(?:should|must|has to|have to|ought to|needs to) (?:not |never )?(?:be|have|say|read|go|end|start|begin|use)\b",
    r"\bshould(?:n't| not)\b",
    r"\binstead\b|\brather than\b|\bno longer\b|\bany ?more\b|\bfar too\b",
    r"\byou(?:'ve| have)? (?:forgot|forgotten|missed|overlooked|left out|ignored|mixed|confused|misread)\b",
    r"\bi(?:'ve| have)?(?: already)? (?:said|told|meant|asked for|did ?n(?:o|')t (?:ask|want|mean))\b",
    r"\bi (?:can ?not|can't|could ?n(?:o|')t) (?:find|see|open|read|use)\b",
    r"\bwe (?:never|don't|do not)\b",
    r"\b(?:was|were|got|been|is) (?:rejected|refused|returned|bounced|sent back|declined|turned down)\b",
    r"\b(?:rejected|refused|bounced|returned) (?:it|that|this|them)\b",
    r"\b(?:does|did|do|can|could|will|would)(?:n't| ?not) (?:work|open|exist|know|accept|like|fit|match|take|find|"
    r"count|recogni[sz]e|load|start|print|arrive|go through)\b",
    r"\b(?:try|guess|think|look|count) again\b",
    r"\bgot stuck\b|\bblocked the\b|\bwent to\b.*!|\bnobody\b|\bno one\b|\bnot \w+ but\b|,\s*not\b",
    r"\b(?:right|correct) (?:answer|one|form|way|value|number|name|code) (?:is|would|was)\b",
)
_NORM: Final = _pattern(
    r"\b(?:always|never|must|only|has to|have to|needs?|requires?|the rule|our|us|we|here|belongs?|are|is for|means|"
    r"stands? for|go(?:es)? (?:to|into|in)|as in|such as|so it is|so that is|takes?|wants?|gets?|use|write|counts?|"
    r"begins?|starts?|ends?|carry|carries|expects?|sorts?|on weekdays|from now on)\b",
    r":\s*\S",
    r"we're a",
)
"""Words of a rule, rather than of a wish or a report."""
_TASK: Final = _pattern(
    "add|also(?! (?:no|not|wrong))|and|another|ask",
    "book|build|buy|calculate|cancel|check|close|commit|compare|compute|continue|convert|copy",
    "create|delete|deploy|describe|do|download|draft|draw|elaborate|email|explain|find|fix|forward|generate|get|give",
    "go|help|how about|implement|in more detail|install|let|list|look|mail|merge|move|name|next|now|one more|open",
    r"more(?=\W*\Z| (?:detail|about|of|on|example|please))",
    "order|plan|print|push|read|rebase|refactor|remind|repeat|reserve|review|run|same|schedule|search|send|shorten",
    "show|sing|sort|suggest|summari[sz]e|tell|test|the same|then|translate|try(?! again)|update|upload",
    "archive|assign|attach|pay|post|save|set|share|store|what about|what if|write",
    before=_START + r"(?:(?:please|could you|can you|would you|now|then|next|and|ok(?:ay)?),? )*",
    after=r"\b",
)
_NOUN_AFTER_ALL: Final = _pattern(
    r"\w+\b[^.!?]*?\b(?:go(?:es)?|is|are|takes?|needs?|must|belongs?|gets?|uses?|means?|has|have|costs?|ends?|starts?)",
    before=_START,
    after=r"\b",
)
"""A statement whose first word could be a request, such as "Book orders go to Ida"."""
_REVISION: Final = _pattern(
    r"(?:use|round|count|spell|capitali[sz]e|abbreviate|drop|omit|replace|swap|change|format|keep)\b",
    r"(?:always|never|do not|don't|just)\b",
    r"(?:write|make|call|name|say|spell|format) (?:it|that|this|them)\b.*\b(?:as|with|without|to|in|into|first)\b",
    r"(?:put|give|file|send) (?:it|that|this|them)\b.*\b(?:as|first|instead|under)\b",
    before=_START + "(?:please )?",
)
"""Requests for the same content in another form."""
_OWN: Final = _pattern(
    r"\bby the way",
    r"i|i'm|i've|i'll|i'd|my|mine|me|we'll|we'd|let's",
    r"we (?:went|saw|watched|had|ate|bought|tried|prefer|have|want|need|plan|will|would|live)",
    r"we are (?:going|planning|\d|two|three|four|five|six)",
    r"it is (?:raining|snowing|cold|hot|late)",
    r"it (?:runs|works|worked) now",
    before=_START + r"(?:by the way\W+|well,? )?",
    after=r"\b",
)
"""Remarks about the person."""
_OF_THE_ANSWER: Final = _pattern(
    r"(?:he|she|they|that|those|this)(?:'s)?\b(?! (?:worked|works|helps?|helped|is fine|is great|sounds|looks))",
    before=_START,
)
"""A statement about who or what the answer named: "He does divorces"."""
_FOR_THE_USER: Final = _pattern("my|me", before=r"\b", after=r"\b")
_ELLIPSIS: Final = _pattern("and|for|in|on|at|with|about|from|of|what about|how about", before=_START, after=r"\b")
_FOLLOW_UP: Final = _pattern("and|what about|how about|same for|the same|then|also|or", before=_START, after=r"\b")
_ASKS_THE_USER: Final = _pattern(
    r"\?\s*\Z",
    r"\A\W*(?:tell|give|send|show) me\b",
    r"\bplease (?:tell|give|provide|enter|specify)\b",
    r"\blet me know (?:how|which|what)\b",
)
_OFFER: Final = _pattern(
    r"(?:is there )?(?:any|some)thing else",
    r"(?:how |what )?(?:can|may) i (?:help|assist|do)",
    before=r"(?:\A|(?<=[.!?])\s+)",
    after=r"[^.!?]*\?\s*\Z",
)
"""A question that only closes an answer."""
_RHETORICAL: Final = _pattern(
    r"(?:is|was|are|were|should|did|does|do|has|have|must)n't\b",
    r"(?:is|was|should)(?: \w+){1,2} not\b",
    r"did i not\b",
    before=_START,
)
_APOLOGY: Final = _pattern(
    r"\byou(?:'re| are) (?:absolutely |quite |completely |of course )?right\b",
    r"\b(?:i'm |i am )?sorry\b(?! to hear)",
    r"\bapolog\w+|\bmy (?:mistake|bad|fault)\b|\bi stand corrected\b|\bcorrected\b|\bgood catch\b",
    r"\bthank(?:s| you) for (?:the correction|correcting|pointing)",
)
_FILLER: Final = _pattern(
    r"you(?:'re| are) welcome|glad\b|happy to|enjoy\b|nice to meet|good to know|sounds\b|congratulations|great\b",
    r"have (?:a|fun)|my pleasure|any ?time|no problem|thank you(?! for)|(?:good|nice),|bye|all right,",
    before=_START,
)
"""Answers of agents to small talk."""
_REPORT: Final = _pattern(
    r"done|added|booked|committed|closed|ordered|sent|installed|created|deleted|scheduled|saved|copied|moved",
    r"i(?:'ve| have)? (?:sent|added|booked|closed|ran|run|installed|created|deleted|ordered|committed|scheduled)",
    r"\w+ed (?:in|to|on|at|under|for|with|it|them)",
    r"(?:it|that|this)(?:'s| is) (?:done|booked|saved|sent|closed|(?:in|on) your)",
    before=_START,
    after=r"\b",
)
_PREAMBLE: Final = _pattern(
    r"oh|ah|oops|ok(?:ay)?|sure|of course|certainly|absolutely|understood|got it|noted|i see|indeed|right",
    r"(?:many )?thanks?(?: you)?(?: for [^.!,:\n]*)?",
    r"(?:i'm |i am )?(?:so |very |really |terribly )?sorry(?: (?:about|for) [^.!,:\n]*)?",
    r"my (?:mistake|bad|apologies|fault)",
    r"(?:my )?(?:sincere )?apologies(?: for [^.!,\n]*)?",
    r"i (?:do )?apologi[sz]e(?: for [^.!\n]*?)?",
    r"(?:yes,? )?you(?:'re| are) (?:absolutely |quite |completely |totally |of course )?(?:right|correct)",
    r"good (?:catch|point)|i stand corrected|corrected(?: version| answer)?|here(?:'s| is) the corrected [^:.!\n]*",
    r"let me (?:fix|correct) (?:that|it|this)|in that case|then",
    before=r"\A\s*(?:",
    after=r"\s*(?:[,.!;:\u2013\u2014]+|\s-(?=\s))\s*)+",
)
_AFTERWORD: Final = _pattern(
    r"is there|do you need|can i|may i|shall (?:i|we)|would you like|do you want|let me know|anything else",
    r"i(?:'ll| will| shall)(?: \w+)? (?:remember|keep|use|note|make sure|apply|follow|bear|do so|do that)",
    r"from now on|next time|in (?:the )?future|thank(?:s| you)|glad|happy to help|sorry|apolog|i(?:'m| am) sorry",
    r"i(?:'ve| have) (?:noted|made a note)|noted|understood",
    before=_START,
    after=r"\b",
)
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_QUOTES: Final = r"\"\x27`*\u201c\u201d"
_VALUE: Final = (
    rf"[{_QUOTES}]*(?P<value>[^\s{_QUOTES},;.!?](?:[^\"`*\u201c\u201d,;!?\n]|,(?=\d))*?)[{_QUOTES}]*"
    r"(?=\s*(?:[,;!?]\s|[,;!?.]*$|\.\s|\n|\s[-\u2013\u2014(]))"
)
_STATED: Final = _pattern(
    r"(?P<sure>\bshould (?:be|read|say|have been)|\bmust be|\bha(?:s|ve) to be|\bought to be|\binstead use|\bi meant|"
    r"\bcalled|\b(?:right|correct) (?:answer|one|form|value|name|code|number|way) (?:is|would be|was))",
    r"\bit's|\bit is|\bthat's|\bthat is|\bso|\buse|\bmake (?:it|that)|\bwrite(?: it as)?|\bthey are|:",
    after=rf"\s+(?!(?:not|wrong|incorrect|no|never|the wrong|also|why|too|false)\b){_VALUE}",
)
_LIMIT: Final = _pattern(
    "above|over|under|below|than|from|until|before|after|least|most|up to|within|exceeding", before=r"\b", after=r"\b"
)
"""A number after such a word is the threshold of a rule, not an answer."""
_CONTRASTED: Final = _pattern(
    r"([^,.;!?]{1,60}?),? (?:not|instead of|rather than) ",
    before=r"\A(?:no\W+)?(?:please )?(?:use |it's |it is )?",
)
_SPEAKER: Final = _pattern(
    r"user|human|customer|me|you|person|assistant|ai|agent|bot|model|chatbot|gpt|claude",
    before=r"\A\s*(?:\*\*|__)?(?P<who>",
    after=r")(?:\*\*|__)?\s*:(?:\*\*|__)?\s*(?P<said>.*)\Z",
)
_OF_USER: Final = frozenset({"user", "human", "customer", "me", "person"})
_OF_AGENT: Final = frozenset({"assistant", "ai", "agent", "bot", "model", "chatbot", "gpt", "claude"})

_MOST_CHARACTERS: Final = 4000
"""Of what a person said, that is looked at: who pastes a log or a file says before it what is wrong."""
_MOST_PAIRS: Final = 250_000
"""Of words that are compared; beyond, two long answers are not aligned."""
_ENOUGH: Final = 3
"""An objection is enough by itself; without one, the new answer has to take up what was said, in place of the old."""


def corrections_in(steps: Sequence[TraceStep]) -> list[TraceCorrection]:
    """Return the corrections among the steps of a trace, in order, without using a model.

    A reply to an answer is a correction if it objects to the answer, or if the next answer replaces the first one and
    adopts what the person said. Follow-up questions, further tasks, thanks, requests for detail and remarks about the
    person are not corrections. Several corrections of one answer are combined: the first wrong answer, everything that
    was said, and the answer that was finally accepted.

    Args:
        steps: The steps; those of the person are named `user`, those of the agent `assistant`. A user step that is an
            error means that the user stopped the agent; the next reply is then an objection.

    Returns:
        The corrections. The place of each is that of its last reply, so if a conversation is read turn by turn, the
        turn with that place also contains the accepted answer.

    Example:
        >>> from ace.traces import trace_step
        >>> said = ["High water?", "2:30 pm", "Our table has an h: 14h30.", "You're right, sorry! 14h30"]
        >>> speakers = ("user", "assistant", "user", "assistant")
        >>> turns = [trace_step("message", who, text, "1") for who, text in zip(speakers, said)]
        >>> [(found["wrong"], found["right"]) for found in corrections_in(turns)]
        [('2:30 pm', '14h30')]
    """
    found: list[TraceCorrection] = []
    asked: _Exchange | None = None
    question = ""
    objections: list[_Exchange] = []

    def close() -> None:
        if asked is not None and objections:
            found.append(_correction(question, asked.answer, objections))
            objections.clear()

    for exchange in _exchanges(steps):
        latest = objections[-1].answer if objections and objections[-1].answer else asked.answer if asked else ""
        verdict = _verdict(question, latest, exchange) if asked is not None and asked.answer else "task"
        if verdict == "task" and objections and _dictates(exchange):
            verdict = "correction"  # the answer that was corrected just now is stated in full
        if verdict == "correction":
            objections.append(exchange)
        elif verdict == "task":
            close()
            said = _without_aside(exchange.said)
            elliptic = asked is not None and _FOLLOW_UP.match(said) and len(tokens(said)) <= 12
            question = f"{question}\n{said}" if elliptic else said
            asked = exchange
    close()
    return found


def correction_in_feedback(question: str, answer: str, feedback: str, ground_truth: str = "") -> list[TraceCorrection]:
    """Return the correction in feedback on an answer, if it objects to the answer; else an empty list.

    Args:
        question: The question.
        answer: The answer.
        feedback: The feedback of a person on the answer.
        ground_truth: The right answer, if known.

    Example:
        >>> [found["right"] for found in correction_in_feedback("Currency?", "EUR", "No, it should be SEK.")]
        ['SEK']
        >>> correction_in_feedback("Currency?", "SEK", "Correct.")
        []
    """
    if not question.strip() or not answer.strip() or not feedback.strip():
        return []
    exchange = _Exchange(feedback, "feedback", ground_truth)
    if _verdict(question, answer, exchange) != "correction":
        return []
    return [_correction(question, answer, [exchange])]


def answer_in(question: str, wrong: str, correction: str) -> str:
    """Return the right answer if the correction states it unambiguously; else an empty string.

    Args:
        question: The question.
        wrong: The answer that is corrected.
        correction: The correction.

    Example:
        >>> answer_in("Deadline?", "31 May", "No. It should be 31 July.")
        '31 July'
        >>> answer_in("Deadline?", "31 May", "No, ask the tax office.")
        ''
    """
    correction = correction[:_MOST_CHARACTERS]
    if contrasted := _CONTRASTED.match(correction.strip()):
        value = contrasted[1].strip(" \"'`“”")
        if _is_new_value(value, question, wrong):
            return value
    stated = [
        value
        for found in _STATED.finditer(correction)
        if _is_new_value(value := _without_clause(found["value"].strip(" \"'`*“”")), question, wrong)
        and (found["sure"] or any(is_strong(word) for word in tokens(value)))
    ]
    if stated:
        return stated[-1]
    if of_the_case := _made_from(question, wrong, correction):
        return of_the_case
    known = {word.lower() for word in (*tokens(question), *tokens(wrong))}
    runs: list[list[str]] = []
    for sentence in _SENTENCES.split(correction):
        for place, word in enumerate(words := tokens(sentence)):
            code = has_digit(word) or (len(word) > 1 and word.isupper()) or any(mark in word for mark in "/_#@=")
            if word.lower() in known or not (code or (is_strong(word) and place > 0)):
                continue
            if number_in(word) is not None and place and _LIMIT.search(" ".join(words[max(0, place - 2) : place])):
                continue
            if runs and place and runs[-1][-1] == words[place - 1]:
                runs[-1].append(word)
            else:
                runs.append([word])
    return " ".join(runs[0]) if len(runs) == 1 else ""


def _without_clause(value: str) -> str:
    """Return a stated value without the clause behind it: "NOTICE for every failed payment" states NOTICE."""
    head = re.split(r" (?:for|if|when|because|as|since|unless|from|and|but|so|or|which|that) ", value, maxsplit=1)[0]
    return head if any(is_strong(word) for word in tokens(head)[:1]) else value


def _made_from(question: str, wrong: str, correction: str) -> str:
    """Return the one code of a correction that is made from a number of the question: K/318 for extension 318."""
    numbers = [word for word in tokens(question) if has_digit(word)]
    known = {word.lower() for word in (*tokens(question), *tokens(wrong))}
    codes = {
        word
        for word in tokens(correction)
        if word.lower() not in known
        and any(re.search(rf"(?<!\d){re.escape(number)}(?!\d)", word) for number in numbers)
    }
    return codes.pop() if len(codes) == 1 else ""


def accepted_answer(text: str) -> str:
    """Return the answer of an agent to a correction, without apologies at its start and offers at its end.

    Args:
        text: The whole answer.

    Returns:
        An empty string if nothing is left.

    Example:
        >>> accepted_answer("You're right, sorry! It is SEK. Is there anything else I can do?")
        'It is SEK.'
        >>> accepted_answer("Understood, I will remember that.")
        ''
    """
    kept = _PREAMBLE.sub("", text.strip()).strip()
    while kept and _AFTERWORD.match(kept):
        parts = _SENTENCES.split(kept, maxsplit=1)
        kept = _PREAMBLE.sub("", parts[1]).strip() if len(parts) == 2 else ""
    while kept:
        ends = [found.end() for found in _SENTENCES.finditer(kept)]
        start = ends[-1] if ends else 0
        if not start or not _AFTERWORD.match(kept[start:]):
            break
        kept = kept[:start].rstrip()
    if _bare(kept) in (
        "",
        "you are right",
        "you're right",
        "right",
        "sorry",
        "ok",
        "okay",
        "done",
        "noted",
        "understood",
    ):
        return ""
    return kept


def steps_of_dialogue(text: str) -> list[TraceStep]:
    """Return the steps of a dialogue written as lines "User: ..." and "Assistant: ...".

    Args:
        text: Any text.

    Returns:
        The steps, with their line as their place; an empty list if the text is not such a dialogue.

    Example:
        >>> [step["name"] for step in steps_of_dialogue("User: 6*7?\\nAssistant: 42")]
        ['user', 'assistant']
    """
    steps: list[TraceStep] = []
    for number, line in enumerate(text.splitlines(), start=1):
        spoken = _SPEAKER.match(line)
        who = spoken["who"].lower() if spoken else ""
        if spoken and (who in _OF_USER or who in _OF_AGENT or who == "you"):
            # In a transcript of one's own, "You" is the person.
            steps.append(
                trace_step("message", "assistant" if who in _OF_AGENT else "user", spoken["said"], str(number))
            )
        elif steps and line.strip():
            steps[-1]["content"] = f"{steps[-1]['content']}\n{line}".strip()
    return steps if {step["name"] for step in steps} == {"user", "assistant"} else []


@dataclass(frozen=True)
class _Exchange:
    """A message of a person, and the answer of the agent."""

    said: str
    place: str
    answer: str
    stops: bool = False
    """Whether the person had stopped the agent before."""


def _exchanges(steps: Sequence[TraceStep]) -> list[_Exchange]:
    """Return the messages and answers, in order; of several consecutive answers, only the last one."""
    exchanges: list[_Exchange] = []
    stopped = False
    for step in steps:
        text = step["content"].strip()
        if step["kind"] != "message" or not text:
            continue
        if step["name"] == "user" and step["is_error"]:
            stopped = True
        elif step["name"] == "user":
            if exchanges and not exchanges[-1].answer and not stopped:
                before = exchanges.pop()
                exchanges.append(replace(before, said=f"{before.said}\n{text}"))
            else:
                exchanges.append(_Exchange(text, step["place"], "", stops=stopped))
            stopped = False
        elif step["name"] == "assistant" and not step["is_error"] and exchanges:
            exchanges.append(replace(exchanges.pop(), answer=text))
    return exchanges


def _correction(question: str, wrong: str, objections: Sequence[_Exchange]) -> TraceCorrection:
    said = "\n".join(objection.said for objection in objections)
    right = ""
    for objection in reversed(objections):
        answer = accepted_answer(objection.answer)
        if answer and _differs(answer, wrong) and not _insists(answer, wrong, objection.said):
            right = answer
            break
    return TraceCorrection(
        question=question,
        wrong=wrong,
        correction=said,
        right=right or answer_in(question, wrong, said),
        place=objections[-1].place,
    )


def _without_aside(said: str) -> str:
    """Return the message of a person without a leading thanks or greeting."""
    aside = _ASIDE.match(said)
    rest = said[aside.end() :].strip() if aside and said[aside.end() - 1 : aside.end()].isspace() else ""
    return rest if len(tokens(rest)) >= 3 else said


def _verdict(question: str, wrong: str, exchange: _Exchange) -> Literal["correction", "aside", "task"]:
    said = exchange.said.strip()[:_MOST_CHARACTERS]
    question, wrong = question[:_MOST_CHARACTERS], wrong[:_MOST_CHARACTERS]
    exchange = replace(exchange, said=said, answer=exchange.answer[:_MOST_CHARACTERS])
    aside = _ASIDE.match(said)
    if aside and not _BUT.search(said[: aside.end() + 12]):
        rest = said[aside.end() :].strip()
        if len(tokens(rest)) < 3 or _AGREES.match(said) or _bare(aside[1]).startswith("no"):
            return "aside"
        said = rest
    if _GREETING.match(question):
        return "task"
    reply, praised = exchange.answer, said != exchange.said.strip()
    evidence = _evidence(question, wrong, said, accepted_answer(reply), reply, praised=praised)
    evidence += 3 if exchange.stops else 0
    return "correction" if evidence >= _ENOUGH else "task"


def _evidence(question: str, wrong: str, said: str, right: str, reply: str, *, praised: bool = False) -> int:
    """Return a score for the evidence of a correction, to be compared with `_ENOUGH`."""
    objects = _OBJECTION.search(said) is not None or _RHETORICAL.match(said) is not None
    points = 3 if objects else 0
    points += 3 if _APOLOGY.search(reply) and reply else 0
    points += _points_of_form(question, said, objects)
    if _ASKS_THE_USER.search(_OFFER.sub("", wrong)) and not _proposes(question, wrong):
        points -= 6
    if praised and not objects:
        points -= 2
    if _FILLER.match(reply):
        points -= 3
    if _REPORT.match(reply) and not objects:
        points -= 2
    if right and _differs(right, wrong):
        answered, telling = _points_of_answer(question, wrong, said, right)
        points += answered
        if not points - answered and not telling:
            points -= 1  # a new answer alone may as well be one to something new
    elif not objects:
        points += _points_without_answer(question, wrong, said, acknowledged=bool(reply) and not right)
    return points


def _points_of_form(question: str, said: str, objects: bool) -> int:
    points = 0
    sentences = [sentence for sentence in _SENTENCES.split(said) if sentence.strip()]
    asks = [sentence for sentence in sentences if sentence.rstrip().endswith("?") and not _RHETORICAL.match(sentence)]
    stated = " ".join(sentence for sentence in sentences if not sentence.rstrip().endswith("?"))
    if asks and (not stated or sentences[-1] in asks or _OWN.match(sentences[-1])):
        points -= 4
    elif asks and not objects and not _NORM.search(stated):
        points -= 1
    elif asks and len(tokens(asks[0])) <= 3:
        points += 1  # an echo of what cannot be right: "At 4?"
    if _TASK.match(said) and not _REVISION.match(said):
        points -= 1 if _NOUN_AFTER_ALL.match(said) else 4
    if _OWN.match(said) and not objects:
        points -= 4
    if not objects:
        words = tokens(said)
        if (len(words) <= 5 and _ELLIPSIS.match(said) and ":" not in said) or (
            len(words) <= 4 and _varies(question, words)
        ):
            points -= 3
        points += 1 if _NORM.search(said) or _REVISION.match(said) or _OF_THE_ANSWER.match(said) else 0
        points -= 2 if _FOR_THE_USER.search(said) else 0
    return points


def _points_of_answer(question: str, wrong: str, said: str, right: str) -> tuple[int, bool]:
    """Return the score from the new answer, and whether it adopts what was said or varies the wrong answer."""
    spoken = {word.lower() for word in tokens(said)}
    values = [word for value in right_values(question, wrong, said, right) for word in value.lower().split()]
    points = 1 if values and any(word in spoken for word in values) else 0
    named = {word for word in content_words(wrong) if word not in content_words(question)} & spoken
    if named & set(content_words(right)) and not points:
        points -= 2  # it chooses among what was offered
    elif named:
        points += 1  # it names what was wrong
    variant = _is_variant(wrong, right)
    kept = {word.lower() for word in tokens(right)}
    names_it = any(word.lower() in named - kept for word in tokens(wrong) if is_strong(word))
    telling = variant or names_it or any(word in spoken for word in values)
    return points + variant + (2 if _replaces(question, wrong, said, right) else 0), telling


def _points_without_answer(question: str, wrong: str, said: str, *, acknowledged: bool) -> int:
    """Return the score without a new answer: the message has to state a value of the same form as the wrong one."""
    points = 1 if acknowledged else 0
    stated = answer_in(question, wrong, said)
    if not stated or len(tokens(wrong)) > 8:
        return points
    if _bare(wrong) in _bare(said):
        points += 2
    if any(
        has_digit(word) and any(word in token and word != token for token in tokens(stated))
        for word in tokens(question)
    ):
        return points + 2  # a code that is made from the question
    return points + (2 if _shapes(stated) & _shapes(wrong) else 0)


def _dictates(exchange: _Exchange) -> bool:
    """Whether the answer of the agent is a part of the message, which was not a question."""
    said, right = exchange.said.strip(), accepted_answer(exchange.answer)
    return bool(right) and not said.endswith("?") and not _TASK.match(said) and _bare(right) in _bare(said)


def _proposes(question: str, wrong: str) -> bool:
    """Whether an answer in the form of a question proposes something: "How about gull_front.jpg?"."""
    asked = {word.lower() for word in tokens(question)}
    codes = [w for w in tokens(wrong) if w.lower() not in asked and (has_digit(w) or any(m in w for m in "/_#@"))]
    return " or " not in wrong and (bool(codes) or re.search(r"\b(?:then|perhaps|maybe)\?\s*$", wrong) is not None)


def _replaces(question: str, wrong: str, said: str, right: str) -> bool:
    """Whether an answer replaces another one, rather than answering something new."""
    old, new = tokens(wrong), tokens(right)
    if max(len(old), len(new)) <= 4 or (max(len(content_words(wrong)), len(content_words(right))) <= 3):
        return True
    if len(old) * len(new) > _MOST_PAIRS:
        return False
    matcher = SequenceMatcher(None, [word.lower() for word in old], [word.lower() for word in new], autojunk=False)
    if matcher.ratio() >= 0.5:
        return True
    known = {word[:5] for text in (question, wrong, said) for word in content_words(text)}
    words = content_words(right)
    unknown = [word for word in words if word[:5] not in known]
    return len(new) <= 15 and bool(words) and len(unknown) * 4 <= len(words)


def _is_variant(wrong: str, right: str) -> bool:
    """Whether two answers differ only in a number, in their form, or as yes and no."""
    old, new = _bare(wrong), _bare(right)
    if {old.split(" ")[0].strip(",."), new.split(" ")[0].strip(",.")} == {"yes", "no"}:
        return True
    if re.sub(r"[\d.,]+", "#", old) == re.sub(r"[\d.,]+", "#", new):
        return True
    return old in new or new in old or re.sub(r"\W|^0+", "", old) == re.sub(r"\W|^0+", "", new)


def _differs(answer: str, other: str) -> bool:
    return " ".join(answer.split()).strip(" .!") != " ".join(other.split()).strip(" .!")


def _varies(question: str, words: Sequence[str]) -> bool:
    """Whether a short message only asks the same with another number or object: "10 miles" after "3 miles"."""
    asked = {word.lower() for word in tokens(question)}
    numbers = [word for word in words if number_in(word) is not None]
    return (
        bool(numbers)
        and any(has_digit(word) for word in asked)
        and any(word.lower() in asked for word in words if word not in numbers)
    )


def _insists(answer: str, wrong: str, said: str) -> bool:
    """Whether an answer to an objection only repeats the wrong one in more words."""
    old, new = tokens(wrong), tokens(answer)
    if not set(old) <= set(new) or len(new) <= len(old):
        return False
    taken_up = set(content_words(said)) - {word.lower() for word in old}
    return not taken_up & set(content_words(answer))


def _is_new_value(value: str, question: str, wrong: str) -> bool:
    words = tokens(value)
    known = {word.lower() for word in tokens(wrong)}
    new = [word for word in words if word.lower() not in known and word.lower() not in FUNCTION_WORDS]
    return bool(new) and len(words) <= 6 and _bare(value) not in _bare(wrong)


def _shapes(text: str) -> set[str]:
    """Return the forms of the values in a text: LP-2 and LP-9 have the same form."""
    return {
        re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", word)) if has_digit(word) else "A"
        for place, word in enumerate(tokens(text))
        if is_strong(word) or (place == 0 and len(tokens(text)) <= 2)
    }


def _bare(text: str) -> str:
    return " ".join(text.split()).strip(" .!,;:").casefold().replace("’", "'")  # noqa: RUF001
