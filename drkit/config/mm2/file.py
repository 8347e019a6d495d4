"""Translates the entries of MirrorMaker 2's settings file to the tables of drkit.toml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
import re
from typing import Any, Final, NamedTuple, cast

from pydantic_core import PydanticCustomError

from drkit.config.files.document import Document
from drkit.config.files.interpolate import Problem, interpolate, place
from drkit.config.mm2.keys import (
    FLOW_KEYS,
    NO_CLIENT,
    ROLE_NEEDED,
    KeySupport,
    Mm2Key,
    changes_copies,
    connect_reason,
)
from drkit.config.mm2.properties import PropertyEntry
from drkit.config.tables.client_properties import FLOW_FIELDS, ROLES, Role, acts, exists, idle, meant, nearest
from drkit.config.tables.fields import host_and_port, suggestion
from drkit.config.tables.naming_class import is_own_class
from drkit.config.tables.security_properties import PREFIXES, is_misspelt
from drkit.model import FlowAliases
from drkit.topology import split_list

_ROLE: Final = re.compile(r"(?:(?P<side>source|target)\.)?(?P<role>producer|consumer|admin)\.(?P<key>.+)")


class Override(NamedTuple):
    """A client property for one role, such as ``A.consumer.…`` or ``A->B.source.admin.…``.

    :param scope: a flow, a cluster's alias, or None for all
    :param side: ``source`` or ``target`` if the key names one
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


_KEYS: Final = {k.name: k for k in FLOW_KEYS}
_FLOW: Final = re.compile(r"(?P<source>[^.>]+)->(?P<target>[^.>]+)\.(?P<key>.+)")
_POLICIES: Final = {"DefaultReplicationPolicy": "prefix", "IdentityReplicationPolicy": "identity"}
_JAVA_POLICY: Final = (
    f"drkit runs no Java: use {' or '.join(_POLICIES)}, or write the same names as a Python class and give"
    " its path here: mypackage.module:ClassName (drkit explain topologies)"
)
_BOOLEANS: Final = ("true", "false")
_ABSENT: Final = "MirrorMaker 2's default"
_COMMENT: Final = re.compile(r"\s+#.*")
_NO_COMMENT: Final = "MirrorMaker 2 takes it for a part of the value: give the comment a line of its own"


def translate(entries: Sequence[PropertyEntry], file: Path, env: Mapping[str, str]) -> Document:
    """The tables, with notes on settings without effect and a problem for each error."""
    last = {e.key: e for e in entries}
    filled = interpolate({k: e.value for k, e in last.items()}, file.parent, env)
    reader = _Reader(file, last, filled.document, filled.origins)
    at = {place("", k): k for k in last}
    for problem in filled.problems:
        reader.problem(at[problem.at], problem.what, problem.hint)
    return reader.read()


@dataclass
class _Reader:
    file: Path
    entries: dict[str, PropertyEntry]
    values: dict[str, str]
    references: dict[str, str]

    def __post_init__(self) -> None:
        self.aliases = split_list(_COMMENT.sub("", self.values.get("clusters", "")))
        self.document = Document({"clusters": {}, "flows": []})
        self.flow_values: dict[FlowAliases | None, dict[str, str]] = {}
        self.overrides: dict[Override, str] = {}

    def read(self) -> Document:
        if "clusters" not in self.values:
            hint = "name the clusters' aliases, as in: clusters = primary, standby"
            self.document.problems.append(Problem("", "the setting 'clusters' is needed", hint))
        else:
            self.document.labels["clusters"] = self.label("clusters")
        for alias in self.aliases:
            self.document.tables["clusters"][alias] = {"client": {}}
            at = place("clusters", alias)
            self.document.labels[at] = self.label("clusters")
            self.document.labels[place(at, "bootstrap_servers")] = f"{alias}.bootstrap.servers"
        # Properties for all clusters come first: those of one cluster override them.
        for key in sorted(self.entries, key=lambda k: not k.startswith(PREFIXES)):
            self.without_comment(key)
            self.take(key)
        for flow in self.flow_values:
            if flow is not None and self.is_enabled(flow):
                self.build(flow)
        self.judge_overrides()
        return self.document

    def take(self, key: str) -> None:
        if key == "clusters":
            return
        if "->" in key or self.values[key].startswith(("->", ">")):
            self.take_flow(key)
        elif (alias := key.partition(".")[0]) in self.aliases:
            self.take_client(alias, key)
        elif key.startswith(PREFIXES):
            self.take_shared(key)
        elif key in _KEYS:  # before overrides: consumer.poll.timeout.ms is not a property of a consumer
            self.flow_values.setdefault(None, {})[key] = key
        elif not connect_reason(key) and (override := Override.parse(None, key)):
            self.overrides[override] = key
        else:
            self.connect_or_unknown(key, key)
        if key in _KEYS:
            self.judge(key, _KEYS[key])

    def take_shared(self, key: str) -> None:
        """Take a security property without an alias: it applies to all clusters."""
        if is_misspelt(key):
            self.problem(key, "no client of Kafka's has a property of this name", nearest(key))
        else:
            for each in self.aliases:
                self.put_client(each, key, key)

    def take_flow(self, key: str) -> None:
        match = _FLOW.fullmatch(key)
        if not match:
            hint = "write A->B.setting, without blanks: in this format a blank ends the key"
            self.problem(key, "not a setting of a flow", hint)
            return
        flow, name = FlowAliases(match["source"], match["target"]), match["key"]
        missing = [a for a in flow if a not in self.aliases]
        for alias in missing:
            self.problem(key, f"there is no cluster '{alias}'", suggestion(alias, self.aliases))
        if missing:
            return
        known = self.flow_values.setdefault(flow, {})
        if name == "enabled" or name in _KEYS:
            known[name] = key
            if name in _KEYS:
                self.judge(key, _KEYS[name])
            elif self.values[key].lower() not in _BOOLEANS:
                self.problem(key, "must be true or false")
        elif override := Override.parse(flow, name):
            self.overrides[override] = key
        else:
            self.connect_or_unknown(key, name)

    def take_client(self, alias: str, key: str) -> None:
        name = key.partition(".")[2]
        if name == "bootstrap.servers":
            self.put(place(place("clusters", alias), "bootstrap_servers"), key)
            self.document.tables["clusters"][alias]["bootstrap_servers"] = self.values[key]
        elif override := Override.parse(alias, name):
            self.overrides[override] = key
        elif (why := connect_reason(name)) or name in _KEYS:
            self.note(key, KeySupport.NOTHING, why or "a flow has this setting, not a cluster")
        elif _is_of_a_role(name):
            self.note(key, KeySupport.NOTHING, ROLE_NEEDED)
        elif not acts(name):
            self.problem(key, "neither a client property nor a setting of a cluster", nearest(name))
        else:
            self.put_client(alias, name, key)

    def put_client(self, alias: str, name: str, key: str) -> None:
        self.document.tables["clusters"][alias]["client"][name] = self.values[key]
        self.put(place(place(place("clusters", alias), "client"), name), key)

    def build(self, flow: FlowAliases) -> None:
        at = f"flows[{len(self.document.tables['flows'])}]"
        table: dict[str, Any] = {"source": flow.source, "target": flow.target, "naming": "prefix"}
        enabled = self.flow_values[flow]["enabled"]
        for name in ("", ".source", ".target"):
            self.put(at + name, enabled)
        self.document.origins[f"{at}.naming"] = _ABSENT
        for name, key in {**self.flow_values.get(None, {}), **self.flow_values[flow]}.items():
            if (found := _KEYS.get(name)) and found.field:
                table[found.field] = self.value(found, key)
                self.put(f"{at}.{found.field}", key)
        for absent in (k for k in FLOW_KEYS if k.kept and k.field not in table):
            table[absent.field] = absent.default
            self.document.origins[f"{at}.{absent.field}"] = _ABSENT
        for one in placed(self.overrides, flow):
            if one.name is None:
                table[one.setting] = self.values[one.key]
                self.put(f"{at}.{one.setting}", one.key)
            else:
                table.setdefault(one.setting, {})[one.name] = self.values[one.key]
                self.put(place(f"{at}.{one.setting}", one.name), one.key)
        self.document.tables["flows"].append(table)

    def value(self, known: Mm2Key, key: str) -> str:
        if known.field == "naming":
            return _POLICIES.get(self.values[key].rpartition(".")[2], self.values[key])
        return self.values[key]

    def is_enabled(self, flow: FlowAliases) -> bool:
        key = self.flow_values[flow].get("enabled")
        return key is not None and self.values[key].lower() == "true"

    def judge(self, key: str, known: Mm2Key) -> None:
        value = self.values[key].strip()
        if known.name.endswith(".enabled") and value.lower() not in _BOOLEANS:
            self.problem(key, "must be true or false")
        elif (
            known.field == "naming" and not is_own_class(value) and value.rpartition(".")[2] not in _POLICIES
        ):
            self.problem(key, f"the policy {value} cannot be used", _JAVA_POLICY)
        elif known.effect is not KeySupport.WORKS and value.lower() not in known.agreed:
            self.note(key, known.effect, known.why)

    def connect_or_unknown(self, key: str, name: str) -> None:
        if to_do := changes_copies(name, self.values[key]):
            self.problem(key, "it changes what is copied, and drkit cannot do it", to_do)
        elif why := connect_reason(name):
            self.note(key, KeySupport.NOTHING, why)
        elif acts(name) or _is_of_a_role(name):
            self.note(key, KeySupport.NOTHING, ROLE_NEEDED)
        else:
            names = [*_KEYS, "clusters", *(f"{a}.bootstrap.servers" for a in self.aliases)]
            self.problem(
                key, "unknown setting", suggestion(name, [*names, "enabled"] if key != name else names)
            )

    def judge_overrides(self) -> None:
        for override, key in self.overrides.items():
            if not exists(override.role, override.name):
                hint = meant(override.role, override.name)
                self.problem(key, f"there is no such property of Kafka's {override.role}", hint)
            elif override.name == "bootstrap.servers" and (wrong := _servers_wrong(self.values[key])):
                self.problem(key, wrong)
            elif not override.settings:
                self.note(key, KeySupport.NOTHING, NO_CLIENT[override.role])
            elif why := idle(override.role, override.name, self.values[key]):
                self.note(key, KeySupport.NOTHING, why)

    def without_comment(self, key: str) -> None:
        """Remove a comment after a value: Kafka's documentation has them, but the format does not."""
        is_setting = (
            key == "clusters"
            or key.partition("->")[2].partition(".")[2] in {*_KEYS, "enabled"}
            or key in _KEYS
        )
        if is_setting and (value := _COMMENT.sub("", self.values[key])) != self.values[key]:
            self.values[key] = value
            self.note(key, KeySupport.NOTHING, f"the text after #: {_NO_COMMENT}")

    def note(self, key: str, effect: KeySupport, why: str) -> None:
        self.document.notes.append(Problem(self.label(key), effect.value, why))

    def problem(self, key: str, what: str, hint: str = "") -> None:
        self.document.problems.append(Problem(self.label(key), what, hint))

    def put(self, at: str, key: str) -> None:
        self.document.labels[at] = self.label(key)
        reference = self.references.get(place("", key))
        if reference:
            self.document.references[at] = reference
        origin = f"{self.file.name}:{self.entries[key].line}"
        self.document.origins[at] = f"{origin} {reference}" if reference else origin

    def label(self, key: str) -> str:
        return f"line {self.entries[key].line}: {key}"


def _servers_wrong(value: str) -> str:
    try:
        host_and_port(value)
    except PydanticCustomError as error:
        return error.message()
    return ""


def _is_of_a_role(name: str) -> bool:
    return not acts(name) and any(exists(role, name) for role in ("consumer", "producer", "admin"))
