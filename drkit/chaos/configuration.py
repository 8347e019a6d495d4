"""The configuration file of a scenario's pair: two flows, one in each direction, and short times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_TEXT: Final = """\
[clusters.primary]
bootstrap_servers = "{primary}"
client = {client}

[clusters.standby]
bootstrap_servers = "{standby}"
client = {client}

[[flows]]
source = "primary"
target = "standby"
topics = ["orders", "payments", "fresh.*"]
buckets = 2
heartbeats_interval_seconds = 0.5

[[flows]]
source = "standby"
target = "primary"
topics = ["orders", "payments", "fresh.*"]
buckets = 2
heartbeats_interval_seconds = 0.5

[failover]
journal_folder = "{journal}"
rpo_seconds = {rpo_seconds:g}
repoint = [{{ kind = "file", path = "{endpoint}" }}]
drain_seconds = 20.0
verify_seconds = 0.5

[failover.fence]
canary = {canary}
freeze_seconds = 5.0
transaction_wait_seconds = 2.0

[detection]
probe_interval_seconds = 0.4
probe_timeout_seconds = 1.0
confirm_seconds = 2.0
phi_pause_seconds = 1.0
phi_min_deviation_seconds = 0.3
"""


def configuration(
    *,
    primary: str,
    standby: str,
    journal: Path,
    endpoint: Path,
    rpo_seconds: float,
    client: Mapping[str, str],
    canary: Mapping[str, str],
) -> str:
    """Return the text of the file.

    :param primary: its ``bootstrap.servers``, as `standby` those of the standby
    :param client: the properties with which drkit authenticates, as `canary` those of an application
    """
    return _TEXT.format(
        primary=primary,
        standby=standby,
        journal=journal,
        endpoint=endpoint,
        rpo_seconds=rpo_seconds,
        client=_inline_table(client),
        canary=_inline_table(canary),
    )


def _inline_table(table: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{key}" = "{value}"' for key, value in table.items()) + "}"
