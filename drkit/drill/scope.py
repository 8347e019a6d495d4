"""The scope of a bubble in short, and what changed in it since the last drill that passed. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
import json
from typing import Any, Final

from drkit import __version__
from drkit.config import Settings
from drkit.counted import first_of
from drkit.drill.inventory import ClusterInventory, InventoryPart

_OWN: Final = "drkit-"
"""How drkit's own topics begin: drills create and delete some."""
_COMPARED: Final = (InventoryPart.TOPIC, InventoryPart.GROUP, InventoryPart.ACL, InventoryPart.BROKER)
_DIGITS: Final = 12
_SHOWN: Final = 3

Scope = Mapping[str, str]
"""What a drill covers, as ``source topic orders``, → a hash of its settings."""


def scope_of(inventories: Mapping[str, ClusterInventory], settings: Settings) -> Scope:
    """Return the scope of a drill: topics, groups, ACLs, broker settings, configuration, drkit.

    :param inventories: by the side of the drill
    """
    found = {"drkit version": _short(__version__)}
    found["drkit configuration"] = _short(settings.model_dump(mode="json", exclude={"drills"}))
    for side, inventory in inventories.items():
        for part in _COMPARED:
            for name, facts in inventory.items.get(part, {}).items():
                if not name.startswith(_OWN):
                    # The state and the offsets of a group change all the time.
                    found[f"{side} {part} {name}"] = _short("" if part is InventoryPart.GROUP else facts)
    return found


def drift(before: Scope, now: Scope) -> Iterator[str]:
    """Return what changed between two scopes, in words."""
    changes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            what, _, name = key.rpartition(" ") if key.startswith("drkit") else _split(key)
            how = "new" if key not in before else "gone" if key not in now else "changed"
            changes[what][how].append(name)
    for what, by_kind in changes.items():
        parts = (f"{len(n)} {how} ({first_of(n, _SHOWN)})" for how, n in by_kind.items())
        yield f"{what}: {', '.join(parts)}"


def _split(key: str) -> tuple[str, str, str]:
    """Return side and part, and the name, which may have spaces."""
    side, part, name = key.split(" ", 2)
    return f"{part} on the {side}", "", name


def _short(facts: Any) -> str:
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:_DIGITS]
