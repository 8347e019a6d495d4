"""Which settings nobody may read over a shoulder, and how they look instead."""

from __future__ import annotations

from collections.abc import Mapping
import re
from typing import Final

MASK: Final = "********"

# `sasl.oauthbearer.token.endpoint.url` is an address; `ssl.keystore.key` is a private key in PEM.
_SECRET: Final = re.compile(
    r"password|passphrase|secret|jaas|token(?![._]endpoint)|keystore[._]key|key[._]pem"
    r"|access[._-]?key|account[._]key"  # of object stores, in Spark's settings
    # Where a webhook is, and what it is shown, is all that one needs to call it.
    r"|repoint\[\d+\]\.(?:url|headers)|webhook$",
    re.IGNORECASE,
)
_ASSIGNED: Final = re.compile(
    r"((?:password|passphrase|secret)[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&)}]+)", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Whether the value of a setting with this name must not be shown."""
    return _SECRET.search(name) is not None


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with every secret value hidden."""
    return {name: MASK if is_secret(name) else value for name, value in properties.items()}


def scrubbed(text: str) -> str:
    """A text, such as somebody else's error message, without the values of ``password=…`` in it."""
    return _ASSIGNED.sub(rf"\g<1>{MASK}", text)
