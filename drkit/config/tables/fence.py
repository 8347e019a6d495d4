"""How writes to the old primary are stopped."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PositiveFloat

from drkit.config.tables.client_properties import masked
from drkit.config.tables.cluster import ClientText
from drkit.config.tables.fields import Strict, http_address, no_nul
from drkit.masking import MASK

_HIDDEN: Final = frozenset({"stop_webhook", "stop_secret"})


class FenceSettings(Strict):
    """How the old primary is kept from taking writes, and drkit's own writers from the new one."""

    means: Literal["auto", "acl", "max.message.bytes", "none"] = "auto"
    """acl: the cluster's authorizer refuses producers. max.message.bytes: the topics take no record; the only
    way without an authorizer. auto: acl where there is an authorizer, it is known who may use a topic without
    ACLs (``allow_everyone_if_no_acl_found`` of the cluster), and ACLs hold for the canary: it is no super
    user. none: drkit does not fence."""
    canary: ClientText = Field(default_factory=dict)
    """Kafka's client properties of an ordinary producer of the source, as in ``"sasl.username" = "shop"``:
    with these a canary proves that producers are refused. Absent: drkit's own, and drkit is fenced too. It
    must be allowed to write, else its refusal proves nothing."""
    seconds: PositiveFloat = 15.0
    """How long it may take until every partition of the source refuses the canary."""
    open_transactions: Literal["abort", "hold"] = "abort"
    """What happens to transactions that are open when the fence is up and do not end by themselves: abort
    them, or hold the failover."""
    transaction_wait_seconds: float = Field(5.0, ge=0)
    """How long they may end by themselves."""
    stop_command: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """A program that stops the old primary's processes or closes its listeners, for one that does not answer:
    frozen, it would take what is queued at it as soon as it wakes. It gets what is to be stopped as JSON on
    its input and ends with 0 when that is done."""
    stop_webhook: Annotated[str, AfterValidator(http_address)] | None = None
    """The same as an address to post to; answers with 2xx when it is done."""
    stop_secret: str | None = None
    """Signs what is posted, with HMAC-SHA256."""
    stop_ca_file: Annotated[str, AfterValidator(no_nul)] | None = None
    """The authorities that the certificate of ``stop_webhook`` may have, in PEM; absent: the system's."""
    stop_seconds: PositiveFloat = 30.0
    """How long the stop may take."""
    freeze_seconds: PositiveFloat = 30.0
    """How long it may take until every partition of the target refuses drkit's older writers; a partition
    whose leader is down is waited for."""

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        found: list[tuple[str | None, Any]] = []
        for name, value in super().__repr_args__():
            hidden = MASK if name in _HIDDEN and value else value
            found.append((name, masked(self.canary) if name == "canary" else hidden))
        return found
