"""MirrorMaker 2's client overrides: ``producer.…``, ``A.consumer.…``, ``A->B.source.admin.…`` and so on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import re
from typing import Final, NamedTuple, cast

from drkit.config.tables.client_properties import FLOW_FIELDS, ROLES, Role
from drkit.model import FlowAliases

_ROLE: Final = re.compile(r"(?:(?P<side>source|target)\.)?(?P<role>producer|consumer|admin)\.(?P<key>.+)")


class Override(NamedTuple):
    """A client property for one role.

    :param scope: a flow, a cluster's alias, or None for all
    :param side: ``source`` or ``target`` when the key says so
    """

    scope: FlowAliases | str | None
    side: str | None
    role: Role
    name: str

    @classmethod
    def parse(cls, scope: FlowAliases | str | None, key: str) -> Override | None:
        """The override in a key without its scope; None when the key is no override."""
        match = _ROLE.fullmatch(key)
        return cls(scope, match["side"], cast("Role", match["role"]), match["key"]) if match else None

    @property
    def settings(self) -> tuple[str, ...]:
        """Settings of a flow that hold it; empty if drkit has no such client: a producer on the source."""
        return tuple(s for s, r in ROLES.items() if r == self.role and s.startswith(self.side or ""))

    def in_flow(self, flow: FlowAliases) -> tuple[str, ...]:
        """The settings of this flow that hold it."""
        if isinstance(self.scope, str):
            return tuple(s for s in self.settings if getattr(flow, s.partition("_")[0]) == self.scope)
        return self.settings if self.scope in {None, flow} else ()

    @property
    def field(self) -> str | None:
        """The flow's own setting for this property; None without one."""
        return FLOW_FIELDS.get((self.role, self.name))

    @property
    def weight(self) -> tuple[int, bool]:
        """MM2's order: for all, for a cluster, for a flow; with ``source.``/``target.`` before it wins."""
        rank = 2 if isinstance(self.scope, FlowAliases) else int(self.scope is not None)
        return rank, self.side is not None


class PlacedOverride(NamedTuple):
    """The target of an override in one flow: a setting, or a property inside one."""

    setting: str
    name: str | None
    key: str


def placed(overrides: Mapping[Override, str], flow: FlowAliases) -> Iterable[PlacedOverride]:
    """The overrides of a flow, from general to specific: the last one counts.

    :param overrides: each with its key in the file
    """
    for override, key in sorted(overrides.items(), key=lambda o: o[0].weight):
        for setting in override.in_flow(flow):
            if override.field:
                yield PlacedOverride(override.field, None, key)
            else:
                yield PlacedOverride(setting, override.name, key)
