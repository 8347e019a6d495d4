from __future__ import annotations

from typing import Any

from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.config.changes import LIVE, changes, combined
from drkit.config.tables.client_properties import ROLES

NAMES = ["a->b"]


def settings(*, clusters: dict[str, dict[str, str]] | None = None, **flow: Any) -> Settings:
    client = clusters or {}
    return Settings(
        clusters={
            x: ClusterSettings(alias=x, bootstrap_servers="h:1", client=client.get(x, {})) for x in "abc"
        },
        flows=(FlowSettings(source="a", target="b", **flow), FlowSettings(source="b", target="c")),
    )


def test_nothing_changed():
    assert changes(settings(), NAMES, settings()) == ({}, ())


def test_filters_and_intervals_are_taken_at_once():
    new = settings(topics=("x", "y"), refresh_topics_interval_seconds=1, sync_topic_configs=False)
    found = changes(settings(topics=("x",)), NAMES, new)
    assert found.live["a->b"].lines == (
        "topics: x → x, y",
        "refresh_topics_interval_seconds: 10.0 → 1.0",
        "sync_topic_configs: true → false",
    )
    assert found.restart == ()
    assert combined(settings(topics=("x",)), found) == new


def test_what_waits_for_a_restart_is_named_and_not_taken():
    old, new = settings(), settings(tasks=1, naming="prefix", topics=("x",))
    found = changes(old, NAMES, new)
    assert found.restart == ("flows.a->b.naming: identity → prefix", "flows.a->b.tasks: 2 → 1")
    taken = combined(old, found).flow("a->b")
    assert (taken.tasks, taken.naming, taken.topics) == (2, "identity", ("x",))


def test_secrets_are_not_shown():
    old = settings(clusters={"a": {"sasl.password": "old-secret"}})
    new = settings(
        clusters={"a": {"sasl.password": "new-secret"}}, target_producer={"sasl.password": "third"}
    )
    found = changes(old, NAMES, new)
    assert found.restart == ("flows.a->b.target_producer: sasl.password", "clusters.a.client.sasl.password")


def test_flows_that_come_and_go():
    old, fewer = settings(), settings()
    fewer = fewer.model_copy(update={"flows": (fewer.flows[1], FlowSettings(source="c", target="a"))})
    found = changes(old, NAMES, fewer)
    assert found.restart == ("flows.a->b: it is no longer in the file", "flows.c->a: it is new in the file")
    assert changes(old, ["b->c"], fewer).restart == ("flows.c->a: it is new in the file",)


def test_clusters_of_other_flows_are_none_of_our_business():
    assert not changes(settings(), NAMES, settings(clusters={"c": {"client.id": "x"}})).restart


def test_every_live_setting_is_one_and_none_says_how_to_connect():
    assert set(LIVE) <= set(FlowSettings.model_fields)
    assert not set(LIVE) & {"source", "target", "buckets", "tasks", "naming", "separator", *ROLES}
