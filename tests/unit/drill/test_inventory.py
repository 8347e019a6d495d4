"""The comparison of inventories: what is left, what others changed, and what is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.config import ClusterSettings
from drkit.drill import inventory as module
from drkit.drill.entry import MadeItem
from drkit.drill.inventory import (
    ClusterInventory,
    InventoryComparison,
    InventoryItem,
    InventoryPart,
    compare_inventories,
    read_inventory,
)
from drkit.errors import ClusterUnreachable
from tests.support.errors import made

MADE = [
    MadeItem("source", "topic", "drkit-drill.1.orders.internal", "id-1"),
    MadeItem("source", "topic", "drkit-drill.1.unseen.internal"),
    MadeItem("source", "group", "drkit-drill.1.reader"),
]


def topic(topic_id: str, **configs: str) -> dict[str, Any]:
    return {"id": topic_id, "partitions": 1, "configs": configs}


def inventory(**items: dict[str, Any]) -> ClusterInventory:
    parts = {part: items.get(part.name.lower(), {}) for part in InventoryPart}
    return ClusterInventory(items=parts, unknown={})


def compared(before: ClusterInventory, after: ClusterInventory) -> InventoryComparison:
    def is_residue(item: InventoryItem) -> bool:
        return item == (InventoryPart.TRANSACTIONAL_ID, "drkit.drkit-drill-a.b.0")

    return compare_inventories(before, after, MADE, is_residue, ("drkit-drill-a",))


BEFORE = inventory(topic={"orders": topic("id-0")}, group={"shop": {"state": "Stable", "offsets": {}}})


def test_the_same_is_clean():
    assert compared(BEFORE, BEFORE) == InventoryComparison()
    assert compared(BEFORE, BEFORE).is_clean


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param(
            {"topic": {"drkit-drill.1.orders.internal": topic("id-1")}},
            {"ours_left": ("topic drkit-drill.1.orders.internal",)},
            id="a topic of the record",
        ),
        pytest.param(
            {"topic": {"drkit-drill.1.orders.internal": topic("id-9")}},
            {"changed_by_others": ("topic drkit-drill.1.orders.internal",)},
            id="another topic of that name",
        ),
        pytest.param(
            {"topic": {"drkit-drill.1.unseen.internal": topic("id-9")}},
            {"ours_left": ("topic drkit-drill.1.unseen.internal",)},
            id="a topic whose id was never seen",
        ),
        pytest.param(
            {"topic": {"drkit-fence.drkit-drill-a.b.internal": topic("id-9")}},
            {"ours_left": ("topic drkit-fence.drkit-drill-a.b.internal",)},
            id="a topic that the record forgot",
        ),
        pytest.param(
            {"group": {"drkit-drill.1.reader": {"state": "Empty", "offsets": {}}}},
            {"ours_left": ("group drkit-drill.1.reader",)},
            id="a group",
        ),
        pytest.param(
            {"acl": {"DENY User:a WRITE on it": "drkit-drill.1.orders.internal"}},
            {"ours_left": ("ACL DENY User:a WRITE on it",)},
            id="an ACL on a topic of the record",
        ),
        pytest.param(
            {"acl": {"ALLOW User:a READ on topic orders": "orders"}},
            {"changed_by_others": ("ACL ALLOW User:a READ on topic orders",)},
            id="an ACL of others",
        ),
        pytest.param(
            {"transactional_id": {"drkit.drkit-drill-a.b.0": ""}},
            {"residue": ("transactional id drkit.drkit-drill-a.b.0",)},
            id="residue",
        ),
        pytest.param(
            {"topic": {"orders": topic("id-0", **{"max.message.bytes": "1"})}},
            {"changed_by_others": ("topic orders",)},
            id="a setting of others",
        ),
    ],
)
def test_what_differs_is_named(after: dict[str, Any], expected: dict[str, Any]):
    both = {"topic": {"orders": topic("id-0")}, "group": {"shop": {"state": "Stable", "offsets": {}}}}
    later = {part: {**both.get(part, {}), **after.get(part, {})} for part in both.keys() | after.keys()}
    found = compared(BEFORE, inventory(**later))
    assert found == InventoryComparison(**expected)
    assert found.is_clean is ("ours_left" not in expected)


def test_what_is_gone_was_changed_by_others():
    found = compared(BEFORE, inventory(topic={"orders": topic("id-0")}))
    assert found == InventoryComparison(changed_by_others=("group shop",))


@pytest.mark.parametrize("is_later", [False, True])
def test_a_look_without_an_answer_is_never_clean(*, is_later: bool):
    items = dict(BEFORE.items)
    del items[InventoryPart.TOPIC]
    silent = ClusterInventory(items=items, unknown={InventoryPart.TOPIC: "no answer"})
    found = compared(*((BEFORE, silent) if is_later else (silent, BEFORE)))
    assert found == InventoryComparison(unknown=("topic: no answer",))
    assert not found.is_clean


def test_a_part_that_does_not_answer_is_unknown(monkeypatch: pytest.MonkeyPatch):
    def silent(settings: ClusterSettings) -> dict[str, Any]:
        raise made(ClusterUnreachable, "cannot list topics", where=settings.alias, evidence="no answer")

    readers = {**dict.fromkeys(InventoryPart, lambda _: {"one": ""}), InventoryPart.TOPIC: silent}
    monkeypatch.setattr(module, "_READERS", readers)
    found = read_inventory(ClusterSettings(alias="a", bootstrap_servers="nowhere:1"))
    assert found.unknown == {InventoryPart.TOPIC: "cannot list topics: no answer"}
    assert found.items.keys() == {*InventoryPart} - {InventoryPart.TOPIC}
