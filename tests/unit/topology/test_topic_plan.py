"""The laws of a topic plan: it leads to what is wanted, once, in a safe order, and touches nothing else."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.topology.topic_configs import MAX_MESSAGE_BYTES, PASSIVE, ConfigRules, Want
from drkit.topology.topic_plan import (
    ActualTopic,
    AddPartitions,
    CreateTopic,
    DeleteConfig,
    DeleteTopic,
    SetConfig,
    TopicChange,
    WantedTopic,
    is_met,
    plan,
)
from tests.support.topology.topic_configs import DEFAULT, FILE, TOPIC, Value

# What the target's brokers say where a topic is silent.
INHERITED: Final = {
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "min.insync.replicas": "1",
    MAX_MESSAGE_BYTES: "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "3600000",
}
NUMBERS: Final = {
    "retention.ms": ["-1", "1000", "604800000"],
    "retention.bytes": ["-1", "1", "99"],
    "cleanup.policy": ["delete", "compact"],
    "min.insync.replicas": ["1", "2", "3"],
    MAX_MESSAGE_BYTES: ["0", "1024", "1048588", "5000000"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime"],
    "message.timestamp.before.max.ms": ["5", "9223372036854775807"],
    "message.timestamp.after.max.ms": ["5", "9223372036854775807"],
}
EXCLUDES: Final = st.lists(st.sampled_from([r"retention\..*", "cleanup.policy", "min.*", "max.*"])).map(tuple)
RULES: Final = st.builds(ConfigRules, EXCLUDES, st.sampled_from(["target", "source"]), sync=st.booleans())


def settings(sources: list[str]) -> st.SearchStrategy[dict[str, Value]]:
    return st.fixed_dictionaries({
        name: st.builds(Value, st.sampled_from(values), st.sampled_from(sources))
        for name, values in NUMBERS.items()
    })  # fmt: skip


SOURCES: Final = settings([TOPIC, "DYNAMIC_BROKER_CONFIG", FILE, DEFAULT])
TARGETS: Final = st.builds(
    lambda own: {n: own.get(n, Value(v, DEFAULT)) for n, v in INHERITED.items()},
    st.dictionaries(st.sampled_from(list(NUMBERS)), st.none()).flatmap(
        lambda names: st.fixed_dictionaries({n: st.builds(Value, st.sampled_from(NUMBERS[n])) for n in names})
    ),
)
TOPICS: Final = st.fixed_dictionaries(
    {},
    optional={
        name: st.tuples(
            SOURCES, st.integers(1, 4), st.none() | st.tuples(TARGETS, st.integers(1, 4)), st.integers(1, 3)
        )
        for name in ("a", "b", "c")
    },
)


def state(topics, rules: ConfigRules) -> tuple[list[WantedTopic], dict[str, ActualTopic]]:
    wanted, actual = [], {}
    for name, (source, partitions, target, replicas) in topics.items():
        configs = rules.wanted(source, replicas, new=target is None)
        wanted.append(WantedTopic(name, partitions, replicas, configs))
        if target is not None:
            actual[name] = ActualTopic(target[1], target[0])
    return wanted, actual


def inherited() -> dict[str, Value]:
    return {n: Value(v, DEFAULT) for n, v in INHERITED.items()}


def applied(changes: tuple[TopicChange, ...], actual: dict[str, ActualTopic]) -> dict[str, ActualTopic]:
    """What a cluster makes of the changes, one after the other."""
    now = dict(actual)
    for change in changes:
        if isinstance(change, CreateTopic):
            own = {n: Value(w.value) for n, w in change.configs.items()}
            now[change.topic] = ActualTopic(change.partitions, inherited() | own)
        elif isinstance(change, DeleteTopic):
            del now[change.topic]
        else:
            here = now[change.topic]
            if isinstance(change, AddPartitions):
                assert here.partitions == change.before < change.after
                now[change.topic] = here._replace(partitions=change.after)
            elif isinstance(change, SetConfig):
                assert here.configs[change.setting].value == change.before
                now[change.topic] = here._replace(
                    configs={**here.configs, change.setting: Value(change.after)}
                )
            elif isinstance(change, DeleteConfig):
                assert here.configs[change.setting].is_set_on_topic
                back = inherited()[change.setting]
                now[change.topic] = here._replace(configs={**here.configs, change.setting: back})
    return now


@given(TOPICS, RULES)
def test_applying_the_plan_gives_what_is_wanted_and_planning_again_gives_nothing(topics, rules: ConfigRules):
    wanted, actual = state(topics, rules)
    after = applied(plan(wanted, actual), actual)
    # A new topic may inherit a smaller limit than the source's: the second look sees it, as TopicSync does.
    after = applied(plan(wanted, after), after)
    for topic in wanted:
        here = after[topic.topic]
        assert here.partitions >= topic.partitions
        for name, want in topic.configs.items():
            assert is_met(want, here.configs[name]), (name, want, here.configs[name])
    assert plan(wanted, after) == ()


@given(TOPICS, RULES)
def test_what_is_not_wanted_stays_as_it_is_and_nothing_shrinks(topics, rules: ConfigRules):
    wanted, actual = state(topics, rules)
    after = applied(plan(wanted, actual), actual)
    for name, before in actual.items():
        assert after[name].partitions >= before.partitions
        assert int(after[name].configs[MAX_MESSAGE_BYTES].value or 0) >= int(
            before.configs[MAX_MESSAGE_BYTES].value or 0
        )
        for setting, value in before.configs.items():
            if rules.leaves(setting) and setting not in PASSIVE:
                assert after[name].configs[setting] == value


@given(TOPICS, RULES)
def test_no_fence_reaches_the_target(topics, rules: ConfigRules):
    wanted, actual = state(topics, rules)
    for change in plan(wanted, actual):
        if isinstance(change, CreateTopic) and MAX_MESSAGE_BYTES in change.configs:
            assert int(change.configs[MAX_MESSAGE_BYTES].value or 0) >= 1024
        if isinstance(change, SetConfig) and change.setting == MAX_MESSAGE_BYTES:
            assert int(change.after) >= 1024


@given(TOPICS, RULES)
def test_room_comes_before_data_and_removal_last(topics, rules: ConfigRules):
    wanted, actual = state(topics, rules)
    gone = [DeleteTopic("gone", "deleted on the source", "id")]
    changes = plan(wanted, actual, gone)
    kinds = [rank(c) for c in changes]
    assert kinds == sorted(kinds)
    assert changes[-1] == gone[0]


def rank(change: TopicChange) -> int:
    """The law in words of its own: create, grow, needed settings, longer retention, the rest, delete."""
    if isinstance(change, (CreateTopic, AddPartitions)):
        return 0 if isinstance(change, CreateTopic) else 1
    if isinstance(change, SetConfig) and change.setting in {*PASSIVE, MAX_MESSAGE_BYTES}:
        return 2
    if isinstance(change, SetConfig) and change.setting in {"retention.ms", "retention.bytes"}:
        before, after = (float("inf") if v == "-1" else int(v or 0) for v in (change.before, change.after))
        return 3 if after > before else 4
    return 5 if isinstance(change, DeleteTopic) else 4


def planned(want: Want, here: Value, name: str = "retention.ms") -> tuple[TopicChange, ...]:
    return plan([WantedTopic("t", 1, 1, {name: want})], {"t": ActualTopic(1, {name: here})})


@pytest.mark.parametrize(
    ("want", "here", "rows"),
    [
        (Want("5", "w"), Value("4"), [("t", "set config", "retention.ms", "4", "5", "w")]),
        (Want("5", "w"), Value("5", DEFAULT), [("t", "set config", "retention.ms", "5", "5", "w")]),
        (Want("5", "w"), Value("5"), []),
        (Want(None, "w"), Value("5"), [("t", "delete config", "retention.ms", "5", "default", "w")]),
        (Want(None, "w"), Value("5", DEFAULT), []),
        (Want("5", "w", at_least=True), Value("6", DEFAULT), []),
        (Want("5", "w", explicit=False), Value("5", FILE), []),
    ],
)
def test_each_difference_becomes_one_row_that_says_why(want: Want, here: Value, rows: list[tuple[str, ...]]):
    assert [tuple(r) for c in planned(want, here) for r in c.rows()] == rows


def test_a_setting_that_the_target_does_not_know_is_not_asked_of_it():
    wanted = WantedTopic("t", 1, 1, {"new.setting": Want("1", "w")})
    assert plan([wanted], {"t": ActualTopic(1, {})}) == ()


def test_a_new_topic_is_one_change_with_its_settings():
    wants = {"retention.ms": Want("5", "as on the source"), "cleanup.policy": Want(None, "inherited")}
    (change,) = plan([WantedTopic("t", 3, -1, wants)], {})
    assert [tuple(r) for r in change.rows()] == [
        ("t", "create topic", "", None, "3 partitions, default replicas", "not on the target yet"),
        ("t", "with config", "retention.ms", None, "5", "as on the source"),
    ]
