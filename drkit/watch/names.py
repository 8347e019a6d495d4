"""Names under which observers and fence agents publish their notes."""

from __future__ import annotations

from drkit.detect.shapes import label
from drkit.errors import ConfigError
from drkit.flow_state.fields import Malformed


def usable_name(name: str, option: str) -> str:
    """The name, if others take notes with it.

    :param option: by which it is set, for the error
    :raises ConfigError: others would drop every note
    """
    try:
        return label(name)
    except Malformed as error:
        raise ConfigError(
            "others would drop every note under this name",
            where=option,
            evidence=f"{name[:80]!r}: {error}",
            hint="choose a printable name of at most 256 characters",
        ) from None
