"""The estimated number of tokens, against the tokenizers that come with LiteLLM."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from ace.skillbook import Skillbook
from ace.skillbook.selection import estimate_tokens
from tests.requirement import missing

# The names under which tiktoken looks for its files.
FILES = {
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
}

TEXTS = {
    "English": (
        "The clerk checks the form before the yard counts the crates. If a form has no day, she ask"
        "s the yard by telephone and notes the answer in the margin. Deliveries that arrive after n"
        "oon are counted on the next morning, because the light in the hall is poor and a second co"
        "unt would be needed. Nobody signs for goods that have not been unpacked. When two orders n"
        "ame the same customer, they are put on one lorry unless one of them is marked as urgent. T"
        "he driver keeps a copy of every list for three weeks."
    ),
    "German": (
        "Der Sachbearbeiter prüft das Formular, bevor der Hof die Kisten zählt. Fehlt auf einem For"
        "mular der Tag, so fragt er telefonisch nach und vermerkt die Antwort am Rand. Lieferungen,"
        " die nach zwölf Uhr eintreffen, werden erst am nächsten Morgen gezählt, weil das Licht in "
        "der Halle schlecht ist und sonst eine zweite Zählung nötig wäre. Niemand unterschreibt für"
        " Waren, die noch nicht ausgepackt sind. Nennen zwei Bestellungen denselben Kunden, kommen "
        "sie auf einen Lastwagen, sofern keine davon als dringend gekennzeichnet ist."
    ),
    "Chinese": (
        "职员先检查表格，然后仓库清点箱子。如果表格上没有日期，她会打电话询问，并把答案写在页边。中午以后到达的货物要到第二天早上才清点，因为大厅里的光线不好，否则需要再清点一次。没有拆开的"  # noqa: RUF001  # Chinese has its own comma
        "货物不得签收。如果两张订单来自同一位客户，就装在同一辆卡车上，除非其中一张标有加急字样。司机把每份清单的副本保存三个星期。"  # noqa: RUF001  # Chinese has its own comma
    ),
    "Russian": (
        "Служащий проверяет бланк, прежде чем на складе пересчитают ящики. Если на бланке не указан"
        " день, он звонит на склад и записывает ответ на полях. Товары, прибывшие после полудня, пе"
        "ресчитывают на следующее утро, потому что в зале плохой свет. Никто не расписывается за то"
        "вары, которые ещё не распакованы."
    ),
    "Python": (
        "def crates_of(orders: Sequence[Order], day: date | None = None) -> dict[str, int]:\n"
        '    """Return the number of crates by customer."""\n    totals: dict[str, int] = {}\n'
        "    for order in orders:\n        if day is not None and order.day != day:\n"
        "            continue\n"
        "        totals[order.customer] = totals.get(order.customer, 0) + order.crates\n"
        "    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))\n\n\n"
        "class Yard:\n    def __init__(self, lanes: int = 13, *, strict: bool = True) -> None:\n"
        "        self._lanes = [Lane(number) for number in range(lanes)]\n"
        "        self._strict = strict\n\n    def free_lane(self) -> Lane:\n"
        "        for lane in self._lanes:\n            if not lane.is_taken:\n"
        "                return lane\n"
        '        raise LookupError(f"all {len(self._lanes)} lanes are taken")\n'
    ),
    "JavaScript": (
        "export async function loadOrders(url, { timeout = 5000 } = {}) {\n"
        "  const controller = new AbortController();\n"
        "  const timer = setTimeout(() => controller.abort(), timeout);\n  try {\n"
        "    const response = await fetch(url, { signal: controller.signal });\n"
        "    if (!response.ok) {\n"
        "      throw new Error(`Request failed: ${response.status} ${response.statusText}`);\n    }\n"
        "    return (await response.json()).map((order) => ({ ...order, day: new Date(order.day) })"
        ");\n  } finally {\n    clearTimeout(timer);\n  }\n}\n"
    ),
    "JSON": (
        '{\n  "orders": [\n'
        '    {"id": "A-10231", "customer": "Northern Mills", "crates": 12, "day": "2026-03-14", "ur'
        'gent": false},\n'
        '    {"id": "A-10232", "customer": "Harbour Stores", "crates": 7, "day": "2026-03-15", "urg'
        'ent": true},\n'
        '    {"id": "A-10240", "customer": "Old Town Bakery", "crates": 3, "day": null, "urgent": f'
        "alse}\n  ],\n"
        '  "yard": {"lanes": 13, "clerk": "M. Frost", "notes": ["count twice", "ask by telephone"]}\n'
        "}"
    ),
    "compact JSON": (
        '{"orders":[{"id":"A-10231","customer":"Northern Mills","crates":12,"day":"2026-03-14","urg'
        'ent":false},{"id":"A-10232","customer":"Harbour Stores","crates":7,"day":"2026-03-15","urg'
        'ent":true}],"yard":{"lanes":13,"clerk":"M. Frost","notes":["count twice","ask by telephone'
        '"]}}'
    ),
    "Markdown": (
        "# Receiving goods\n\n1. Check the **form** before the yard counts the crates.\n"
        "2. If the form has no day, ask the yard (`yard ask --order A-10231`).\n\n"
        "| lane | crates | clerk |\n|---|---|---|\n| 1 | 12 | M. Frost |\n| 2 | 7 | J. Hale |\n\n"
        "See [the list of customers](customers.md) for the names that may sign.\n"
    ),
    "log": (
        "2026-03-14T09:12:44.102Z INFO  yard.lanes[3] order=A-10231 crates=12 status=counted durati"
        "on_ms=412\n"
        "2026-03-14T09:12:45.220Z WARN  yard.lanes[4] order=A-10232 crates=7 status=no_day retry=1/"
        "3\n"
        "2026-03-14T09:13:01.007Z ERROR yard.lanes[4] order=A-10232 TimeoutError: no answer after 1"
        "5.0 s\n"
    ),
}


def book_of(count: int, *, tagged: bool) -> Skillbook:
    """Return a book of short rules in several sections."""
    chance = random.Random(3)
    who = ["the clerk", "the yard", "a driver", "the customer", "the foreman"]
    what = ["checks the form", "counts every crate", "signs the second list", "weighs the lorry", "labels the order"]
    when = ["before noon", "if the day is missing", "unless it is urgent", "as soon as the lane is free"]
    book = Skillbook()
    for number in range(count):
        text = f"{chance.choice(when).capitalize()}, {chance.choice(who)} {chance.choice(what)} {chance.choice(when)}."
        section = chance.choice(["geography", "arithmetic", "customs", "delivery", "writing"])
        tags = {"helpful": chance.randint(1, 9), "harmful": chance.randint(0, 3)}
        book.add_skill(section, text, metadata=tags if tagged and number % 2 else None)
    return book


BOOKS = {
    "skill list": book_of(200, tagged=False).as_prompt(),
    "tagged skill list": book_of(200, tagged=True).as_prompt(),
    "playbook": book_of(50, tagged=True).as_playbook(),
    "TOON": book_of(50, tagged=True).as_prompt(format="toon"),
}


@pytest.mark.parametrize("encoding", FILES)
@pytest.mark.parametrize("kind", [*TEXTS, *BOOKS])
def test_the_estimate_is_within_a_fifth(kind: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec("litellm")
    folder = Path(found.origin or "").parent / "litellm_core_utils" / "tokenizers" if found is not None else Path()
    if not (folder / FILES[encoding]).is_file():
        missing("tokenizers", f"LiteLLM does not come with the tokenizer {encoding}")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    import tiktoken

    text = {**TEXTS, **BOOKS}[kind]
    counted = len(tiktoken.get_encoding(encoding).encode(text))
    # Of this Russian text, one tokenizer makes 1.43 times as many tokens as the other.
    most = 1.25 if kind == "Russian" else 1.2
    assert counted / most <= estimate_tokens(text) <= counted * most, (counted, estimate_tokens(text))


def test_an_estimate_never_fails_and_grows_with_the_text() -> None:
    assert estimate_tokens("") == 0
    text = "".join(map(chr, (*range(128), 0xE9, 0x416, 0x4E2D, 0x1F600, 0xD800)))
    estimates = [estimate_tokens(text[:end]) for end in range(len(text) + 1)]
    assert estimates == sorted(estimates)
