"""Single settings from the environment: ``DRKIT_<TABLE>__…__<SETTING>=value``, stronger than the file.

``DRKIT_CLUSTERS__PRIMARY__BOOTSTRAP_SERVERS``, ``DRKIT_CLUSTERS__PRIMARY__CLIENT__SASL_PASSWORD`` (the
property ``sasl.password``), ``DRKIT_FLOWS__PRIMARY__STANDBY__TASKS`` (the flow primary->standby),
``DRKIT_FAILOVER__MODE``. An alias is written in capitals, with ``_`` for ``-``. Clusters and flows must
stand in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from drkit.config.closest import suggestion
from drkit.config.document import Document
from drkit.config.interpolate import Problem, place

_PREFIX: Final = "DRKIT_"
_SCHEME: Final = {
    "clusters": "DRKIT_CLUSTERS__<ALIAS>__BOOTSTRAP_SERVERS or DRKIT_CLUSTERS__<ALIAS>__CLIENT__<PROPERTY>",
    "flows": "DRKIT_FLOWS__<SOURCE>__<TARGET>__<SETTING>",
    "failover": "DRKIT_FAILOVER__<SETTING>",
}
_FLOW_STEPS: Final = 3
_CLIENT_STEPS: Final = 3


def override(document: Document, env: Mapping[str, str]) -> dict[str, str]:
    """Put the environment's settings into the document; returns place → variable."""
    found: dict[str, str] = {}
    for variable, value in sorted(env.items()):
        if not variable.startswith(_PREFIX) or "__" not in variable:
            continue
        table, *steps = variable.removeprefix(_PREFIX).lower().split("__")
        if table not in _SCHEME:
            document.problems.append(Problem(variable, "unknown table", suggestion(table, _SCHEME)))
            continue
        try:
            parent, at, name = _target(document.tables, table, steps)
        except LookupError as error:
            document.problems.append(Problem(variable, str(error.args[0]), f"write {_SCHEME[table]}"))
            continue
        parent[name] = value
        spot = place(at, name)
        found[spot] = document.origins[spot] = document.labels[spot] = variable
    return found


def _target(tables: dict[str, Any], table: str, steps: list[str]) -> tuple[dict[str, Any], str, str]:
    """The table to write into, its place, and the setting's name. Raises LookupError."""
    if table == "failover" and len(steps) == 1:
        return tables.setdefault(table, {}), table, steps[0]
    found = tables.get(table)
    if table == "flows" and isinstance(found, list) and len(steps) == _FLOW_STEPS:
        for number, flow in enumerate(found):
            if (
                isinstance(flow, dict)
                and [_plain(flow.get(side)) for side in ("source", "target")] == steps[:2]
            ):
                return flow, place(table, number), steps[2]
        raise LookupError("the file has no such flow")
    if table == "clusters" and isinstance(found, dict) and len(steps) > 1:
        alias = _alias((k for k, v in found.items() if isinstance(v, dict)), steps[0])
        cluster, at = found[alias], place(table, alias)
        known = cluster.setdefault("client", {})
        if steps[1] == "client" and len(steps) == _CLIENT_STEPS and isinstance(known, dict):
            same = (k for k in known if k.replace(".", "_").lower() == steps[2])
            return known, place(at, "client"), next(same, steps[2].replace("_", "."))
        if len(steps) == _CLIENT_STEPS - 1:
            return cluster, at, steps[1]
    raise LookupError("not the name of a single setting")


def _alias(known: Iterable[str], wanted: str) -> str:
    for alias in known:
        if _plain(alias) == wanted:
            return alias
    raise LookupError("the file has no such cluster")


def _plain(alias: object) -> str:
    return str(alias).lower().replace("-", "_")
