"""After an adoption the runs of a journal are in their order, whichever records a reader believes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest

from drkit.control_key import HEADER, ControlKey, ControlKeys, LogPlace, mac_of
from drkit.flow_state.names import ADOPTED, BEGUN, done_at
from drkit.journal.entries import EntryKind, JournalEntry
from drkit.journal.topic import JournalReader
from drkit.wire import Record

OLD, NEW = (ControlKey.of(bytes(range(first, first + 32))) for first in (33, 65))
Entry = tuple[ControlKey, bytes, bytes]
_FIRST_ORDER: Final = 10**15


def run(name: str, key: ControlKey) -> list[Entry]:
    def entry(number: int, kind: EntryKind, body: dict[str, Any]) -> Entry:
        written = JournalEntry(name, number, "t", 1, kind, None, "", 1, body)
        return key, name.encode(), written.to_json().encode()

    return [
        entry(0, EntryKind.RUN, {"holder": {"token": "t"}}),
        entry(1, EntryKind.END, {"state": "done"}),
    ]


def last_run(keys: ControlKeys, log: list[Entry]) -> str | None:
    cluster: Any = SimpleNamespace(control=keys, alias="b")
    journal = JournalReader(cluster, "a")
    place = LogPlace(journal._signatures.place.at, "c", UUID(int=3))
    journal._signatures.place = place
    for offset, (key, name, value) in enumerate(log):
        mac = mac_of(key, place, name, value, _FIRST_ORDER + offset)
        journal._take(Record(offset, 1, name, value, ((HEADER.encode(), mac),)))
    last = journal.history.last
    return None if last is None else last.run_id


@pytest.mark.parametrize("keys", [ControlKeys(NEW), ControlKeys(NEW, (OLD,))], ids=["new key", "both"])
def test_a_run_by_the_new_key_before_the_adoption_is_the_last_one(keys: ControlKeys) -> None:
    before = [*run("first", OLD), *run("second", NEW)]
    again = [*run("first", NEW), *run("second", NEW)]
    begun = len(before)
    assert (
        last_run(keys, [*before, (NEW, ADOPTED, BEGUN), *again, (NEW, ADOPTED, done_at(begun))]) == "second"
    )
    other = [(NEW, ADOPTED, BEGUN), *again, (NEW, ADOPTED, done_at(begun))]
    both = [*before, (NEW, ADOPTED, BEGUN), *other, (NEW, ADOPTED, done_at(begun + 1))]
    assert last_run(keys, both) == "second"
