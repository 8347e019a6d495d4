"""What an endpoint file may tell a client: where the cluster is, and never to trust or to run anything else.

Whoever may write the file decides where an application sends its records and its credentials. The file is
believed only as far as that needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drkit.endpoint import CONNECTION, Endpoint

_PROTOCOL: Final = "security.protocol"
_ONLY: Final = {
    "ssl.endpoint.identification.algorithm": "https",
    "enable.ssl.certificate.verification": "true",
}
"""What checks the broker may be switched on, not off."""
_CIPHERED: Final = frozenset({"SSL", "SASL_SSL"})


def why_not(endpoint: Endpoint, own: Mapping[str, object], before: Endpoint | None = None) -> str:
    """Why a client does not follow an endpoint; empty when it does.

    :param own: the application's own properties for that cluster, which win over the file's
    :param before: the endpoint that it follows now
    """
    if not endpoint.cluster_id:
        return "it names no cluster_id: another cluster could not be told from the right one"
    said = endpoint.client
    foreign = sorted(said.keys() - CONNECTION)
    if foreign:
        return f"an endpoint may not set {', '.join(foreign)}: an application sets it by itself"
    for name, allowed in _ONLY.items():
        if said.get(name, allowed).lower() != allowed:
            return f"it sets {name} = {said[name]}: an endpoint may not switch that check off"
    if _PROTOCOL in own or before is None:
        return ""
    was, now = (e.client.get(_PROTOCOL, "PLAINTEXT").upper() for e in (before, endpoint))
    if was in _CIPHERED and now not in _CIPHERED:
        return f"it leads from {was} to {now}: records and passwords would travel in clear"
    return ""
