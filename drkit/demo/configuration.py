"""The configuration of the demo: two clusters, a flow there, and later the flow back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

EPOCH_SECONDS = 4
_FLOW = """\
[[flows]]
source = "{source}"
target = "{target}"
topics = ["orders", "payments"]
# Short ones, so that the story sees several.
epoch_seconds = {epoch_seconds}
refresh_topics_interval_seconds = 2
checkpoint_interval_seconds = 1
sync_group_offsets_interval_seconds = 1
"""
_THERE = """\
[clusters.primary]
bootstrap_servers = "{primary}"

[clusters.standby]
bootstrap_servers = "{standby}"

{flow}
[failover]
rpo_seconds = 60
# The group starts afterwards.
verify_seconds = 0.5
journal_folder = "{journal}"
repoint = [{{ kind = "file", path = "{endpoint}" }}]
"""


def there(addresses: Mapping[str, str], *, journal: Path, endpoint: Path) -> str:
    """The configuration that the demo begins with.

    :param addresses: where clients find `primary` and `standby`
    """
    return _THERE.format(**addresses, flow=_flow("primary", "standby"), journal=journal, endpoint=endpoint)


def back() -> str:
    """What is added for the way back, which begins by itself after a planned switchover."""
    return "\n" + _flow("standby", "primary")


def _flow(source: str, target: str) -> str:
    return _FLOW.format(source=source, target=target, epoch_seconds=EPOCH_SECONDS)
