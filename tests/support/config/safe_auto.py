"""Settings of an automatic failover whose times are safe."""

from __future__ import annotations

CONFIG = """
[clusters.primary]
bootstrap_servers = "p:1"
[clusters.standby]
bootstrap_servers = "s:1"
[clusters.witness]
bootstrap_servers = "w:1"
[[flows]]
source = "primary"
target = "standby"
[failover]
mode = "auto"
"""


SAFE = """
[watch]
observers = ["a", "b", "c"]
third = "witness"
[fence_agent]
agents = ["dc1"]
command = ["systemctl", "kill", "kafka"]
"""
