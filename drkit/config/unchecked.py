"""Problems in tables that are not settings yet, because they have other errors, too. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drkit.config.files.interpolate import Problem, place
from drkit.config.tables.closest import suggestion


def unknown_aliases(tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of flows between clusters that the file does not define.

    :param tables: as in the file; values of a wrong type are skipped, as other checks report them
    """
    clusters, flows = tables.get("clusters"), tables.get("flows")
    if not isinstance(clusters, Mapping) or not isinstance(flows, list):
        return
    for number, flow in enumerate(flows):
        for side in ("source", "target"):
            alias = flow.get(side) if isinstance(flow, Mapping) else None
            if isinstance(alias, str) and alias not in clusters:
                at = place(place("flows", number), side)
                yield Problem(at, f"there is no cluster '{alias}'", suggestion(alias, clusters))
