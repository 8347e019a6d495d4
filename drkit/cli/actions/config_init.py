"""``drkit config init``: a configuration to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drkit.cli.render import emit
from drkit.errors import ConfigError
from drkit.next_command import typed

STARTER: Final = """\
# drkit's configuration. Every setting, its default and its meaning: docs/reference/drkit.reference.toml.
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

# What is copied, and which way. Regular expressions are for the whole name.
[[flows]]
source = "primary"
target = "standby"
topics = [".*"]
groups = [".*"]

# Where clients read which cluster they use; a failover changes it (docs/how-to/repointing.md).
#[[failover.repoint]]
#kind = "file"
#path = "/etc/app/kafka-endpoint.json"

# Who watches the primary: the names that --observer of `drkit watch` gives (docs/explanation/detection.md).
#[watch]
#observers = ["obs-a", "obs-b", "obs-c"]

# With a key, drkit's processes believe only each other: drkit control create FILE
# (docs/how-to/control-key.md).
#[control]
#key_file = "/etc/drkit/control.key"

# Figures and a live page of `drkit replicate` (docs/reference/metrics.md).
#[metrics]
#port = 9464
"""


def init(path: Path) -> None:
    """Run ``drkit config init``."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(STARTER)
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
