"""Names under which observers and fence agents publish their notes."""

from __future__ import annotations

from collections.abc import Collection

from drkit.detect.note_kinds import label
from drkit.errors import ConfigError
from drkit.flow_state.codec.fields import Malformed


def usable_name(name: str, option: str) -> str:
    """The name, if others accept notes with it.

    :param option: by which it is set, for the error
    :raises ConfigError: others would drop every note
    """
    try:
        return label(name)
    except Malformed as error:
        raise ConfigError("name_unprintable", where=option, evidence=f"{name[:80]!r}: {error}") from None


def configured_name(name: str, names: Collection[str], setting: str, option: str) -> str:
    """The name, if the configuration lists it, or lists no names.

    :param setting: which lists the names
    :param option: by which the name is set, for the error
    :raises ConfigError: others would not count it
    """
    if names and name not in names:
        raise ConfigError(
            "name_not_listed",
            where=option,
            evidence=f"{setting} = {', '.join(sorted(names))}",
            name=name,
            setting=setting,
        )
    return usable_name(name, option)
