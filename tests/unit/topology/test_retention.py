"""Which changes of settings let a topic keep less: a small model of Kafka's cleaner decides."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from drkit.topology.topic_configs import Want
from drkit.topology.topic_plan import Removal, inherited, keeps_less, removals
from tests.support.examples import times
from tests.support.topology.topic_configs import DEFAULT, FILE, Value

VALUES: Final = {
    "cleanup.policy": ["compact,delete", "delete", "compact", ""],
    "retention.ms": ["-1", "0", "5"],
    "retention.bytes": ["-1", "-1", "5"],
    "delete.retention.ms": ["0", "20"],
    "min.compaction.lag.ms": ["0", "0", "20"],
    "segment.bytes": ["1", "2", "8"],
    "max.message.bytes": ["1", "2"],
}
SETTINGS: Final = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


class Kept(NamedTuple):
    """A record of one byte; the newest has the age 0."""

    key: str
    age_ms: int
    is_tombstone: bool


LOGS: Final = st.lists(
    st.builds(Kept, st.sampled_from("ab"), st.just(0), st.booleans()), min_size=9, max_size=30
).map(lambda log: [r._replace(age_ms=len(log) - 1 - i) for i, r in enumerate(log)])


def kept(topic: dict[str, str], log: list[Kept]) -> set[int]:
    """The offsets that brokers keep of a log: they remove whole segments, and compact all but the last."""
    size, policies = (
        int(topic["segment.bytes"]),
        {p.strip() for p in topic["cleanup.policy"].split(",")},
    )
    segments = [list(enumerate(log))[i : i + size] for i in range(0, len(log), size)]
    left = list(segments)
    if "delete" in policies:
        longest, most = (float("inf") if v == "-1" else int(v) for v in (
            topic["retention.ms"], topic["retention.bytes"]
        ))  # fmt: skip
        while left and left[0][-1][1].age_ms > longest:
            del left[0]
        while left and sum(map(len, left)) - len(left[0]) >= most:
            del left[0]
    found = {offset for segment in left for offset, _ in segment}
    if "compact" in policies:
        for segment in left[:-1]:
            for offset, record in segment:
                if record.age_ms < int(topic["min.compaction.lag.ms"]):
                    continue
                is_superseded = any(r.key == record.key for r in log[offset + 1 :])
                is_over = record.is_tombstone and record.age_ms > int(topic["delete.retention.ms"])
                if is_superseded or is_over:
                    found.discard(offset)
    return found


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=times(3))
@given(before=SETTINGS, wanted=SETTINGS, log=LOGS)
def test_what_is_not_held_back_removes_no_record(
    name: str, before: dict[str, str], wanted: dict[str, str], log: list[Kept]
):
    """One setting changes, then all of them."""
    for changes in ({name: wanted[name]}, wanted):
        current = {n: Value(value) for n, value in before.items()}
        wants = {n: Want(value, "as on the source") for n, value in changes.items()}
        held = removals(current, wants, lambda _name: None)
        followed = before | {n: value for n, value in changes.items() if n not in held}
        assert kept(followed, log) >= kept(before, log)


@pytest.mark.parametrize(
    ("name", "before", "after", "less"),
    [
        ("retention.ms", "604800000", "1", True),
        ("retention.ms", "-1", "604800000", True),
        ("retention.ms", "1", "-1", False),
        ("retention.bytes", "-1", "0", True),
        ("cleanup.policy", "delete", "compact", True),
        ("cleanup.policy", "delete", "compact,delete", True),
        ("cleanup.policy", "compact", "delete", True),
        ("cleanup.policy", "compact,delete", "compact", False),
        ("cleanup.policy", "delete,compact", "compact, delete", False),
        ("cleanup.policy", "", "delete", True),
        ("delete.retention.ms", "86400000", "0", True),
        ("segment.ms", "604800000", "1", True),
        ("segment.jitter.ms", "0", "604800000", True),
        ("min.cleanable.dirty.ratio", "0.5", "0.01", True),
        ("min.cleanable.dirty.ratio", "0.5", "0.50", False),
        ("remote.storage.enable", "true", "false", True),
        ("remote.log.delete.on.disable", "false", "true", True),
        ("remote.storage.enable", "false", "true", False),
        ("retention.ms", None, "604800000", True),
        ("max.message.bytes", "2000000", "1", False),
        ("compression.type", None, "gzip", False),
    ],
)
def test_one_change(name: str, before: str | None, after: str, less: bool):  # noqa: FBT001  a table
    assert keeps_less(name, before, after) is less


@given(st.sampled_from(list(VALUES)).flatmap(lambda n: st.tuples(st.just(n), st.sampled_from(VALUES[n]))))
def test_the_same_value_keeps_the_same(pair: tuple[str, str]):
    name, value = pair
    assert not keeps_less(name, value, value)


@pytest.mark.parametrize(
    ("broker", "name", "value"),
    [
        ({"log.retention.hours": "168"}, "retention.ms", "604800000"),
        ({"log.retention.minutes": "2", "log.retention.hours": "168"}, "retention.ms", "120000"),
        ({"log.retention.ms": "5", "log.retention.hours": "168"}, "retention.ms", "5"),
        ({"log.retention.ms": None, "log.retention.hours": "-1"}, "retention.ms", "-1"),
        ({"log.cleanup.policy": "delete"}, "cleanup.policy", "delete"),
        ({}, "retention.bytes", None),
        ({"max.message.bytes": "1"}, "max.message.bytes", None),
    ],
)
def test_what_a_topic_inherits(broker: dict[str, str | None], name: str, value: str | None):
    assert inherited(name, {n: Value(v, FILE) for n, v in broker.items()}) == value


@pytest.mark.parametrize(
    ("default", "found"),
    [
        ("604800000", {}),
        ("1000", {"retention.ms": Removal("86400000", None)}),
        (None, {"retention.ms": Removal("86400000", None)}),
    ],
)
def test_back_to_the_brokers_default(default: str | None, found: dict[str, Any]):
    """The default of the target counts, not that of the source; one that is unknown may keep less."""
    wants = {"retention.ms": Want(None, "inherited"), "segment.bytes": Want(None, "inherited")}
    current = {"retention.ms": Value("86400000"), "segment.bytes": Value("1073741824", DEFAULT)}
    assert removals(current, wants, lambda _name: default) == found


def test_a_setting_that_the_target_does_not_know_removes_nothing():
    assert removals({}, {"retention.ms": Want("1", "as on the source")}, lambda _name: None) == {}
