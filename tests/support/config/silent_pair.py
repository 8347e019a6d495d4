"""The configuration of a pair whose clusters do not answer."""

from __future__ import annotations

from tests.support.kafka.ports import closed


def silent_pair(tables: str = "") -> str:
    """Return the text of a configuration with one flow, and with more tables."""
    return f"""
[clusters.primary]
bootstrap_servers = "{closed()}"
[clusters.standby]
bootstrap_servers = "{closed()}"
[[flows]]
source = "primary"
target = "standby"
{tables}"""
