"""Requests about groups that the library does not have."""

from __future__ import annotations

from typing import Final

from kafka.protocol.api_message import ApiMessage

_PACKAGE: Final = "drkit.kafka.schemas"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Asks for groups of the consumer protocol (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Contains their members."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Asks for share groups (KIP-932)."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_PACKAGE):  # type: ignore[call-arg,misc]
    """Contains their members."""
