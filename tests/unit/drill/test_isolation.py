"""Topics and groups of drills belong to the drill's own flow, whatever other flows are told to copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit import observe
from drkit.config import FlowSettings, Settings
from drkit.flow_state import names
from drkit.pair import reverse_flow
from drkit.pair.reverse_flow import OppositeFlows
from drkit.topology import IdentityNaming
from drkit.topology.acls import Acl, AclOperation, PatternKind, Permission, ResourceKind
from drkit.topology.flows import refused_names

PARTS = st.text(st.characters(codec="ascii", categories=("L", "N"), include_characters="._-"), min_size=1)
TOPICS = st.builds(names.drill_topic, PARTS, PARTS)
GROUPS = st.builds(names.drill_group, PARTS, st.text(min_size=1))
PATTERNS = st.lists(
    st.sampled_from([".*", "drkit-.*", r"drkit-drill\..*", r".*\.internal", "orders"]), max_size=3
)
OTHERS = st.one_of(
    PARTS.filter(lambda name: not name.startswith("drkit-drill.")),
    st.sampled_from(["orders", "drkit-drill", "drkit-state.a.internal", "__consumer_offsets", "heartbeats"]),
)


def flow_from(source: str, **settings: Any) -> FlowSettings:
    return FlowSettings(source=source, target="standby", **settings)


@given(TOPICS, GROUPS, PATTERNS, PATTERNS, st.sampled_from(["identity", "prefix"]))
def test_no_other_flow_carries_what_a_drill_makes(
    topic: str, group: str, include: list[str], exclude: list[str], naming: str
):
    flow = flow_from(
        "primary",
        topics=include,
        topics_exclude=exclude,
        groups=include,
        groups_exclude=exclude,
        naming=naming,
    )
    assert not flow.copies(topic)
    assert not flow.group_filter.accepts(group)
    acls = [
        Acl(
            ResourceKind.TOPIC, PatternKind.LITERAL, topic, "User:x", "*", AclOperation.READ, Permission.ALLOW
        ),
        Acl(
            ResourceKind.GROUP, PatternKind.LITERAL, group, "User:x", "*", AclOperation.READ, Permission.ALLOW
        ),
    ]
    assert not [found for acl in acls for found in flow.acl_scope([topic]).renamed(acl)]


@given(TOPICS, GROUPS, OTHERS)
def test_a_drill_carries_nothing_else(topic: str, group: str, other: str):
    flow = flow_from(names.drill_alias("primary"), topics_exclude=(), groups_exclude=())
    assert flow.copies(topic)
    assert flow.group_filter.accepts(group)
    assert not flow.copies(other)
    assert not flow.group_filter.accepts(other)


@given(TOPICS, PARTS, PARTS)
def test_mirrormaker_2_never_copies_what_a_drill_makes(topic: str, source: str, target: str):
    """Its `isMM2InternalTopic` goes before its filters; names of production stay as they were."""
    of_source = (names.state_topic, names.offset_map_topic, names.journal_topic)
    of_pair = (names.fence_topic, names.watch_topic, names.replay_topic)

    def of(alias: str) -> list[str]:
        return [*(name(alias) for name in of_source), *(name(alias, target) for name in of_pair)]

    made = [topic, *of(names.drill_alias(source))]
    assert all(name.startswith("mm2") and name.endswith(".internal") for name in made)
    assert all(names.is_of_drill("d1", name) for name in made[1:])
    assert of("p") == [
        "drkit-state.p.internal",
        "drkit-offset-map.p.internal",
        "drkit-failover.p.internal",
        f"drkit-fence.p.{target}.internal",
        f"drkit-watch.p.{target}.internal",
        f"drkit-replay.p.{target}.internal",
    ]


def test_only_a_drill_may_have_such_a_copy():
    topic = names.drill_topic("d1", "orders")
    naming = IdentityNaming("primary")
    assert set(refused_names("f", "primary", naming, [topic], [])) == {topic}
    assert not refused_names(
        "f", names.drill_alias("primary"), naming, [topic, "drkit-drill.d1.x.internal"], []
    )


def test_no_file_may_have_the_alias_of_a_drill():
    cluster = {"bootstrap_servers": "x:9092"}
    flows = [{"source": "a", "target": "b", "opposite_flows": ["drkit-drill-c"]}]
    tables = {"clusters": {"a": cluster, "b": cluster, "drkit-drill-a": cluster}, "flows": flows}
    found = {at: what for at, what, _ in Settings.model_validate(tables).disagreements()}
    assert found == {
        "clusters.drkit-drill-a": "the alias 'drkit-drill-a' is reserved for drills",
        "flows[0].opposite_flows": "the alias 'drkit-drill-c' is reserved for drills",
    }


@pytest.mark.parametrize("opposite_flows", [None, (), ("standby",)])
def test_the_state_of_a_drill_is_passed_over_in_silence(
    monkeypatch: pytest.MonkeyPatch, opposite_flows: tuple[str, ...] | None
):
    asked: list[str] = []
    events: list[str] = []
    on_source = [names.state_topic("drkit-drill-standby"), names.state_topic("standby")]
    monkeypatch.setattr(reverse_flow, "topic_names", lambda _: on_source)

    def nothing(_read: object, _cluster: object, wanted: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        asked.extend(wanted)
        return {}, {}

    monkeypatch.setattr(reverse_flow, "one_by_one", nothing)
    monkeypatch.setattr(observe, "event", lambda name, **_: events.append(name))

    cluster: Any = SimpleNamespace(alias="primary", cluster_id="id")
    state: Any = None
    OppositeFlows(cluster, cluster, flow_from("primary", opposite_flows=opposite_flows), state, 1.0).find()
    assert (asked, events) == ([names.state_topic("standby")], [])
