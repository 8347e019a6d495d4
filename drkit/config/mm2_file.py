"""From the entries of MirrorMaker 2's settings file to the tables of drkit.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
import re
from typing import Any, Final, NamedTuple

from drkit.config.closest import suggestion
from drkit.config.document import Document
from drkit.config.interpolate import Problem, interpolate, place
from drkit.config.mm2_keys import CLIENT_FIELDS, FLOW_KEYS, ONE_CONNECTION, Effect, Mm2Key, connect_reason
from drkit.config.mm2_properties import Entry
from drkit.topology import split_list

_KEYS: Final = {k.name: k for k in FLOW_KEYS}
_FLOW: Final = re.compile(r"(?P<source>[^.>]+)->(?P<target>[^.>]+)\.(?P<key>.+)")
_ROLE: Final = re.compile(r"(?:(?P<side>source|target)\.)?(?P<role>producer|consumer|admin)\.(?P<key>.+)")
_SHARED: Final = ("security.", "ssl.", "sasl.")
_POLICIES: Final = {"DefaultReplicationPolicy": "prefix", "IdentityReplicationPolicy": "identity"}
_SIDE_OF: Final = {"consumer": "source", "producer": "target"}
_BOOLEANS: Final = ("true", "false")


class _Flow(NamedTuple):
    source: str
    target: str


class _Override(NamedTuple):
    """A client property for one role; ``scope``: a flow, a cluster's alias, or None for all."""

    scope: _Flow | str | None
    side: str | None
    role: str
    key: str


def translate(entries: Sequence[Entry], file: Path, env: Mapping[str, str]) -> Document:
    """The tables, with notes on what is not acted on and a problem for whatever is wrong."""
    last = {e.key: e for e in entries}
    filled = interpolate({k: e.value for k, e in last.items()}, file.parent, env)
    reader = _Reader(file, last, filled.document, filled.origins)
    at = {place("", k): k for k in last}
    for problem in filled.problems:
        reader.problem(at[problem.at], problem.what, problem.hint)
    return reader.read()


class _Reader:
    def __init__(
        self, file: Path, entries: dict[str, Entry], values: dict[str, str], references: dict[str, str]
    ) -> None:
        self.file = file
        self.entries = entries
        self.values = values
        self.references = references
        self.aliases = split_list(values.get("clusters", ""))
        self.document = Document({"clusters": {}, "flows": []})
        self.flow_values: dict[_Flow | None, dict[str, str]] = {}
        self.overrides: dict[_Override, str] = {}

    def read(self) -> Document:
        if "clusters" not in self.values:
            hint = "name the clusters' aliases, as in: clusters = primary, standby"
            self.document.problems.append(Problem("", "the setting 'clusters' is needed", hint))
        else:
            self.document.labels["clusters"] = self.label("clusters")
        for alias in self.aliases:
            self.document.tables["clusters"][alias] = {"client": {}}
            self.document.labels[place("clusters", alias)] = self.label("clusters")
        # Properties for all clusters first: those of one cluster win.
        for key in sorted(self.entries, key=lambda k: not k.startswith(_SHARED)):
            self.take(key)
        for flow in self.flow_values:
            if flow is not None and self.is_enabled(flow):
                self.build(flow)
        self.note_overrides()
        return self.document

    def take(self, key: str) -> None:
        if key == "clusters":
            return
        if "->" in key or self.values[key].startswith(("->", ">")):
            self.take_flow(key)
        elif (alias := key.partition(".")[0]) in self.aliases:
            self.take_client(alias, key)
        elif key.startswith(_SHARED):
            for each in self.aliases:
                self.put_client(each, key, key)
        elif not connect_reason(key) and (role := _ROLE.fullmatch(key)):
            if key in _KEYS:  # consumer.poll.timeout.ms is no property of a consumer
                self.flow_values.setdefault(None, {})[key] = key
            else:
                self.overrides[_Override(None, role["side"], role["role"], role["key"])] = key
        elif key in _KEYS:
            self.flow_values.setdefault(None, {})[key] = key
        else:
            self.connect_or_unknown(key, key)
        if key in _KEYS:
            self.judge(key, _KEYS[key])

    def take_flow(self, key: str) -> None:
        match = _FLOW.fullmatch(key)
        if not match:
            hint = "write A->B.setting, without blanks: in this format a blank ends the key"
            self.problem(key, "not a setting of a flow", hint)
            return
        flow, name = _Flow(match["source"], match["target"]), match["key"]
        missing = [a for a in flow if a not in self.aliases]
        for alias in missing:
            self.problem(key, f"there is no cluster '{alias}'", suggestion(alias, self.aliases))
        known = self.flow_values.setdefault(flow, {})
        role = _ROLE.fullmatch(name)
        if name == "enabled" or name in _KEYS:
            known[name] = key
            if name in _KEYS:
                self.judge(key, _KEYS[name])
            elif self.values[key].lower() not in _BOOLEANS:
                self.problem(key, "must be true or false")
        elif role:
            self.overrides[_Override(flow, role["side"], role["role"], role["key"])] = key
        else:
            self.connect_or_unknown(key, name)

    def take_client(self, alias: str, key: str) -> None:
        name = key.partition(".")[2]
        if name == "bootstrap.servers":
            self.put(place(place("clusters", alias), "bootstrap_servers"), key)
            self.document.tables["clusters"][alias]["bootstrap_servers"] = self.values[key]
        elif role := _ROLE.fullmatch(name):
            self.overrides[_Override(alias, role["side"], role["role"], role["key"])] = key
        elif (why := connect_reason(name)) or name in _KEYS:
            self.note(key, Effect.NOTHING, why or "a flow has this setting, not a cluster")
        else:
            self.put_client(alias, name, key)

    def put_client(self, alias: str, name: str, key: str) -> None:
        self.document.tables["clusters"][alias]["client"][name] = self.values[key]
        self.put(place(place(place("clusters", alias), "client"), name), key)

    def build(self, flow: _Flow) -> None:
        at = f"flows[{len(self.document.tables['flows'])}]"
        table: dict[str, Any] = {"source": flow.source, "target": flow.target, "naming": "prefix"}
        enabled = self.flow_values[flow]["enabled"]
        for name in ("", ".source", ".target"):
            self.put(at + name, enabled)
        self.document.origins[f"{at}.naming"] = "MirrorMaker 2's default"
        for name, key in {**self.flow_values.get(None, {}), **self.flow_values[flow]}.items():
            if (known := _KEYS.get(name)) and known.field:
                table[known.field] = self.value(known, key)
                self.put(f"{at}.{known.field}", key)
        # From the general to the special, so that the special one stands in the end.
        for override, key in sorted(self.overrides.items(), key=lambda o: _weight(o[0])):
            field = CLIENT_FIELDS.get((override.role, override.key))
            side = override.side or _SIDE_OF.get(override.role)
            ours = side == _SIDE_OF.get(override.role) and override.scope in {
                None, flow, getattr(flow, side or "", None),
            }  # fmt: skip
            if field and ours:
                table[field] = self.values[key]
                self.put(f"{at}.{field}", key)
        self.document.tables["flows"].append(table)

    def value(self, known: Mm2Key, key: str) -> str:
        if known.field == "naming":
            return _POLICIES.get(self.values[key].rpartition(".")[2], self.values[key])
        return self.values[key]

    def is_enabled(self, flow: _Flow) -> bool:
        key = self.flow_values[flow].get("enabled")
        return key is not None and self.values[key].lower() == "true"

    def judge(self, key: str, known: Mm2Key) -> None:
        value = self.values[key].strip()
        if known.name.endswith(".enabled") and value.lower() not in _BOOLEANS:
            self.problem(key, "must be true or false")
        elif known.field == "naming" and value.rpartition(".")[2] not in _POLICIES:
            self.problem(key, f"the policy {value} cannot be used", f"use one of {', '.join(_POLICIES)}")
        elif known.effect is not Effect.WORKS and value.lower() not in known.agreed:
            self.note(key, known.effect, known.why)

    def connect_or_unknown(self, key: str, name: str) -> None:
        if why := connect_reason(name):
            self.note(key, Effect.NOTHING, why)
        else:
            known = [*_KEYS, "clusters", *(f"{a}.bootstrap.servers" for a in self.aliases)]
            self.problem(
                key, "unknown setting", suggestion(name, [*known, "enabled"] if key != name else known)
            )

    def note_overrides(self) -> None:
        for override, key in self.overrides.items():
            side = override.side or _SIDE_OF.get(override.role)
            acts = (override.role, override.key) in CLIENT_FIELDS and side == _SIDE_OF[override.role]
            if not acts:
                self.note(key, Effect.LATER, ONE_CONNECTION)

    def note(self, key: str, effect: Effect, why: str) -> None:
        self.document.notes.append(Problem(self.label(key), effect.value, why))

    def problem(self, key: str, what: str, hint: str = "") -> None:
        self.document.problems.append(Problem(self.label(key), what, hint))

    def put(self, at: str, key: str) -> None:
        self.document.labels[at] = self.label(key)
        reference = self.references.get(place("", key))
        origin = f"{self.file.name}:{self.entries[key].line}"
        self.document.origins[at] = f"{origin} {reference}" if reference else origin

    def label(self, key: str) -> str:
        return f"line {self.entries[key].line}: {key}"


def _weight(override: _Override) -> tuple[int, bool]:
    """MM2's order: for all, for a cluster, for a flow; with ``source.``/``target.`` before it wins."""
    rank = 2 if isinstance(override.scope, _Flow) else int(override.scope is not None)
    return rank, override.side is not None
