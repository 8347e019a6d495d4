"""Check client properties without a broker: mechanism, credentials, files, numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from drkit.errors import ConfigError, error_text
from drkit.kafka.clients import NUMBERS, tls_context
from drkit.kafka.security.settings import UnusableProperty, mechanism_of, protocol_of, read_sasl, read_tls

_TLS_FILES: Final = (
    "ssl.truststore.location",
    "ssl.keystore.location",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.crl.location",
)
_TOKEN_FILES: Final = ("https.ca.location",)
_KERBEROS_FILES: Final = ("sasl.kerberos.keytab",)
_FILES_OF: Final = {"OAUTHBEARER": _TOKEN_FILES, "GSSAPI": _KERBEROS_FILES}
_READABLE: Final = "correct the path, or let the user of drkit read the file"
_NUMBER: Final = "set a number without unit, or leave it out"


def client_problems(
    client: Mapping[str, str], unknown: Collection[str] = ()
) -> Iterator[tuple[str, str, str]]:
    """Find what keeps a client with these properties from connecting: (property, what, hint).

    A wrong ``security.protocol`` is left to the check of single properties.

    :param unknown: properties whose values are not known yet: nothing is reported because of these
    """
    for name in NUMBERS:
        if name in client and name not in unknown and not _is_whole(client[name]):
            yield name, f"'{client[name]}' is not a whole number", _NUMBER
    try:
        protocol = protocol_of(client)
    except UnusableProperty:
        return
    if protocol.endswith("SSL"):
        yield from _tls(client, unknown)
    if protocol.startswith("SASL"):
        yield from _sasl(client, unknown)
    elif client.keys() & {"sasl.mechanism", "sasl.mechanisms"}:
        yield from _tried(mechanism_of, client)  # not used, and wrong all the same


def _tls(client: Mapping[str, str], unknown: Collection[str]) -> Iterator[tuple[str, str, str]]:
    missing = list(_unreadable(client, _TLS_FILES, unknown))
    yield from missing
    if missing or any(name.startswith("ssl.") for name in unknown):
        return
    found = list(_tried(read_tls, client))
    yield from found
    if not found:
        try:
            tls_context(read_tls(client), "")
        except ConfigError as error:
            name = next((name for name in _TLS_FILES if name in client), "security.protocol")
            yield name, error.in_short, error.hint


def _sasl(client: Mapping[str, str], unknown: Collection[str]) -> Iterator[tuple[str, str, str]]:
    found = list(_tried(read_sasl, client))
    yield from found
    if found:
        return
    mechanism = mechanism_of(client)
    yield from _unreadable(client, _FILES_OF.get(mechanism, ()), unknown)
    if mechanism == "GSSAPI" and find_spec("gssapi") is None:
        yield "sasl.mechanism", "Kerberos needs the package gssapi", "pip install 'gssapi>=1.8,<2'"


def _tried(
    read: Callable[[Mapping[str, str]], object], client: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    try:
        read(client)
    except UnusableProperty as error:
        yield error.name, error.what, error.hint


def _unreadable(
    client: Mapping[str, str], names: Collection[str], unknown: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    for name in names:
        if name not in client or name in unknown:
            continue
        try:
            with Path(client[name]).open("rb"):
                pass
        except OSError as error:
            yield name, f"{client[name]} cannot be read: {error_text(error)}", _READABLE


def _is_whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
