"""Types of fields that several tables of drkit.toml use, and the nearest name for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from drkit.masking import scrubbed, shown
from drkit.topology import split_list

TO_DO: Final = "to_do"
"""In the context of an error: what the user is to do about it."""

_SERVER: Final = re.compile(r"(?:[\w.%-]*://)?(?P<host>\[[\w.%:-]+\]|[\w.%:-]+):(?P<port>[0-9]+)")
"""The pattern of Kafka's own ``Utils.HOST_PORT_PATTERN``."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, 5.6.2."""
_HEADER: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def listed(value: object) -> object:
    """A list, or one string with commas."""
    return split_list(value) if isinstance(value, str) else value


def _expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise PydanticCustomError("regex", "not a regular expression: {why}", {"why": str(error)}) from error
    return pattern


def host_and_port(value: str) -> str:
    """Check a list of servers; return it without the protocol that Kafka's clients allow before each.

    Raises PydanticCustomError if a server is not host:port.
    """
    servers = []
    for server in split_list(value):
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            context = {"server": scrubbed(server), TO_DO: "write host:port, and commas between several"}
            raise PydanticCustomError("server", "'{server}' is not host:port", context)
        servers.append(f"{match['host']}:{match['port']}")
    if not servers:
        raise PydanticCustomError("server", "no server is named", {})
    return ",".join(servers)


def http_address(url: str) -> str:
    """An address of HTTP. Raises PydanticCustomError that does not repeat it: it may be a secret."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port above 65535, a bracket that does not close
        fits = False
    if not fits or not url.isprintable() or " " in url:
        raise PydanticCustomError("url", "not an address like https://host/path", {})
    return url


def full_path(value: str) -> str:
    """A path that does not depend on the working directory. Raises PydanticCustomError."""
    if "\0" in value or not value.startswith(("/", "~")):
        raise PydanticCustomError("path", "'{path}' is not a full path", {"path": value})
    return value


def no_nul(value: str) -> str:
    """A text for the operating system. Raises PydanticCustomError that does not repeat it."""
    if "\0" in value:
        raise PydanticCustomError("nul", "it holds a NUL character", {})
    return value


def http_headers(headers: dict[str, str]) -> dict[str, str]:
    """Headers that HTTP allows. Raises PydanticCustomError that repeats no value: it may be a secret."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise PydanticCustomError("header", "not the name of a header: {name}", {"name": repr(name)})
        if not _HEADER.fullmatch(value):
            text = "the value of header '{name}' is more than one line of ISO 8859-1"
            raise PydanticCustomError("header", text, {"name": name})
    return headers


def as_kafka_writes_it(value: object) -> object:
    """Client properties are texts, whatever TOML makes of ``true`` and ``5000``."""
    if not isinstance(value, Mapping):
        return value
    return {
        k: str(v).lower() if isinstance(v, bool) else str(v) if isinstance(v, (int, float)) else v
        for k, v in value.items()
    }


def _joined(value: object) -> object:
    return ",".join(str(v) for v in value) if isinstance(value, (list, tuple)) else value


Servers = Annotated[
    str, BeforeValidator(_joined, json_schema_input_type=str | tuple[str, ...]), AfterValidator(host_and_port)
]
"""host:port of some brokers: an array, or one string with commas."""
KafkaText = BeforeValidator(as_kafka_writes_it, json_schema_input_type=dict[str, str | float | bool])
"""Client properties by Kafka's names: texts, numbers or truth values."""


Listed = BeforeValidator(listed, json_schema_input_type=tuple[str, ...] | str)
"""A list of texts: an array, or one string with commas."""
Patterns = Annotated[tuple[Annotated[str, AfterValidator(_expression)], ...], Listed]
"""Whole-name regular expressions: an array, or one string with commas as MM2 writes it."""

Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
"""A cluster's name in this file. It becomes part of topic names, so no separator may occur in it."""


class Strict(BaseModel):
    """A table in which every key is known."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True, allow_inf_nan=False
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Without secrets: errors and logs may show it."""
        for name, value in super().__repr_args__():
            yield name, shown(name or "", value) if isinstance(value, (str, tuple)) else value


_MANY: Final = 12
"""Maximum number of names in a message."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, None if nothing is near.

    Kafka writes ``topics.exclude``, TOML keys here ``topics_exclude``: that difference does not count.
    """
    plain = {_plain(k): k for k in known}
    near = get_close_matches(_plain(word), plain, n=1)
    return plain[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question with the word that was probably meant, to begin a hint with; or an empty text."""
    near = closest(word, known)
    return f"did you mean '{near}'? " if near else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint for a user who wrote ``word``."""
    names = sorted(known)
    if question := did_you_mean(word, names):
        return question.rstrip()
    if len(names) > _MANY:
        return "all settings: drkit explain configuration"
    return f"known: {', '.join(names)}" if names else "none is configured"


def _plain(word: str) -> str:
    return word.lower().replace(".", "_").replace("-", "_")
