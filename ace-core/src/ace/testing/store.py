"""`StoreConformance`: the checks for a store of skillbooks, which must not lose anything that was learned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ace.plugins import StoreSpec
from ace.skill import CaseCheck, SkillCase
from ace.skillbook import Skillbook, SkillbookStore
from ace.skillbook.store import (
    AlreadyCommittedError,
    Commit,
    ForgetsAnswers,
    Head,
    SampleKey,
    SkillRow,
    VersionConflictError,
)
from ace.skillbook.stores import find_store
from ace.testing.suite import Conformance, demand, last_line, must_be_given, resolved, spec_of

__all__ = ["StoreConformance"]

AT = "2026-01-01T00:00:00Z"
AT_ONCE = 4
ADDS = 10

_ADD = """
import sys
from ace.skillbook import Skillbook
with Skillbook.open(sys.argv[1]) as book:
    for number in range(int(sys.argv[3])):
        book.add_skill("kit", f"Skill {number} of {sys.argv[2]}")
"""

_COMMIT_UNTIL_KILLED = """
import sys
from ace.skillbook import Commit, Head, SampleKey, SkillRow
from ace.skillbook.stores import find_store
store = find_store(sys.argv[1]).open(sys.argv[1])
version = store.version()
while True:
    rows = [SkillRow(f"kit-{version}-{number}", version * 20 + number, "{}", bytes(400)) for number in range(20)]
    head = Head(version + 1, 1, 1, (version + 1) * 20)
    key = SampleKey("run", 1, str(version + 1))
    store.append(Commit(version, "2026-01-01T00:00:00Z", "kit", "[]", head, rows, key=key, progress="learned"))
    version += 1
    print(version, flush=True)
"""
ODD = "a\0b \x1a0 \\0 'q' \"d\" %s {} \u4f60\u597d \U0001f30d \u202e \ue000 \r\n"
"""A text that quoting, encoding or the end marks of other languages would change."""
MANY = 10_000
_MOST_READS = 10


class StoreConformance(Conformance, is_suite=True):
    """Checks the store. Fixtures: `plugin_name`, `location`."""

    @pytest.fixture
    def location(self, tmp_path: Path) -> str:
        """The location of a skillbook that does not exist yet, such as `acme://kit/` followed by a new name."""
        made: str = must_be_given(self, "location")
        return made

    def test_location_finds_the_store(self, plugin_name: str, location: str) -> None:
        """The spec claims the location, and its target opens a store with all methods of `SkillbookStore`."""
        spec = spec_of(plugin_name, StoreSpec)
        claimed = location.partition("://")[0] in spec.schemes if "://" in location else False
        claimed = claimed or any(location.endswith(suffix) for suffix in spec.suffixes)
        demand(
            claimed, f"the location {location!r} has none of the schemes {spec.schemes} and suffixes {spec.suffixes}"
        )
        store = _opened(plugin_name, location)
        missing = [name for name in vars(SkillbookStore) if not name.startswith("_") and not hasattr(store, name)]
        store.close()
        demand(not missing, f"the store has no method {', '.join(missing)}")

    def test_new_store_is_empty(self, plugin_name: str, location: str) -> None:
        """A new store has version 0, and no skills, events or answers."""
        store = _opened(plugin_name, location)
        found = (store.version(), list(store.load().skills), list(store.events()), list(store.recorded_answers()))
        store.close()
        demand(found == (0, [], [], []), f"a new store holds {found}")

    def test_append_and_load(self, plugin_name: str, location: str) -> None:
        """Appended data is there when the store is reopened: skills with vectors, decisions and counters."""
        store = _opened(plugin_name, location)
        rows = [SkillRow("kit-00001", 0, '{"content": "ä\\u4f60"}', b"\x00\x01"), SkillRow("kit-00002", 1, "{}", None)]
        store.append(_commit(0, changed=rows, decisions=[("kit-00001", "kit-00002", '{"keep": true}')]))
        store.append(_commit(1, removed=["kit-00002"], vectors=[("kit-00001", b"\x02")]))
        store.close()
        store = _opened(plugin_name, location)
        book = store.load()
        fetched = list(store.rows(["kit-00001", "kit-00002", "nothing"]))
        store.close()
        wanted = SkillRow("kit-00001", 0, rows[0].data, b"\x02")
        demand([SkillRow(*row) for row in book.skills] == [wanted], f"load returns the skills {list(book.skills)}")
        demand([SkillRow(*row) for row in fetched] == [wanted], f"rows returns {fetched}")
        demand(Head(*book.head) == Head(2, 3, 1, 2), f"load returns the head {book.head}")
        decisions = [tuple(decision) for decision in book.decisions]
        demand(decisions == [("kit-00001", "kit-00002", '{"keep": true}')], f"load returns the decisions {decisions}")

    def test_events(self, plugin_name: str, location: str) -> None:
        """`events` yields the batches after `after` up to `until`, in order and with all their fields."""
        store = _opened(plugin_name, location)
        for version in range(4):
            store.append(_commit(version, operations=f'["operation {version + 1}"]'))
        told = [(event.version, event.operations, event.at, event.author) for event in store.events(1, 3)]
        everything = [event.version for event in store.events()]
        store.close()
        wanted = [(number, f'["operation {number}"]', AT, "kit") for number in (2, 3)]
        demand(told == wanted, f"events(1, 3) yields {told}")
        demand(everything == [1, 2, 3, 4], f"events() yields the versions {everything}")

    def test_version_conflict(self, plugin_name: str, location: str) -> None:
        """A batch based on an older version is rejected as a whole."""
        store, other = _opened(plugin_name, location), _opened(plugin_name, location)
        store.append(_commit(0, changed=[SkillRow("kit-00001", 0, '"mine"')]))
        try:
            other.append(_commit(0, changed=[SkillRow("kit-00001", 0, '"theirs"')]))
        except VersionConflictError:
            kept = [row.data for row in store.load().skills]
            demand(kept == ['"mine"'], f"after a refused batch the store holds {kept}")
            return
        finally:
            store.close()
            other.close()
        pytest.fail("a batch made on version 0 was taken at version 1; raise VersionConflictError", pytrace=False)

    def test_each_sample_once(self, plugin_name: str, location: str) -> None:
        """A second batch of the same run, epoch and sample is rejected, so a resumed run learns nothing twice."""
        store = _opened(plugin_name, location)
        key = SampleKey("run", 1, "sample")
        store.append(_commit(0, key=key, progress='"learned"'))
        try:
            store.append(_commit(1, key=key))
        except AlreadyCommittedError:
            found = (store.version(), store.committed_version(key), [row.note for row in store.progress("run")])
            demand(found == (1, 1, ['"learned"']), f"afterwards version, committed version and progress are {found}")
            return
        finally:
            store.close()
        pytest.fail("one sample of a run was committed twice; raise AlreadyCommittedError", pytrace=False)

    def test_first_answer_counts(self, plugin_name: str, location: str) -> None:
        """`record_answer` returns the first answer recorded under a key, to every caller and after reopening."""
        store = _opened(plugin_name, location)
        first = store.record_answer("key", "first", AT, {"model": "kit"})
        second = store.record_answer("key", "second", AT)
        store.close()
        store = _opened(plugin_name, location)
        found = (first, second, store.recorded_answer("key"), store.recorded_answer("none"))
        store.close()
        demand(found == ("first", "first", "first", None), f"two answers under one key gave {found}")

    def test_progress(self, plugin_name: str, location: str) -> None:
        """A later note about a sample replaces the earlier one, and the notes of runs are separate."""
        store = _opened(plugin_name, location)
        for run, sample, note in (("a", "1", "began"), ("a", "2", "began"), ("a", "1", "failed"), ("b", "1", "other")):
            store.note_progress(SampleKey(run, 1, sample), note, AT)
        found = [(row.key.sample, row.note) for row in store.progress("a")]
        store.close()
        demand(found == [("1", "failed"), ("2", "began")], f"the progress of run 'a' is {found}")

    def test_threads(self, location: str) -> None:
        """Four threads that learn into one skillbook lose nothing."""
        with _book(location) as book:

            def learn(number: int) -> None:
                for step in range(ADDS):
                    book.add_skill("kit", f"Skill {step} of thread {number}")

            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(learn, range(AT_ONCE)))
        with _book(location) as book:
            demand(len(book) == AT_ONCE * ADDS, f"{AT_ONCE * ADDS} skills were added, and {len(book)} are kept")

    def test_processes(self, location: str) -> None:
        """Four processes that learn into one location lose nothing, and the history has a version for each change."""
        with _book(location):
            pass
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _ADD, location, f"process {number}", str(ADDS)],
                env=environ,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )
            for number in range(AT_ONCE)
        ]
        said = [process.communicate()[1] for process in processes]
        for process, text in zip(processes, said, strict=True):
            demand(process.returncode == 0, f"a process that learned ended with an error: {last_line(text)}")
        with _book(location) as book:
            demand(len(book) == AT_ONCE * ADDS, f"{AT_ONCE * ADDS} skills were added, and {len(book)} are kept")
            versions = [version.version for version in book.history()]
        wanted = list(range(1, AT_ONCE * ADDS + 1))
        demand(sorted(versions) == wanted, f"{len(wanted)} versions were committed, and the history lists {versions}")

    def test_killed_process(self, plugin_name: str, location: str) -> None:
        """A process that is killed while it commits loses no batch, and leaves none half written."""
        if find_store(location) is None:
            pytest.skip("cannot be checked before test_location_finds_the_store holds: no store claims the location")
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        store = _opened(plugin_name, location)
        for kill in range(3):
            command = [sys.executable, "-c", _COMMIT_UNTIL_KILLED, location]
            with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, encoding="utf-8") as process:
                assert process.stdout is not None
                written = int(process.stdout.readline() or -1)
                if kill:
                    time.sleep(0.004 * kill)
                else:  # as soon as a batch can be seen, before the process knows that it is written
                    while process.poll() is None and store.version() <= written:
                        time.sleep(0.001)
                process.kill()
                written = max([written, *map(int, process.stdout)])
            demand(written > 0, "a process could not commit: its `append` raised an error")
            found = _whole_batches(store)
            demand(len(found) == 1, f"after a kill, the parts of the batches have different numbers: {sorted(found)}")
            demand(min(found) >= written, f"{written} batches were committed before a kill, and {min(found)} are kept")
        store.close()

    def test_odd_texts(self, plugin_name: str, location: str) -> None:
        """Texts are returned as they were given: with NUL, quotes, emoji, and of a megabyte."""
        store = _opened(plugin_name, location)
        texts = [ODD, ODD * 20_000, ""]
        for version, text in enumerate(texts):
            key = SampleKey(f"run {ODD}", 1, f"sample {text}")
            row = SkillRow(f"kit-{version} {ODD}", version, json.dumps(text, ensure_ascii=False))
            store.append(_commit(version, operations=text, changed=[row], key=key, progress=text))
            store.record_answer(f"key {text}", text, AT, {"details": text})
        store.close()
        store = _opened(plugin_name, location)
        told = {
            "load": sorted((row.id, json.loads(row.data)) for row in store.load().skills),
            "events": [(event.key and event.key.sample, event.operations) for event in store.events()],
            "progress": [(row.key.sample, row.note) for row in store.progress(f"run {ODD}")],
            "recorded_answer": [store.recorded_answer(f"key {text}") for text in texts],
        }
        store.close()
        samples = [(f"sample {text}", text) for text in texts]
        wanted = {
            "load": [(f"kit-{version} {ODD}", text) for version, text in enumerate(texts)],
            "events": samples,
            "progress": samples,
            "recorded_answer": texts,
        }
        for method, found in told.items():
            demand(found == wanted[method], f"`{method}` returns other texts than were given, such as {ODD!r}")

    def test_many_skills(self, plugin_name: str, location: str) -> None:
        """A skillbook may have 10,000 skills with vectors, which `load` and `rows` return."""
        store = _opened(plugin_name, location)
        rows = [SkillRow(f"kit-{number:05}", number, "{}", number.to_bytes(4, "big")) for number in range(MANY)]
        store.append(_commit(0, changed=rows))
        loaded = sorted(SkillRow(*row) for row in store.load().skills)
        fetched = sorted(SkillRow(*row) for row in store.rows(row.id for row in rows))
        store.close()
        demand(loaded == rows, f"of {MANY} skills, load returns {len(loaded)}, or other ones")
        demand(fetched == rows, f"of {MANY} skills, rows returns {len(fetched)}, or other ones")

    def test_rollback(self, location: str) -> None:
        """A rollback restores an earlier state as a new version, and keeps the history."""
        with _book(location) as book:
            book.add_skill("kit", "Keep this.")
            kept = book.version
            book.add_skill("kit", "Drop this.")
            assert kept is not None
            book.rollback(kept)
            newest = book.version
        with _book(location) as book:
            contents = [skill.content for skill in book.skills()]
            demand(contents == ["Keep this."], f"after the rollback the book holds {contents}")
            versions = [version.version for version in book.history()]
        demand(len(versions) == newest, f"the newest version is {newest}, and the history lists {versions}")

    def test_cases(self, location: str) -> None:
        """The cases of skills and their results are there when the skillbook is reopened, and after a rollback."""
        first, second = (SkillCase.make(f"2 + {number}?", CaseCheck("numeric", f"{2 + number}")) for number in (2, 3))
        passed = replace(first, last_result="passed", last_run_at=AT, model="kit")
        with _book(location) as book:
            skill = book.add_skill("kit", "Add the numbers.", cases=[first])
            book.note_results({skill.id: [passed]})
            noted = book.version
            book.put_cases(skill.id, [second])
        demand(_cases_in(location) == [passed, second], f"the skill has the cases {_cases_in(location)}")
        assert noted is not None
        with _book(location) as book:
            book.rollback(noted)
        demand(_cases_in(location) == [passed], f"after a rollback, the skill has the cases {_cases_in(location)}")

    def test_forgotten_answers(self, plugin_name: str, location: str) -> None:
        """`forget_answers`, if the store has it, only deletes the answers of the given runs."""
        store = _opened(plugin_name, location)
        keys = [json.dumps([run, 1, "sample", 0, "Reflector", 1]) for run in ("a", "ab", 'a"', "b")]
        for key in keys:
            store.record_answer(key, f"answer to {key}", AT)
        forgets: object = store
        forgotten = forgets.forget_answers("a", "b") if isinstance(forgets, ForgetsAnswers) else None
        left = [store.recorded_answer(key) is not None for key in keys]
        store.close()
        if forgotten is None:
            pytest.skip("cannot be checked: the store has no `forget_answers`")
        demand(
            (forgotten, left) == (2, [False, True, True, False]),
            f"of two answers, it forgot {forgotten}; left are {left}",
        )

    def test_close_twice(self, plugin_name: str, location: str) -> None:
        """`close` may be called twice."""
        store = _opened(plugin_name, location)
        store.close()
        try:
            store.close()
        except Exception as error:
            pytest.fail(f"the second close raises {type(error).__name__}: {error}", pytrace=False)


def _cases_in(location: str) -> list[SkillCase]:
    with _book(location) as book:
        return [case for skill in book.skills() for case in skill.cases]


def _whole_batches(store: SkillbookStore) -> set[int]:
    """Return the number of batches, by each of their parts; a single number if all of them are whole.

    A database server may commit the last batch of a killed process between two of the reads, so they are repeated if
    the version has changed meanwhile.
    """
    for _ in range(_MOST_READS):
        version = store.version()
        found = _batches_by_part(store)
        if store.version() == version:
            break
    return found


def _batches_by_part(store: SkillbookStore) -> set[int]:
    skills, rest = divmod(len(store.load().skills), 20)
    events = [event.version for event in store.events()]
    return {
        skills + bool(rest),
        skills,
        store.version(),
        len(events),
        max(events, default=0),
        len([row for row in store.progress("run") if row.version is not None]),
    }


def _book(location: str) -> Skillbook:
    if find_store(location) is None:
        pytest.skip("cannot be checked before test_location_finds_the_store holds: no store claims the location")
    return Skillbook.open(location)


def _opened(plugin_name: str, location: str) -> SkillbookStore:
    spec = spec_of(plugin_name, StoreSpec)
    target = resolved(plugin_name, spec.target, spec.requires)
    assert callable(target)
    store: SkillbookStore = target(location)
    return store


def _commit(
    expected: int,
    *,
    operations: str = "[]",
    changed: list[SkillRow] | None = None,
    removed: list[str] | None = None,
    decisions: list[tuple[str, str, str | None]] | None = None,
    vectors: list[tuple[str, bytes | None]] | None = None,
    key: SampleKey | None = None,
    progress: str | None = None,
) -> Commit:
    return Commit(
        expected_version=expected,
        at=AT,
        author="kit",
        operations=operations,
        head=Head(expected + 1, 3, 1, 2),
        changed=changed or [],
        removed=removed or [],
        decisions=decisions or [],
        vectors=vectors or [],
        key=key,
        progress=progress,
    )
