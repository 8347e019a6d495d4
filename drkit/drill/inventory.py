"""The inventory of a cluster before and after a drill, what differs, and the scope of a drill in short.

A part that could not be read is unknown, never clean: nothing is known of what is left there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
import json
from typing import Any, Final, NamedTuple

from drkit import __version__
from drkit.config import ClusterSettings, Settings
from drkit.counted import first_of
from drkit.drill.entry import MadeItem
from drkit.errors import DrkitError
from drkit.kafka.access.acls import NoAuthorizer, list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import RawCluster, ask_once
from drkit.kafka.topics import broker_config, describe_topics, topic_configs, topic_names
from drkit.kafka.transactions import transactional_ids

_KAFKAS_OWN: Final = "__"
"""Prefixes of Kafka's own topics: a cluster creates them when they are first used."""
_SET_ON_BROKERS: Final = frozenset({"DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG"})
_OWN: Final = ("drkit-", "mm2-drkit-")
"""Prefixes of drkit's own topics: drills create and delete some."""
_DIGITS: Final = 12
_SHOWN: Final = 3
Items = Mapping[str, Any]
"""Name of a topic, a group and so on → its facts, as plain data."""


class InventoryPart(StrEnum):
    """A part of an inventory, which is read on its own."""

    TOPIC = "topic"
    GROUP = "group"
    ACL = "ACL"
    TRANSACTIONAL_ID = "transactional id"
    BROKER = "broker"


class InventoryItem(NamedTuple):
    """An item of a cluster."""

    part: InventoryPart
    name: str

    def __str__(self) -> str:
        return f"{self.part} {self.name}"


@dataclass(frozen=True, kw_only=True)
class ClusterInventory:
    """The inventory of a cluster at one time."""

    items: Mapping[InventoryPart, Items]
    """The parts that were read."""
    unknown: Mapping[InventoryPart, str]
    """The parts that could not be read, with the reasons."""


@dataclass(frozen=True, kw_only=True)
class InventoryComparison:
    """The differences between two inventories of a cluster."""

    ours_left: tuple[str, ...] = ()
    """Items that the drill made and that are still there."""
    residue: tuple[str, ...] = ()
    """New items that a drill leaves by design."""
    changed_by_others: tuple[str, ...] = ()
    """Other items that are new, gone or changed."""
    unknown: tuple[str, ...] = ()
    """Parts that one of the inventories could not read."""

    @property
    def is_clean(self) -> bool:
        """True if it is known that nothing of the drill is left."""
        return not self.ours_left and not self.unknown


def read_inventory(settings: ClusterSettings) -> ClusterInventory:
    """Return the inventory of a cluster. Reads only; a part without an answer is unknown."""
    items: dict[InventoryPart, Items] = {}
    unknown: dict[InventoryPart, str] = {}
    for part, read in _READERS.items():
        try:
            items[part] = read(settings)
        except DrkitError as error:
            unknown[part] = error.in_short
    return ClusterInventory(items=items, unknown=unknown)


def compare_inventories(
    before: ClusterInventory,
    after: ClusterInventory,
    made: Collection[MadeItem],
    is_residue: Callable[[InventoryItem], bool],
    reserved: Collection[str] = (),
) -> InventoryComparison:
    """Return what differs between the inventories of a cluster. Pure.

    :param made: what the drill's record names on this cluster
    :param is_residue: for items that a drill leaves by design
    :param reserved: parts of names that only this drill uses; a new item with one is ours, recorded or not
    """
    differing: defaultdict[str, list[str]] = defaultdict(list)
    for part in (p for p in InventoryPart if p in before.items and p in after.items):
        old, new = before.items[part], after.items[part]
        for name in sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)):
            item, is_new, owner = InventoryItem(part, name), name not in old, "changed_by_others"
            if name in new and any(_is_of(item, new[name], each) for each in made):
                owner = "ours_left"
            elif is_new and is_residue(item):
                owner = "residue"
            elif is_new and any(own in name for own in reserved):
                owner = "ours_left"
            differing[owner].append(str(item))
    unknown = (f"{part}: {reason}" for part, reason in {**before.unknown, **after.unknown}.items())
    return InventoryComparison(**{k: tuple(v) for k, v in differing.items()}, unknown=tuple(unknown))


def _is_of(item: InventoryItem, facts: Any, made: MadeItem) -> bool:
    """Return whether a record names an item, or the topic of an ACL; an id that is known must match."""
    if item.part is InventoryPart.ACL:
        return bool(facts == made.name)
    if (made.kind, made.name) != (item.part, item.name):
        return False
    return not made.topic_id or made.topic_id == facts["id"]


def _read_topics(settings: ClusterSettings) -> Items:
    cluster = Cluster.connect(settings)
    names = [name for name in topic_names(cluster) if not name.startswith(_KAFKAS_OWN)]
    topics, configs = describe_topics(cluster, names), topic_configs(cluster, names)
    return {
        name: {
            "id": str(topic.topic_id),
            "partitions": len(topic.leaders),
            "configs": {k: c.value for k, c in configs.get(name, {}).items() if c.is_set_on_topic},
        }
        for name, topic in topics.items()
    }


def _read_groups(settings: ClusterSettings) -> Items:
    async def ask(raw: RawCluster) -> Items:
        groups = Groups(raw)
        listed = await groups.listed()
        return {
            group: {
                "state": listed[group].state,
                "offsets": {str(tp): list(c) for tp, c in sorted(committed.items())},
            }
            for group, committed in (await groups.offsets(listed)).items()
        }

    return ask_once(settings, "drill", ask, what="read the groups")


def _read_acls(settings: ClusterSettings) -> Items:
    try:
        listed = list_acls(settings)
    except NoAuthorizer:
        return {}
    return {str(acl): acl.name for acl in listed.acls} | dict.fromkeys(listed.unknown, "")


def _read_transactional_ids(settings: ClusterSettings) -> Items:
    return dict.fromkeys(ask_once(settings, "drill", transactional_ids, what="list transactional ids"), "")


def _read_brokers(settings: ClusterSettings) -> Items:
    cluster = Cluster.connect(settings)
    return {
        str(broker.id): {
            name: c.value
            for name, c in broker_config(cluster, broker.id).items()
            if c.source in _SET_ON_BROKERS
        }
        for broker in cluster.brokers
    }


_READERS: Final[Mapping[InventoryPart, Callable[[ClusterSettings], Items]]] = {
    InventoryPart.TOPIC: _read_topics,
    InventoryPart.GROUP: _read_groups,
    InventoryPart.ACL: _read_acls,
    InventoryPart.TRANSACTIONAL_ID: _read_transactional_ids,
    InventoryPart.BROKER: _read_brokers,
}


def scope_of(inventories: Mapping[str, ClusterInventory], settings: Settings) -> dict[str, str]:
    """Return the scope of a drill: topics, groups, ACLs, broker settings, configuration, drkit.

    :param inventories: by the side of the drill
    :returns: each item, such as ``source topic orders``, → a hash of its settings
    """
    configuration = settings.model_dump(mode="json", exclude={"drills"})
    scope = {"drkit version": _short(__version__), "drkit configuration": _short(configuration)}
    for side, inventory in inventories.items():
        for part, items in inventory.items.items():
            for name, facts in items.items():
                if part is not InventoryPart.TRANSACTIONAL_ID and not name.startswith(_OWN):
                    # The state and the offsets of a group change all the time.
                    scope[f"{side} {part} {name}"] = _short("" if part is InventoryPart.GROUP else facts)
    return scope


def drift(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Return what changed between two scopes, in words."""
    changes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            *where, name = key.split(" ", 2)  # names may have spaces
            part = f"{where[1]} on the {where[0]}" if where[1:] else where[0]
            how = "new" if key not in before else "gone" if key not in now else "changed"
            changes[part][how].append(name)
    for part, by_kind in changes.items():
        parts = (f"{len(n)} {how} ({first_of(n, _SHOWN)})" for how, n in by_kind.items())
        yield f"{part}: {', '.join(parts)}"


def _short(facts: Any) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:_DIGITS]
