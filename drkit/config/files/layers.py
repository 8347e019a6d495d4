"""Single settings that override the file: flags (``--set``) and the environment (``DRKIT_…``).

Both change the tables as read, so their values are checked like the rest of the file. The file must define
the clusters and flows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
import re
import tomllib
from typing import Any, Final, NamedTuple

from drkit.config.files.document import Document
from drkit.config.files.interpolate import Problem, place
from drkit.config.tables.client_properties import ROLES
from drkit.config.tables.fields import suggestion
from drkit.errors import ConfigError
from drkit.masking import is_secret_argument

_PREFIX: Final = "DRKIT_"
_ONCE: Final = ("failover", "metrics", "detection", "watch", "fence_agent", "control")
"""Tables that exist once, and hold no properties."""
_SCHEME: Final = {
    "clusters": "DRKIT_CLUSTERS__<ALIAS>__BOOTSTRAP_SERVERS or DRKIT_CLUSTERS__<ALIAS>__CLIENT__<PROPERTY>",
    "flows": "DRKIT_FLOWS__<SOURCE>__<TARGET>__<SETTING>",
    **{table: f"DRKIT_{table.upper()}__<SETTING>" for table in _ONCE},
}
_ENDS: Final = {"source", "target"}
_FLAGS: Final = {
    "clusters": "clusters.ALIAS.bootstrap_servers=… or clusters.ALIAS.client.PROPERTY=…",
    "flows": "flows.SOURCE->TARGET.SETTING=… or flows.NUMBER.SETTING=…",
    **{table: f"{table}.SETTING=…" for table in _ONCE},
}
_FLAG: Final = re.compile(
    r"(?:(?P<flows>flows)(?:\.(?P<flow>[\w-]+\s*->\s*[\w-]+)|[.\[](?P<number>\d+)\]?)"
    r"|(?P<clusters>clusters)\.(?P<alias>[\w-]+)|(?P<once>" + "|".join(_ONCE) + "))"
    r"\.(?P<setting>\w+)(?:\.(?P<property>.+))?"
)
_FLOW_ALIASES: Final = 2


class _Said(NamedTuple):
    """One setting as given by the user."""

    told_as: str
    table: str
    key: tuple[str, ...]
    """Alias, source and target, or number; empty for a table that exists once."""
    setting: str
    property: str
    value: object


def override(document: Document, env: Mapping[str, str], flags: Iterable[str] = ()) -> None:
    """Put the environment's settings into the document, then those of the flags, with their origins.

    :raises ConfigError: a flag has a secret
    """
    for said in (*_of_environment(document, env), *_of_flags(document, flags)):
        document.beside.add(said.told_as)
        scheme = (_SCHEME if said.told_as.startswith(_PREFIX) else _FLAGS)[said.table]
        try:
            parent, at, name = _target(document.tables, said)
        except LookupError as error:
            what, *known = map(str, error.args)
            document.problems.append(Problem(said.told_as, what, "; ".join((*known, f"write {scheme}"))))
            continue
        parent[name] = said.value
        spot = place(at, name)
        document.origins[spot] = document.labels[spot] = said.told_as
        document.references.pop(spot, None)


def _of_environment(document: Document, env: Mapping[str, str]) -> Iterator[_Said]:
    for variable, value in sorted(env.items()):
        if not variable.startswith(_PREFIX) or "__" not in variable:
            continue
        table, *steps = variable.removeprefix(_PREFIX).lower().split("__")
        if table not in _SCHEME:
            document.beside.add(variable)
            document.problems.append(Problem(variable, "unknown table", suggestion(table, _SCHEME)))
            continue
        keys = {"clusters": 1, "flows": _FLOW_ALIASES}.get(table, 0)
        setting, *rest = steps[keys:] or [""]
        yield _Said(variable, table, tuple(steps[:keys]), setting, "__".join(rest), value)


def _of_flags(document: Document, flags: Iterable[str]) -> Iterator[_Said]:
    for flag in flags:
        key, equals, value = flag.partition("=")
        match = _FLAG.fullmatch(key.strip())
        if not equals or not match:
            table = re.split(r"[.\[]", key.strip())[0]
            hint = f"write {_FLAGS[table]}" if table in _FLAGS else suggestion(table, _FLAGS)
            document.beside.add(f"--set {key}")
            document.problems.append(Problem(f"--set {key}", "not the name of a single setting", hint))
            continue
        if is_secret_argument(key.strip(' "')):
            raise ConfigError("secret_argument", where="--set", key=key.strip())
        table = match["flows"] or match["clusters"] or match["once"]
        aliases = [a.strip() for a in (match["flow"] or "").split("->") if a]
        found = tuple(aliases) or tuple(k for k in (match["number"], match["alias"]) if k)
        # A property may be in quotation marks, as `drkit config show` prints it.
        name = (match["property"] or "").strip('"')
        yield _Said(f"--set {key.strip()}", table, found, match["setting"], name, _value(value.strip()))


def _value(text: str) -> object:
    """The text, or the strings of a TOML array; [a-z]+ stays a regular expression."""
    try:
        found = tomllib.loads(f"value = {text}")["value"] if text.startswith("[") else text
    except tomllib.TOMLDecodeError:
        return text
    is_array = isinstance(found, list) and all(isinstance(each, str) for each in found)
    return found if is_array else text


def _target(tables: dict[str, Any], said: _Said) -> tuple[dict[str, Any], str, str]:
    """The table to write into, its path, and the setting's name. Raises LookupError."""
    found = tables.get(said.table)
    if said.table in _ONCE:
        parent, at = tables.setdefault(said.table, {}), said.table
    elif said.table == "flows" and isinstance(found, list):
        parent, at = _flow(found, said.key)
    elif said.table == "clusters" and isinstance(found, dict):
        parent, at = _cluster(found, said.key)
    else:
        raise LookupError(f"the file has no {said.table}")
    holds_properties = said.setting in {"client", *ROLES} and said.table not in _ONCE
    if not said.setting or holds_properties != bool(said.property):
        raise LookupError("not the name of a single setting")
    if not said.property:
        return parent, at, said.setting
    known = parent.setdefault(said.setting, {})
    same = (k for k in known if _property(k) == _property(said.property))
    name = said.property if "." in said.property else said.property.replace("_", ".")
    return known, place(at, said.setting), next(same, name)


def _flow(flows: list[Any], key: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    wanted = [_plain(k) for k in key]
    for number, flow in enumerate(flows):
        if isinstance(flow, dict):
            aliases = [_plain(flow.get(side)) for side in ("source", "target")]
            if wanted in (aliases, [str(number)]):
                return flow, place("flows", number)
    names = [f"{f['source']}->{f['target']}" for f in flows if isinstance(f, dict) and {*f} >= _ENDS]
    raise LookupError("the file has no such flow", suggestion("->".join(key), names))


def _cluster(clusters: dict[str, Any], key: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    for alias, cluster in clusters.items():
        if isinstance(cluster, dict) and [_plain(alias)] == [_plain(k) for k in key]:
            return cluster, place("clusters", alias)
    raise LookupError("the file has no such cluster", suggestion(".".join(key), clusters))


def _plain(alias: object) -> str:
    return str(alias).lower().replace("-", "_")


def _property(name: str) -> str:
    return name.replace(".", "_").lower()
