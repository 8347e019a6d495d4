"""What changed in the scope of a drill since the last one that passed."""

from __future__ import annotations

from drkit.config import ClusterSettings, Settings
from drkit.drill.inventory import ClusterInventory, InventoryPart, Items, drift, scope_of
from drkit.flow_state.names import CANARY_TOPIC


def settings_of(**flow: object) -> Settings:
    clusters = {a: ClusterSettings(alias=a, bootstrap_servers=f"{a}:9092") for a in ("p", "s")}
    flows = ({"source": "p", "target": "s", **flow},)
    return Settings.model_validate({"clusters": clusters, "flows": flows})


def inventory(**items: Items) -> dict[str, ClusterInventory]:
    parts = {InventoryPart[name.upper()]: found for name, found in items.items()}
    return {"source": ClusterInventory(items=parts, unknown={})}


def test_what_changed_is_named():
    before = inventory(topic={"orders": 1, "pay": 1, "old": 1}, group={"shop": {"state": "Stable"}})
    now = inventory(
        topic={"orders": 1, "pay": 2, "a": 1, "b": 1, "c": 1, "d": 1, CANARY_TOPIC: 1},
        group={"shop": {"state": "Empty"}},
        acl={"ALLOW User:x": "orders"},
    )
    changed = drift(scope_of(before, settings_of()), scope_of(now, settings_of(tasks=3)))
    assert sorted(changed) == [
        "ACL on the source: 1 new (ALLOW User:x)",
        "drkit: 1 changed (configuration)",
        "topic on the source: 4 new (a, b, c and 1 more), 1 gone (old), 1 changed (pay)",
    ]


def test_the_same_scope_has_no_drift():
    scope = scope_of(inventory(topic={"orders": {"id": "1", "partitions": 3}}), settings_of())
    assert not list(drift(scope, dict(scope)))
