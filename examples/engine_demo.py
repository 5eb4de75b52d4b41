"""Builds a search index of a small web site, with the pipeline engine.

Fetch a page, extract its text, analyse the text in two ways in parallel, and add the page to the index in the
background while the next pages are fetched:

    FetchPage -> ExtractText -> (CountWords | MeasureSentences) -> [background] AddToIndex

The site is part of this program and served on 127.0.0.1, so no network is needed. One link of the site is broken:
only that page fails. Run it from the root of the checkout:

    python -m examples.engine_demo
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from ace.pipeline import Pipeline, SampleResult, StepContext

WORKERS = 4
WITHOUT_PROXY = build_opener(ProxyHandler({}))


# The context that each page passes from step to step.


@dataclass(frozen=True)
class PageContext(StepContext):
    """One page of the site; `sample` is its address."""

    html: str = ""
    text: str = ""
    words: Counter[str] = field(default_factory=Counter)
    words_per_sentence: float = 0.0
    place_in_index: int = 0


# The steps: each declares which fields it reads and writes, and returns a new context.


class FetchPage:
    """Reads the page from its address."""

    requires = frozenset({"sample"})
    provides = frozenset({"html"})

    def __call__(self, ctx: PageContext) -> PageContext:
        try:
            with WITHOUT_PROXY.open(ctx.sample) as response:
                return ctx.replace(html=response.read().decode("utf-8"))
        except HTTPError as error:
            error.close()
            raise LookupError(f"the server answers {error.code} {error.reason}") from error


class ExtractText:
    """Removes the markup."""

    requires = frozenset({"html"})
    provides = frozenset({"text"})

    def __call__(self, ctx: PageContext) -> PageContext:
        collector = TextCollector()
        collector.feed(ctx.html)
        collector.close()
        return ctx.replace(text=" ".join(collector.pieces))


class CountWords:
    """Counts the words, except short ones."""

    requires = frozenset({"text"})
    provides = frozenset({"words"})

    def __call__(self, ctx: PageContext) -> PageContext:
        return ctx.replace(words=Counter(re.findall(r"[a-z]{5,}", ctx.text.lower())))


class MeasureSentences:
    """Measures the average length of the sentences."""

    requires = frozenset({"text"})
    provides = frozenset({"words_per_sentence"})

    def __call__(self, ctx: PageContext) -> PageContext:
        sentences = [sentence for sentence in re.split(r"[.!?]", ctx.text) if sentence.strip()]
        return ctx.replace(words_per_sentence=len(ctx.text.split()) / len(sentences))


class AddToIndex:
    """Adds the page to the index in the background, one page at a time, in input order."""

    requires = frozenset({"sample", "words"})
    provides = frozenset({"place_in_index"})
    async_boundary = True
    lane = "index"

    def __init__(self, index: SearchIndex) -> None:
        self.lane_key = self.index = index

    def __call__(self, ctx: PageContext) -> PageContext:
        return ctx.replace(place_in_index=self.index.add(ctx.sample, ctx.words))


class SearchIndex:
    """Finds the pages that contain a word, those with the most occurrences first."""

    def __init__(self) -> None:
        self.pages: dict[str, Counter[str]] = {}

    def add(self, address: str, words: Counter[str]) -> int:
        self.pages[address] = words
        return len(self.pages)

    def search(self, word: str) -> list[tuple[str, int]]:
        found = [(address, words[word]) for address, words in self.pages.items() if words[word]]
        return sorted(found, key=lambda hit: -hit[1])


class TextCollector(HTMLParser):
    """Collects the text between the tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.pieces.append(data.strip())


# The site.

SUBJECTS = {
    "tides": "The harbour empties twice a day. Boats rest on the sand until the water comes back.",
    "lighthouses": "A lamp turns above the harbour. Sailors know it by its rhythm, and steer by it.",
    "bridges": "Stone bridges stand on arches. Each arch leans on the next, and the banks hold the last one.",
    "bees": "A bee dances to tell where flowers stand. The others follow the dance, then the way.",
    "glaciers": "Ice flows, slowly. A glacier carries stone into the valley and leaves it there.",
    "looms": "Threads run the length of the loom. The shuttle carries one more across, again and again.",
    "wells": "Water gathers under stone. A well reaches down to it, and a bucket brings it up.",
    "kites": "A kite leans on the wind. Its string holds it there; without the string it falls.",
}
DEAD_LINK = "volcanoes"


class SitePages(BaseHTTPRequestHandler):
    """Serves one page for each subject."""

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if name not in SUBJECTS:
            self.send_error(404)
            return
        page = f"<html><h1>{name.capitalize()}.</h1><p>{SUBJECTS[name]}</p></html>".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Log nothing, because the program prints its own report."""


@contextmanager
def serve_site() -> Iterator[str]:
    """Serve the site on a free port of this machine, and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SitePages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# The program.


def main() -> None:
    index = SearchIndex()
    pipeline = (
        Pipeline[PageContext]([FetchPage(), ExtractText()])
        .branch(Pipeline([CountWords()]), Pipeline([MeasureSentences()]))
        .then(AddToIndex(index))
    )
    print("The pipeline, as a drawing for any Mermaid viewer:\n")
    print(pipeline.to_mermaid())

    with serve_site() as site, pipeline:
        addresses = [f"{site}/{name}" for name in (*SUBJECTS, DEAD_LINK)]
        results = pipeline.run((PageContext(sample=address) for address in addresses), workers=WORKERS)
        pipeline.wait_for_background()

    print(f"\nRead {len(results)} pages, up to {WORKERS} at a time:\n")
    print_table(results)
    print(f"\nThe background, when all was done: {pipeline.background_stats()}")
    for word in ("stone", "harbour"):
        hits = ", ".join(f"{page_name(address)} ({times})" for address, times in index.search(word))
        print(f"Pages with the word {word!r}: {hits}")


def print_table(results: list[SampleResult[PageContext]]) -> None:
    print(f"{'page':<12} {'in index':>8} {'words':>6} {'per sentence':>13}  most frequent or what went wrong")
    for result in results:
        print(f"{page_name(result.sample):<12} {table_cells(result)}")


def table_cells(result: SampleResult[PageContext]) -> str:
    page = result.output
    if page is None:
        return f"{'-':>8} {'-':>6} {'-':>13}  {result.failed_at}: {result.error}"
    numbers = f"{page.place_in_index:>8} {len(page.text.split()):>6} {page.words_per_sentence:>13.1f}"
    return f"{numbers}  {', '.join(word for word, _ in page.words.most_common(3))}"


def page_name(address: str) -> str:
    return address.rpartition("/")[2]


if __name__ == "__main__":
    main()
