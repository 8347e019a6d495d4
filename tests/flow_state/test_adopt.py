"""What `drkit control adopt` signs, passes over and refuses."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final

import pytest

from drkit.config import FlowSettings
from drkit.control_key import ControlKeys, raw_headers
from drkit.errors import Refused
from drkit.failover.adopt import FlowRecords, _to_write
from drkit.failover.adopt_records import Kind, Sign, Stored, TopicRecords, journal_entries
from drkit.failover.adopt_refusals import refuse_change, refuse_loss
from drkit.failover.journal_topic import ADOPTED, BEGUN, DONE, JournalTopic
from drkit.wire import Record, encode
from tests.flow_state.test_control_key import KEYS, TOPIC

FLOW: Final = FlowSettings(source="a", target="b")


def state(*records: tuple[str, Sign]) -> TopicRecords:
    found = [Stored(0, n, key.encode(), b"%d" % n, sign) for n, (key, sign) in enumerate(records)]
    return TopicRecords(TOPIC, "b", Kind.STATE, found)


def test_what_has_a_mac_wins_and_what_has_none_is_adopted_only_when_asked():
    found = state(("flow", Sign.NONE), ("promotion", Sign.CURRENT), ("promotion", Sign.NONE),
                  ("flow", Sign.NONE), ("not drkit's", Sign.NONE), ("acls", Sign.PREVIOUS))  # fmt: skip
    assert [r.offset for r in found.newest(unsigned=False)] == [1, 5]
    assert [r.offset for r in found.newest(unsigned=True)] == [1, 3, 5]
    assert [r.offset for r in found.foreign()] == [3]
    assert not found.is_signed()
    assert state(("promotion", Sign.NONE), ("promotion", Sign.CURRENT)).is_signed()
    assert not state(("promotion", Sign.CURRENT), ("promotion", Sign.NONE)).is_signed(), "it would be erased"


def journal(*records: tuple[bytes, bytes, Sign]) -> TopicRecords:
    found = [Stored(0, n, key, value, sign) for n, (key, value, sign) in enumerate(records)]
    return TopicRecords("drkit-failover.a.internal", "b", Kind.JOURNAL, found)


def test_entries_without_a_mac_are_adopted_at_first_and_never_again():
    old = [(b"r", b"1", Sign.NONE), (b"r", b"2", Sign.NONE)]
    again = [(k, v, Sign.CURRENT) for k, v, _ in old]
    begun, done = (ADOPTED, BEGUN, Sign.CURRENT), (ADOPTED, DONE, Sign.CURRENT)
    assert [r.offset for r in journal_entries(journal(*old), unsigned=True)] == [0, 1]
    assert journal_entries(journal(*old), unsigned=False) == []
    cut = journal(*old, begun, again[0])
    assert [r.offset for r in journal_entries(cut, unsigned=True)] == [0, 1, 3]
    whole = journal(*old, begun, *again, done, (b"r", b"forged", Sign.NONE))
    assert journal_entries(whole, unsigned=True) == []
    rotated = journal(*((k, v, Sign.PREVIOUS) for k, v, _ in old), (b"r", b"forged", Sign.NONE))
    assert [r.offset for r in journal_entries(rotated, unsigned=True)] == [0, 1]


class Journal(JournalTopic):
    """Read from memory."""

    def __init__(self, keys: ControlKeys, *records: tuple[bytes | None, bytes | None]) -> None:
        cluster: Any = SimpleNamespace(control=keys, alias="b")
        super().__init__(cluster, "a", "b")
        self.records = [
            Record(n, 1, key, value, raw_headers(keys, self.name, key, value) if key == ADOPTED else ())
            for n, (key, value) in enumerate(records)
        ]

    async def _fetch(self, deadline: float) -> Any:  # noqa: ARG002  the contract's
        return SimpleNamespace(records=bytes(encode(self.records, 0)), high_watermark=len(self.records))


def test_one_forged_entry_of_a_pair_without_a_failover_can_be_discarded():
    """Else the first failover would wait until somebody believes that entry."""
    forged = (b"r", b"forged")
    with pytest.raises(Refused, match="no valid MAC") as refused:
        asyncio.run(Journal(KEYS, forged).read())
    assert "drkit control adopt --discard" in refused.value.hint
    there = journal((*forged, Sign.NONE))
    found = FlowRecords(FLOW, KEYS, [there], {})
    written = _to_write(there, found, unsigned=False, discard=True)
    assert written == [(0, ADOPTED, BEGUN), (0, ADOPTED, DONE)]
    read = Journal(KEYS, forged, *((key, value) for _, key, value in written), forged)
    assert asyncio.run(read.read()) == []
    after = journal((*forged, Sign.NONE), *((k or b"", v or b"", Sign.CURRENT) for _, k, v in written))
    assert journal_entries(after, unsigned=True) == [], "what was discarded is adopted no more"
    assert _to_write(after, found, unsigned=False, discard=True) == []


@pytest.mark.parametrize("sign", [Sign.NONE, Sign.WRONG])
def test_a_state_that_was_never_adopted_is_not_discarded(sign: Sign):
    """A forged marker says that it was: then all roles, promotions and the map would be deleted."""
    found = FlowRecords(FLOW, KEYS, [state(("control-key", sign), ("promotion", sign))], {})
    assert found.adopted
    with pytest.raises(Refused, match="all that drkit knows"):
        refuse_loss(found.topics)
    refuse_loss([state(("flow", Sign.CURRENT), ("acls", sign))])


def test_what_was_written_since_it_was_read_is_not_replaced():
    """Somebody looks at the question for a while, and a failover promotes meanwhile."""
    read = state(("promotion", Sign.CURRENT))
    read.ends = {0: 1}
    refuse_change(read, {0: 1})
    with pytest.raises(Refused, match="others write meanwhile"):
        refuse_change(read, {0: 2})
