"""How to reach a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PrivateAttr
from pydantic_core import PydanticCustomError

from drkit.config.tables.client_properties import acts, masked
from drkit.config.tables.fields import Alias, KafkaText, Servers, Strict, host_and_port
from drkit.control_key import ControlKeys
from drkit.endpoint import CONNECTION
from drkit.masking import is_secret, scrubbed

_SERVERS: Final = "bootstrap.servers"
_JAAS: Final = "sasl.jaas.config"
_USER: Final = ("sasl.username", "sasl.password")


def _no_secrets(properties: dict[str, str]) -> dict[str, str]:
    for name, value in properties.items():
        if is_secret(name):
            text = "'{name}' is a secret: applications have their own, the endpoint carries none"
            raise PydanticCustomError("secret", text, {"name": name})
        if name == _SERVERS:
            host_and_port(value)
        elif name not in CONNECTION:
            text = "'{name}' does not say how brokers are reached: clients follow no endpoint that sets it"
            raise PydanticCustomError("connection", text, {"name": name})
    return properties


def merged_client(client: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a cluster with those of one role over them.

    Credentials of the role replace the cluster's also where they are spelled otherwise.
    """
    replaced = _USER if _JAAS in overrides else (_JAAS,) if overrides.keys() & set(_USER) else ()
    return {k: v for k, v in client.items() if k not in replaced} | dict(overrides)


ClientText = Annotated[dict[str, str], KafkaText]
"""Kafka's own client properties as texts, also for TOML's ``true`` and ``5000``."""
CLIENT_TABLES: Final = ("client", "canary")
"""Settings of this type."""


class ClusterSettings(Strict):
    """How to reach one cluster; ``client`` holds Kafka's own property names."""

    alias: Alias
    """The name of the table."""
    bootstrap_servers: Servers
    """host:port of some brokers: an array, or one string with commas."""
    client: ClientText = Field(default_factory=dict)
    """Kafka's own client properties, as in ``"security.protocol" = "SASL_SSL"``."""
    applications: Annotated[dict[str, str], KafkaText, AfterValidator(_no_secrets)] = Field(
        default_factory=dict
    )
    """Client properties that the endpoint gives applications besides the servers, as in
    ``"security.protocol" = "SASL_SSL"``, and ``bootstrap.servers`` where applications use others than drkit.
    No secrets: applications have their own."""
    own_principal: Annotated[str, Field(pattern=r"^[^:*]+:[^*]+$")] | None = None
    """As whom the brokers know drkit, as in ``"User:drkit"``. Absent: the name of SASL's PLAIN or SCRAM, or
    ``User:ANONYMOUS`` without any authentication; unknown for certificates, tokens and tickets."""
    allow_everyone_if_no_acl_found: bool | None = None
    """The brokers' setting of that name, whose value brokers hide. Absent: false where it is not set at all,
    else unknown."""

    _control: ControlKeys | None = PrivateAttr(None)

    @property
    def servers(self) -> list[str]:
        """The bootstrap servers, each as host:port."""
        return self.bootstrap_servers.split(",")

    @property
    def control(self) -> ControlKeys | None:
        """The control keys of drkit's own topics there; None without a configured key."""
        return self._control

    def with_control(self, keys: ControlKeys | None) -> ClusterSettings:
        """The same cluster, with the keys of drkit's own topics."""
        found = self.model_copy()
        found._control = keys  # noqa: SLF001  a copy of our own
        return found

    def with_client(self, overrides: Mapping[str, str]) -> ClusterSettings:
        """The same cluster for one role: with other properties, or other servers.

        Properties that are not about the connection are left out: they have no effect here.
        """
        properties = {k: v for k, v in overrides.items() if acts(k)}
        if not properties:
            return self
        servers = host_and_port(properties.pop(_SERVERS, self.bootstrap_servers))
        client = merged_client(self.client, properties)
        # A role with other credentials is another principal than the table's.
        principal = None if properties.keys() & {_JAAS, *_USER} else self.own_principal
        changed = {"bootstrap_servers": servers, "client": client, "own_principal": principal}
        return ClusterSettings(**dict(self) | changed).with_control(self._control)

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [
            ("alias", self.alias),
            ("bootstrap_servers", scrubbed(self.bootstrap_servers)),
            ("client", masked(self.client)),
            ("applications", self.applications),
        ]
