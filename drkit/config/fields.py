"""What the tables of drkit.toml have in common."""

from __future__ import annotations

from collections.abc import Mapping
import re
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from drkit.topology import split_list

TO_DO: Final = "to_do"
"""In the context of an error: what the user is to do about it."""


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
    """Servers with commas between them. Raises PydanticCustomError for one that is not host:port."""
    servers = split_list(value)
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            what = {"server": server, TO_DO: "write host:port, and commas between several"}
            raise PydanticCustomError("server", "'{server}' is not host:port", what)
    if not servers:
        raise PydanticCustomError("server", "no server is named", {})
    return ",".join(servers)


def http_address(url: str) -> str:
    """An address of HTTP. Raises PydanticCustomError that does not repeat it: it may be a secret."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise PydanticCustomError("url", "not an address like https://host/path", {})
    return url


def as_kafka_writes_it(value: object) -> object:
    """Client properties are texts, whatever TOML makes of ``true`` and ``5000``."""
    if not isinstance(value, Mapping):
        return value
    return {k: str(v).lower() if isinstance(v, bool) else _number(v) for k, v in value.items()}


def _number(value: object) -> object:
    return str(value) if isinstance(value, (int, float)) else value


Patterns = Annotated[tuple[Annotated[str, AfterValidator(_expression)], ...], BeforeValidator(listed)]
"""Whole-name regular expressions: an array, or one string with commas as MM2 writes it."""

Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
"""A cluster's name in this file. It becomes part of topic names, so no separator may occur in it."""


class Strict(BaseModel):
    """A table in which every key is known."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, use_attribute_docstrings=True
    )
