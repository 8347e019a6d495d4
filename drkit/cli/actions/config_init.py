"""``drkit config init``: a configuration to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drkit.cli.render import emit
from drkit.errors import ConfigError
from drkit.next_command import typed

_HEAD: Final = """\
# drkit's configuration. Every setting, its default and its meaning: drkit explain drkit.reference.toml.
# A value may come from the environment or from a file: "${env:PASSWORD}", "${file:/run/secrets/password}".

[clusters.primary]
bootstrap_servers = "primary-1:9092, primary-2:9092"
# Kafka's own client properties, for a cluster with TLS and SASL:
#[clusters.primary.client]
#"security.protocol" = "SASL_SSL"
#"sasl.mechanism" = "SCRAM-SHA-512"
#"sasl.username" = "drkit"
#"sasl.password" = "${env:PRIMARY_PASSWORD}"

[clusters.standby]
bootstrap_servers = "standby-1:9092, standby-2:9092"

# What is copied, and in which direction. Regular expressions match the whole name.
[[flows]]
source = "primary"
target = "standby"
topics = [".*"]
groups = [".*"]

"""
_ABOUT_BACK: Final = """\
# The flow back: after a failover it protects the new primary (drkit explain failback).
# Both flows keep topic names (naming = "identity", the default). Neither copies what the other wrote.
"""
_BACK: Final = """\
[[flows]]
source = "standby"
target = "primary"
topics = [".*"]
groups = [".*"]
"""
_REST: Final = """
# Where clients read which cluster they use; a failover changes it (drkit explain repointing).
#[[failover.repoint]]
#kind = "file"
#path = "/etc/app/kafka-endpoint.json"

# Observer names allowed to vote, as --observer of drkit watch gives them (drkit explain detection).
#[watch]
#observers = ["obs-a", "obs-b", "obs-c"]

# With a key, drkit's processes believe only each other: drkit control create FILE
# (drkit explain control-key).
#[control]
#key_file = "/etc/drkit/control.key"

# Metrics and a live page of `drkit replicate` (drkit explain metrics).
#[metrics]
#port = 9404
"""


def starter(*, both_ways: bool) -> str:
    """Return a configuration to begin with; the flow back is a comment unless it is wanted."""
    back = _BACK if both_ways else "".join(f"#{line}\n" for line in _BACK.splitlines())
    return _HEAD + _ABOUT_BACK + back + _REST


def init(path: Path, *, both_ways: bool) -> None:
    """Run ``drkit config init``."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(starter(both_ways=both_ways))
    except OSError as error:
        exists = isinstance(error, FileExistsError)
        raise ConfigError(
            "config_file_exists" if exists else "config_file_unwritable",
            where=str(path),
            evidence=error.strerror or "",
        ) from error
    given = [] if path == Path("drkit.toml") else ["--config", str(path)]
    check = typed("drkit", "config", "check", "--connect", *given)
    emit({"written": str(path), "next": f"put your brokers' addresses into it, then: {check}"})
