"""Java's key stores as PEM, which is what Python and librdkafka read: JKS here, PKCS #12 by `cryptography`.

JKS is undocumented but stable since Java 1.2; its layout is that of ``sun.security.provider.JavaKeyStore``,
and its keys are hidden by XOR with a chain of SHA-1 sums (``sun.security.provider.KeyProtector``).
Java reads the file to distinguish the two, whatever ``ssl.keystore.type`` says, and so does this module.
"""

from __future__ import annotations

import base64
from hashlib import sha1
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
import struct
import textwrap
from typing import Final, NamedTuple

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE: Final = b"\x30"
_PEM_MARK: Final = b"-----BEGIN"
_PEM_END: Final = "-----END CERTIFICATE-----\n"
_PRIVATE_KEY: Final = 1
_CERTIFICATE: Final = 2
_SALT = 20
_DER_LONG: Final = 0x80
_SIGNATURE: Final = b"Mighty Aphrodite"


class StoreError(ValueError):
    """The file is no key store, or the password is another one. Never holds a part of a secret."""


class Store(NamedTuple):
    """The content of a key store as PEM texts; empty where it has none."""

    key: str
    chain: str
    """The certificate of the key, then its issuers."""
    trusted: str
    """Trusted certificates, which belong to no key."""

    @property
    def authorities(self) -> str:
        """Certificates that Java trusts in a store: also a key's own certificate, but not its issuers."""
        own, mark, _ = self.chain.partition(_PEM_END)
        return self.trusted + own + mark


def is_pem(path: str) -> bool:
    """Return whether a file holds PEM text."""
    try:
        return _PEM_MARK in Path(path).read_bytes()
    except OSError:
        return False


def read_store(path: str, password: str | None, key_password: str | None = None) -> Store:
    """Read a key store.

    :param password: of the store; JKS certificates are readable without
    :param key_password: of the key in it, if it has its own
    :raises StoreError: another format, another password, or `cryptography` is needed and missing
    :raises OSError: the file cannot be read
    """
    data = Path(path).read_bytes()
    if data[:4] == _JKS_MAGIC:
        return _read_jks(data, password, key_password or password)
    return _read_pkcs12(data, password)


def _read_jks(data: bytes, password: str | None, key_password: str | None) -> Store:
    body, seal = data[:-_SALT], data[-_SALT:]
    if password is not None and sha1(_wide(password) + _SIGNATURE + body).digest() != seal:  # noqa: S324  the format's
        raise StoreError("the store's password is wrong, or the file is damaged")
    reader = _Reader(body)
    _magic, version, count = reader.take(">III")
    key, certificates, trusted = "", "", ""
    for _ in range(count):
        (kind,) = reader.take(">I")
        reader.text()
        reader.take(">Q")
        if kind == _PRIVATE_KEY:
            hidden = reader.block()
            (length,) = reader.take(">I")
            found = "".join(reader.certificate(version) for _ in range(length))
            if not key:
                key, certificates = _pem("PRIVATE KEY", _reveal(hidden, key_password)), found
        elif kind == _CERTIFICATE:
            trusted += reader.certificate(version)
        else:
            raise StoreError(f"it holds an entry of the unknown kind {kind}")
    return Store(key, certificates, trusted)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> tuple[int, ...]:
        try:
            found = struct.unpack_from(form, self._data, self._at)
        except struct.error:
            raise StoreError("it ends too early") from None
        self._at += struct.calcsize(form)
        return found

    def text(self) -> bytes:
        return self._bytes(*self.take(">H"))

    def block(self) -> bytes:
        return self._bytes(*self.take(">I"))

    def certificate(self, version: int) -> str:
        if version > 1:
            self.text()  # "X.509"; version 1 knew no other kind
        return _pem("CERTIFICATE", self.block())

    def _bytes(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) != length:
            raise StoreError("it ends too early")
        self._at += length
        return found


def _reveal(wrapped: bytes, password: str | None) -> bytes:
    """The PKCS #8 key inside an EncryptedPrivateKeyInfo of Sun's own algorithm."""
    if password is None:
        raise StoreError("its key needs ssl.keystore.password or ssl.key.password")
    inner = _der_parts(_der_parts(wrapped)[0])
    if len(inner) != 2:  # noqa: PLR2004  algorithm and data
        raise StoreError("its key has an unknown form")
    hidden, secret = inner[1], _wide(password)
    salt, masked, seal = hidden[:_SALT], hidden[_SALT:-_SALT], hidden[-_SALT:]
    stream, block = b"", salt
    while len(stream) < len(masked):
        block = sha1(secret + block).digest()  # noqa: S324  the format's
        stream += block
    key = bytes(a ^ b for a, b in zip(masked, stream, strict=False))
    if sha1(secret + key).digest() != seal:  # noqa: S324  the format's
        raise StoreError("the key's password is wrong")
    return key


def _der_parts(data: bytes) -> list[bytes]:
    """The contents of the elements, which follow one another."""
    found, at = [], 0
    while at + 2 <= len(data):
        length, at = data[at + 1], at + 2
        if length & _DER_LONG:
            size = length - _DER_LONG
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        found.append(data[at : at + length])
        at += length
    return found


def _read_pkcs12(data: bytes, password: str | None) -> Store:
    if data[:1] != _DER_SEQUENCE:
        raise StoreError("it is neither JKS, PKCS #12 nor PEM")
    if find_spec("cryptography") is None:
        raise StoreError("PKCS #12 stores need the package cryptography: pip install 'cryptography>=42'")
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  an optional package
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415  likewise

    try:
        found = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise StoreError("the store's password is wrong, or the file is damaged") from error
    plain = serialization.Encoding.PEM
    key = ""
    if found.key is not None:
        form = serialization.PrivateFormat.PKCS8
        key = found.key.private_bytes(plain, form, serialization.NoEncryption()).decode()
    others = "".join(c.certificate.public_bytes(plain).decode() for c in found.additional_certs)
    own = found.cert.certificate.public_bytes(plain).decode() if found.cert is not None else ""
    return Store(key, own + others, "") if key else Store("", "", own + others)


def _wide(password: str) -> bytes:
    return password.encode("utf-16-be")


def _pem(kind: str, der: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(der).decode(), 64)
    return "\n".join(chain([f"-----BEGIN {kind}-----"], lines, [f"-----END {kind}-----", ""]))
