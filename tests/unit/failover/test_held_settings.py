"""A hold of the new primary's settings: no own value is lost, whatever is killed or changed when."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.failover.new_primary.hold import to_hold, to_put_back
from drkit.flow_state.records import HeldSettingsRecord
from drkit.kafka.topics import ConfigValue
from drkit.topic_sync.rules import without_held
from drkit.topology.topic_configs import WIDEST

OWN, INHERITED = "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"
LAGS = ("max.compaction.lag.ms", "min.compaction.lag.ms")
DEFAULTS = {"retention.ms": "604800000", "retention.bytes": "-1", LAGS[0]: WIDEST, LAGS[1]: "0"}


class Topic:
    """A topic of the new primary, and what is on record of it."""

    def __init__(self, policy: str, own: Mapping[str, str]) -> None:
        self.policy, self.own = policy, dict(own)
        self.record: HeldSettingsRecord | None = None
        self.now = 0

    @property
    def configs(self) -> dict[str, ConfigValue]:
        found = {n: ConfigValue(v, INHERITED) for n, v in DEFAULTS.items()}
        found["cleanup.policy"] = ConfigValue(self.policy, OWN)
        return found | {n: ConfigValue(v, OWN) for n, v in self.own.items()}

    def hold(self, *, killed: bool = False) -> Mapping[str, str | None]:
        self.now += 1
        found = to_hold(self.configs, self.record, "ada", self.now)
        self.record = found.record or self.record
        if not killed:
            self._set(found.changes)
        return found.changed

    def put_back(self, *, killed: bool = False) -> Mapping[str, str | None]:
        self.now += 1
        if self.record is None or self.record.ended_ms is not None:
            return {}
        found = to_put_back(self.configs, self.record, self.now)
        self._set(found.changes)
        if not killed:
            self.record = found.record
        return found.changed

    def _set(self, changes: Mapping[str, str | None]) -> None:
        for name, value in changes.items():
            if value is None:
                self.own.pop(name, None)
            else:
                self.own[name] = value


def test_a_topic_keeps_everything_and_gets_its_own_back():
    topic = Topic("delete", {"retention.ms": "3600000"})
    assert topic.hold() == {}
    assert topic.own == {"retention.ms": "-1", "retention.bytes": "-1"}
    topic.put_back()
    assert topic.own == {"retention.ms": "3600000"}
    assert topic.record is not None
    assert topic.record.ended_ms


def test_the_cleaner_of_a_compacted_topic_rests():
    topic = Topic("compact", {})
    topic.hold()
    assert topic.own == dict.fromkeys(LAGS, WIDEST)


def test_a_topic_that_keeps_everything_by_itself_is_left_alone():
    topic = Topic("delete", {"retention.ms": "-1", "retention.bytes": "-1"})
    topic.hold()
    assert topic.record is None


def test_what_a_person_sets_meanwhile_is_his_and_is_said():
    topic = Topic("delete", {"retention.ms": "3600000"})
    topic.hold()
    topic.own["retention.ms"] = "60000"
    assert topic.put_back() == {"retention.ms": "60000"}
    assert topic.own == {"retention.ms": "60000"}
    topic.hold()
    topic.own["retention.ms"] = "70000"
    assert topic.hold() == {"retention.ms": "70000"}
    assert topic.own["retention.ms"] == "-1", "a person has asked for it again"
    assert topic.put_back() == {}
    assert topic.own["retention.ms"] == "70000"


def test_after_its_end_the_same_value_is_a_person_s_own():
    topic = Topic("delete", {"retention.ms": "3600000"})
    topic.hold()
    topic.put_back()
    topic.own["retention.ms"] = "-1"
    topic.hold()
    topic.put_back()
    assert topic.own == {"retention.ms": "-1"}


def test_since_when_it_holds_is_when_it_last_changed_something():
    topic = Topic("compact", {})
    topic.hold(killed=True)
    topic.hold()
    assert topic.record is not None
    assert topic.record.at_ms == 2, "the first one has changed nothing"
    topic.hold()
    assert topic.record.at_ms == 2
    assert topic.record.holds({n: c.value for n, c in topic.configs.items()})


values = st.sampled_from(["60000", "70000", None])
names = st.sampled_from(["retention.ms", "retention.bytes", *LAGS])
acts = st.one_of(
    st.sampled_from(["hold", "hold, killed", "put back", "put back, killed"]),
    st.tuples(names, values),
    st.sampled_from(["delete", "compact", "compact,delete"]).map(lambda policy: ("cleanup.policy", policy)),
)


@given(
    st.sampled_from(["delete", "compact", "compact,delete"]),
    st.dictionaries(names, st.just("50000")),
    st.lists(acts),
)
def test_whatever_happens_in_between_everybody_s_own_value_is_back_in_the_end(
    policy: str, own: dict[str, str], story: list[str | tuple[str, str | None]]
):
    topic, truth = Topic(policy, own), dict(own)
    for act in story:
        match act:
            case "hold":
                topic.hold()
            case "hold, killed":
                topic.hold(killed=True)
            case "put back":
                topic.put_back()
            case "put back, killed":
                topic.put_back(killed=True)
            case ("cleanup.policy", str(chosen)):
                topic.policy = chosen
            case (name, value):
                if value is None:
                    topic.own.pop(name, None)
                    truth.pop(name, None)
                else:
                    topic.own[name] = truth[name] = value
    topic.put_back()
    assert topic.own == truth


def test_another_cluster_never_gets_what_a_hold_has_set():
    topic = Topic("delete", {"retention.ms": "3600000"})
    topic.hold()
    assert topic.record is not None
    shown = without_held(topic.configs, topic.record.not_its_own(9))
    assert not {"retention.ms", "retention.bytes"} & shown.keys()
    topic.own["retention.ms"] = "60000"
    assert without_held(topic.configs, topic.record.not_its_own(9))["retention.ms"].value == "60000"


@pytest.mark.parametrize(("late_ms", "is_shown"), [(0, False), (60_000, False), (60_002, True)])
def test_a_broker_that_shows_it_for_a_moment_longer_misleads_nobody(late_ms: int, is_shown: bool):  # noqa: FBT001
    topic = Topic("delete", {"retention.ms": "3600000"})
    topic.hold()
    late = topic.configs
    topic.put_back()
    assert topic.record is not None
    shown = without_held(late, topic.record.not_its_own(topic.now + late_ms))
    assert ("retention.ms" in shown) is is_shown
