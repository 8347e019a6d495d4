"""What `drkit control adopt` signs, passes over and refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest

from drkit.config import ClusterSettings, FlowSettings
from drkit.control_key import ControlKeys, SignedTopic
from drkit.errors import Refused, Usage
from drkit.failover.adopt import (
    NOTHING_DECIDED,
    SIGN_ALL,
    AdoptDecisions,
    FlowRecords,
    ReadRecord,
    Sign,
    TopicRecords,
    _take,
    _to_write,
    log_entries,
    refuse_change,
    refuse_loss,
    refuse_unknown,
)
from drkit.flow_state.names import ADOPTED, BEGUN, DONE, done_at
from drkit.flow_state.source_fence.entries import FenceMark
from drkit.flow_state.source_fence.topic import FenceTopic
from drkit.journal.topic import JournalTopic
from drkit.offset_map.bucket import MapBucket, Pair, adopted_at, pairs
from drkit.offsets import History, MapKey
from drkit.offsets.map_record import Intent, Mode
from drkit.wire import Record
from tests.model.explorer import Explorer
from tests.support.errors import coded
from tests.support.flow_state.keys import KEYS, PLACE, TOPIC, signatures

FLOW: Final = FlowSettings(source="a", target="b")
INTENT: Final = Intent(Mode.LIVE, 5, History(7, 0), 0, 0, 0, 0, ((3, 4),))


def state(*records: tuple[str, Sign]) -> TopicRecords:
    found = [ReadRecord(0, n, key.encode(), b"%d" % n, sign) for n, (key, sign) in enumerate(records)]
    return TopicRecords(TOPIC, "b", SignedTopic.STATE, found)


def test_what_has_a_mac_wins_and_what_has_none_is_adopted_only_when_asked():
    found = state(("flow", Sign.NONE), ("promotion", Sign.CURRENT), ("promotion", Sign.NONE),
                  ("flow", Sign.NONE), ("not drkit's", Sign.NONE), ("acls", Sign.PREVIOUS))  # fmt: skip
    assert [r.offset for r in found.newest(NOTHING_DECIDED)] == [1, 5]
    assert [r.offset for r in found.newest(SIGN_ALL)] == [1, 3, 5]
    assert [r.offset for r in found.foreign()] == [3]
    assert not found.is_signed()
    assert state(("promotion", Sign.NONE), ("promotion", Sign.CURRENT)).is_signed()
    assert not state(("promotion", Sign.CURRENT), ("promotion", Sign.NONE)).is_signed(), "it would be erased"


def journal(*records: tuple[bytes, bytes, Sign]) -> TopicRecords:
    found = [ReadRecord(0, n, key, value, sign) for n, (key, value, sign) in enumerate(records)]
    return TopicRecords("drkit-failover.a.internal", "b", SignedTopic.JOURNAL, found)


MARKS: Final = (ADOPTED, BEGUN, Sign.CURRENT), (ADOPTED, DONE, Sign.CURRENT)
RAISED, OPENED = b"raised", b"opened"


def entries(*values: bytes, sign: Sign) -> list[tuple[bytes, bytes, Sign]]:
    return [(b"r", value, sign) for value in values]


def signed(
    topic: TopicRecords, *, unsigned: bool = False, discard: bool = False
) -> list[bytes | None] | None:
    written = log_entries(topic, AdoptDecisions(unsigned, discard=[topic.name] if discard else []))
    return None if written is None else [value for _, _, value in written]


@pytest.mark.parametrize("known", [Sign.PREVIOUS, Sign.CURRENT])
@pytest.mark.parametrize("unknown", [Sign.NONE, Sign.WRONG])
def test_entries_without_a_valid_mac_are_for_a_person_to_decide_about(known: Sign, unknown: Sign):
    """The first adoption left them out, as the source did not answer, or others wrote them."""
    left_out = journal(*entries(RAISED, sign=unknown), *entries(OPENED, sign=known))
    assert signed(left_out) is None
    assert signed(left_out, unsigned=True) == [RAISED, OPENED]
    assert signed(left_out, discard=True) == [OPENED]
    assert left_out.undecided()
    only = journal(*entries(RAISED, OPENED, sign=unknown))
    assert (signed(only), signed(only, unsigned=True)) == (None, [RAISED, OPENED])
    decided = journal(*entries(RAISED, sign=unknown), MARKS[0], *entries(OPENED, sign=Sign.CURRENT), MARKS[1])
    assert signed(decided, unsigned=True) is None, "what was left out once stays so"


@pytest.mark.parametrize("unknown", [Sign.NONE, Sign.WRONG])
def test_a_copy_of_an_entry_is_no_other_entry(unknown: Sign):
    copied = journal(*entries(RAISED, OPENED, sign=Sign.PREVIOUS), *entries(RAISED, sign=unknown))
    assert signed(copied) == signed(copied, unsigned=True) == [RAISED, OPENED]
    assert signed(journal(*entries(RAISED, sign=Sign.CURRENT), *entries(RAISED, sign=unknown))) is None


class Journal(JournalTopic):
    """Read from memory."""

    def __init__(self, keys: ControlKeys, *records: tuple[bytes | None, bytes | None]) -> None:
        cluster: Any = SimpleNamespace(control=keys, alias="b")
        super().__init__(cluster, "a", "b")
        signed = self._signatures
        signed.place = PLACE._replace(at=signed.place.at)
        for n, (key, value) in enumerate(records):
            self._take(Record(n, 1, key, value, signed.headers(key, value) if key == ADOPTED else ()))

    async def _ask(self, ask: object) -> Any:  # noqa: ARG002  the contract's
        return True  # the log's end was met


def test_one_forged_entry_of_a_pair_without_a_failover_can_be_discarded():
    """Otherwise the first failover would be refused until the entry is adopted as genuine."""
    forged = (b"r", b"forged")
    with pytest.raises(Refused, check=coded("journal_unsigned")) as refused:
        asyncio.run(Journal(KEYS, forged).read())
    assert "drkit control adopt --discard TOPIC" in refused.value.hint
    there = journal((*forged, Sign.NONE))
    found = FlowRecords(FLOW, KEYS, [there], {})
    begun = _to_write(there, found, AdoptDecisions(discard=[there.name]))
    assert begun == [(0, ADOPTED, BEGUN)]
    written = [*begun, (0, ADOPTED, DONE)]
    read = Journal(KEYS, forged, *((key, value) for _, key, value in written), forged)
    assert asyncio.run(read.read()) == []
    after = journal((*forged, Sign.NONE), *((k or b"", v or b"", Sign.CURRENT) for _, k, v in written))
    assert signed(after, unsigned=True) is None, "what was discarded is adopted no more"
    assert _to_write(after, found, AdoptDecisions(discard=[after.name])) == []


@pytest.mark.parametrize(
    ("marks", "ends"),
    [
        ((BEGUN, DONE), True),
        ((BEGUN, b"done 1"), True),
        ((BEGUN, BEGUN, DONE), True),
        ((BEGUN, BEGUN, b"done 2"), True),
        ((BEGUN, BEGUN, b"done 1"), False),
        ((BEGUN, BEGUN, b"done 2", b"done 1"), True),
        ((BEGUN, b"done 2"), False),
    ],
)
def test_an_adoption_counts_if_its_last_mark_names_its_first_one(marks: tuple[bytes, ...], *, ends: bool):
    """Marks of earlier versions name none."""
    assert done_at(1) == b"done 1"
    entry = (b"r", b"forged")
    log = [entry, *((ADOPTED, mark) for mark in marks)]
    there = journal((*entry, Sign.NONE), *((k, v, Sign.CURRENT) for k, v in log[1:]))
    assert signed(there, unsigned=True) == (None if ends else [b"forged"])
    again = _to_write(there, FlowRecords(FLOW, KEYS, [there], {}), AdoptDecisions(discard=[there.name]))
    assert again == ([] if ends else [(0, ADOPTED, BEGUN)])
    reading = Journal(KEYS, *log).read()
    if ends:
        assert asyncio.run(reading) == []
    else:
        with pytest.raises(Refused, check=coded("journal_unsigned")) as refused:
            asyncio.run(reading)
        assert "did not end" in refused.value.evidence
    fences = FenceTopic(ClusterSettings(alias="a", bootstrap_servers="a:1").with_control(KEYS), FLOW)
    fences._take(Record(0, 1, b"r1/t", fences.entry(FenceMark.RAISED, "r1", 1, topics=["pay"]).encode()), "")
    for offset, mark in enumerate(marks, 1):
        fences._take(Record(offset, 1, ADOPTED, mark), "")
    assert bool(fences._fences.records) is not ends


@pytest.mark.parametrize("sign", [Sign.NONE, Sign.WRONG])
def test_what_an_interrupted_adoption_has_signed_is_not_all(sign: Sign):
    """Typed again without `--again`, it would end with these entries alone."""
    fragment = MARKS[0], *entries(RAISED, sign=Sign.CURRENT)
    cut = journal(*entries(RAISED, OPENED, sign=sign), *fragment)
    assert signed(cut) is None
    assert signed(cut, unsigned=True) == [RAISED, OPENED]
    for log in (cut, journal(*entries(RAISED, OPENED, sign=sign), *fragment, MARKS[0])):
        with pytest.raises(Refused, check=coded("adopt_nothing_signed")):
            refuse_loss([log])
    refuse_loss([journal(*entries(RAISED, OPENED, sign=sign), MARKS[0])])
    rotated = journal(*entries(RAISED, OPENED, sign=Sign.PREVIOUS), *fragment)
    assert signed(rotated) == [RAISED, OPENED]
    refuse_loss([rotated])


@pytest.mark.parametrize("replaced", ["its marker", "all of it"])
def test_a_state_whose_marker_is_hidden_is_not_adopted_once_more(replaced: str):
    """Compaction may keep a batch that readers pass over instead of drkit's record."""
    there = state(("promotion", Sign.CURRENT if replaced == "its marker" else Sign.NONE))
    there.passed_over = "offset 7: it unpacks to more" if replaced == "all of it" else ""
    found = FlowRecords(FLOW, KEYS, [there], {})
    assert found.adopted
    assert found.lacks_mac is (replaced == "all of it")


@pytest.mark.parametrize("sign", [Sign.NONE, Sign.WRONG])
def test_a_state_that_was_never_adopted_is_not_discarded(sign: Sign):
    """A forged marker says that it was: then all roles, promotions and the map would be deleted."""
    found = FlowRecords(FLOW, KEYS, [state(("control-key", sign), ("promotion", sign))], {})
    assert found.adopted
    with pytest.raises(Refused, check=coded("adopt_nothing_signed")):
        refuse_loss(found.topics)
    refuse_loss([state(("flow", Sign.CURRENT), ("acls", sign))])


@pytest.mark.parametrize("sign", [Sign.NONE, Sign.WRONG])
def test_a_key_is_signed_or_discarded_by_its_name_alone(sign: Sign):
    """Compaction may have left a forged record instead of drkit's: a role, a pause, a replay's progress."""
    there = state(("role/pay", sign), ("role/orders", sign), ("promotion", Sign.CURRENT))
    found = FlowRecords(FLOW, KEYS, [there, state(("control-key", Sign.CURRENT))], {})

    def written(decided: AdoptDecisions) -> list[tuple[bytes | None, bool]]:
        records = _to_write(there, found, decided)
        return [(key, value is None) for _, key, value in records if key != b"control-key"]

    assert written(NOTHING_DECIDED) == [(b"promotion", False)]
    assert written(AdoptDecisions(discard=["role/pay"])) == [(b"promotion", False), (b"role/pay", True)]
    assert written(AdoptDecisions(sign=["role/pay"])) == [(b"role/pay", False), (b"promotion", False)]
    refuse_unknown(found.topics, AdoptDecisions(sign=["role/pay"], discard=["role/orders"]))
    with pytest.raises(Usage, check=coded("adopt_name_unknown")) as unknown:
        refuse_unknown(found.topics, AdoptDecisions(discard=["role/pays"]))
    assert "role/orders, role/pay" in unknown.value.hint


def test_records_of_the_offset_map_are_not_discarded():
    """Their partition stops. Without them the positions before would be called exact."""
    key, value = pairs([(MapKey(UUID(int=1), UUID(int=2), 0), INTENT)])[0]
    forged = ReadRecord(0, 0, key, value, Sign.NONE)
    topic = TopicRecords("drkit-offset-map.a.internal", "b", SignedTopic.MAP, [forged], {0: 1})
    assert topic.foreign() == [forged]
    assert topic.names() == set()


def test_what_was_written_since_it_was_read_is_not_replaced():
    """While an operator reads the question, a failover promotes."""
    read = state(("promotion", Sign.CURRENT))
    read.ends = {0: 1}
    refuse_change(read, {0: 1})
    with pytest.raises(Refused, check=coded("adopt_state_changing")):
        refuse_change(read, {0: 2})


def read_map(*logs: Sequence[Pair]) -> dict[MapKey, object]:
    bucket = MapBucket(0, "m")
    for offset, (key, value) in enumerate(pair for log in logs for pair in log):
        bucket.apply(key, value, offset)
    return {
        key: (found.segments.triples(), found.tail, found.claims(), found.broken)
        for key, found in bucket.partitions.items()
    }


@pytest.mark.parametrize("seed", [7, 17, 28, 31, 43])
def test_a_map_that_is_signed_again_says_what_it_said(seed: int):
    """With both keys configured what was signed with the old one is read, too."""
    explorer = Explorer(seed)
    explorer.run(150 + seed % 5 * 60)
    log = [(e.key, e.value) for e in explorer.world.map.records if e.state == "committed"]
    records = [ReadRecord(0, n, key, value, Sign.PREVIOUS) for n, (key, value) in enumerate(log)]
    topic = TopicRecords("drkit-offset-map.a.internal", "b", SignedTopic.MAP, records, {0: len(log)})
    found = FlowRecords(FLOW, KEYS, [topic], {})
    again = [(key or b"", value) for _, key, value in _to_write(topic, found, NOTHING_DECIDED)]
    assert read_map(log, again) == read_map(log)
    assert read_map(log, again[1:]) != read_map(log), "else these schedules show nothing"
    assert read_map(log, again, again[:1]) == read_map(log), "the mark counts at its own offset only"
    topic.records += [ReadRecord(0, len(log) + n, k, v, Sign.CURRENT) for n, (k, v) in enumerate(again)]
    assert topic.is_signed()
    assert _to_write(topic, found, NOTHING_DECIDED) == []


def test_a_doubt_outlives_the_mark():
    """A record that a forged one has erased is still missing after the mark."""
    key, value = pairs([(MapKey(UUID(int=1), UUID(int=2), 0), INTENT)])[0]
    bucket = MapBucket(0, "m")
    bucket.refuse(key, 0, "it has no MAC")
    bucket.apply(*adopted_at(1), 1)
    assert bucket.doubt(MapKey(UUID(int=1), UUID(int=2), 0)) is not None
    bucket.apply(key, value, 2)
    assert bucket.doubt(MapKey(UUID(int=1), UUID(int=2), 0)) is None


def test_a_copy_that_readers_pass_over_is_not_signed_again():
    """Its MAC is valid and its offset later, and compaction may have removed the newer record of its key."""
    hour_ago, role = 10_000_000 - 3_600_000, b"role/pay"
    frozen = (role, b"frozen", signatures(now_ms=hour_ago).headers(role, b"frozen"))
    lease = (b"lease", b"1", signatures(now_ms=10_000_000).headers(b"lease", b"1"))
    promoted = (role, b"promoted", signatures(now_ms=hour_ago + 1).headers(role, b"promoted"))
    assert valid_values(frozen, promoted, lease, frozen) == {role: b"promoted", b"lease": b"1"}
    assert valid_values(lease, frozen) == {b"lease": b"1"}, "the promotion is gone, too"


def valid_values(
    *log: tuple[bytes, bytes, tuple[tuple[bytes, bytes], ...]],
) -> dict[bytes | None, bytes | None]:
    """Return what is signed again, by key."""
    topic = TopicRecords(TOPIC, "b", SignedTopic.STATE, signatures={0: signatures()})
    for offset, (key, value, headers) in enumerate(log):
        _take(topic, KEYS, 0, Record(offset, 0, key, value, headers))
    return {record.key: record.value for record in topic.newest(NOTHING_DECIDED)}
