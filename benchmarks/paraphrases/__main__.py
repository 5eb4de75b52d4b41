"""Measures retrieval: lessons asked for in other words, neutral questions, and the time in small and large books.

It prints how often the right skill is among the three shown, how often a neutral question is shown none, and CPU times
with the ratio of a large book to a small one. It exits with 0; `tests/core/retrieval/test_meaning.py` has the bounds.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence

from ace.retrieval import LexicalRanker, MeaningRanker
from ace.skill import Skill
from benchmarks.options import add_quick, parser_of
from benchmarks.paraphrases import SHOWN, load_paraphrases

SETS = ("calibration", "orchard", "theatre")
RANKERS: tuple[Callable[[], LexicalRanker | MeaningRanker], ...] = (LexicalRanker, MeaningRanker)
ROUNDS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("paraphrases", __doc__)
    parser.add_argument("sets", nargs="*", default=SETS, metavar="set", help=f"default: {' '.join(SETS)}")
    add_quick(parser, "1,000 and 5,000 skills")
    options = parser.parse_args(arguments)
    print("| set | ranker | right skill among three | neutral question shown none |")
    print("|---|---|---|---|")
    for name in options.sets:
        for make in RANKERS:
            outcome = load_paraphrases(name).outcome(make())
            right, quiet = (
                f"{outcome.right} of {outcome.questions}",
                f"{outcome.quiet} of {outcome.neutral}",
            )
            print(f"| `{name}` | `{make.__name__}` | {right} | {quiet} |")
    sizes = (1_000, 5_000) if options.quick else (100, 1_000, 10_000, 40_000)
    print("\n| skills | first question, ms | next question, ms | add a skill and ask, ms |")
    print("|---|---|---|---|")
    MeaningRanker()("Is it loaded?", [Skill("a-1", "a", "Load the vectors first.")])
    for size in sizes:
        first, following, added = times(size)
        print(f"| {size:,} | {first:.1f} | {following:.2f} | {added:.2f} |")
    return 0


def times(size: int) -> tuple[float, float, float]:
    """Return the CPU milliseconds of a first question, of a further one, and of one after a new skill."""
    chance = random.Random(1)
    lessons = [skill.content for name in SETS for skill in load_paraphrases(name).skills]
    words = " ".join(lessons).split()
    skills = [
        Skill(f"a-{number:05d}", "a", " ".join([chance.choice(lessons), *chance.choices(words, k=4)]))
        for number in range(size)
    ]
    questions = [question for _, question in load_paraphrases("orchard").questions][:ROUNDS]
    ranker = MeaningRanker()
    first = cpu_ms(lambda: ranker.best(questions[0], skills, SHOWN))
    following = cpu_ms(lambda: [ranker.best(question, skills, SHOWN) for question in questions]) / len(questions)

    def add_and_ask() -> None:
        book = list(skills)
        for number, question in enumerate(questions):
            book = [*book, Skill(f"b-{number}", "b", f"Ask the office about case {number} first.")]
            ranker.best(question, book, SHOWN)

    return first, following, cpu_ms(add_and_ask) / len(questions)


def cpu_ms(action: Callable[[], object]) -> float:
    """Return the CPU milliseconds of a call."""
    start = time.process_time()
    action()
    return (time.process_time() - start) * 1e3


if __name__ == "__main__":
    sys.exit(main())
