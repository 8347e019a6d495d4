"""How to reach a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from drkit.config.fields import Alias, Strict
from drkit.masking import masked
from drkit.topology import split_list


def _servers(value: object) -> object:
    return ",".join(str(v) for v in value) if isinstance(value, (list, tuple)) else value


class ClusterSettings(Strict):
    """How to reach one cluster; ``client`` holds Kafka's own property names."""

    alias: Alias
    """The name of the table."""
    bootstrap_servers: Annotated[str, BeforeValidator(_servers)]
    """host:port of some brokers: an array, or one string with commas."""
    client: dict[str, str] = Field(default_factory=dict)
    """Kafka's own client properties, as in ``"security.protocol" = "SASL_SSL"``."""
    own_principal: Annotated[str, Field(pattern=r"^[^:*]+:[^*]+$")] | None = None
    """As whom the brokers know drkit, as in ``"User:drkit"``. Absent: the name of SASL's PLAIN or SCRAM, or
    ``User:ANONYMOUS`` without any authentication; unknown for certificates, tokens and tickets."""
    allow_everyone_if_no_acl_found: bool | None = None
    """The brokers' setting of that name, which they show nobody. Absent: false where it is not set at all, else
    not known."""

    @field_validator("bootstrap_servers")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        servers = split_list(value)
        for server in servers:
            host, _, port = server.rpartition(":")
            if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                raise PydanticCustomError("server", "'{server}' is not host:port", {"server": server})
        if not servers:
            raise PydanticCustomError("server", "no server is named", {})
        return ",".join(servers)

    @field_validator("client", mode="before")
    @classmethod
    def _as_kafka_writes_it(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {k: str(v).lower() if isinstance(v, bool) else _number(v) for k, v in value.items()}

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [
            ("alias", self.alias),
            ("bootstrap_servers", self.bootstrap_servers),
            ("client", masked(self.client)),
        ]


def _number(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) else value
