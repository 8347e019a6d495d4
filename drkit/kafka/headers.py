"""Headers of a record as a consumer has them, whatever bytes their names are made of."""

from __future__ import annotations

from typing import cast

from confluent_kafka import Message

from drkit.control_key import Headers


def headers_of(message: Message) -> Headers:
    """The headers of a record; none where a name is not UTF-8.

    Brokers take any bytes for a name, and the client library raises SystemError when it is asked for them.
    drkit writes no such names: a record that has one is somebody else's, and must not end who reads it.
    """
    try:
        return cast("Headers", message.headers() or ())
    except SystemError:
        return ()
