"""Which settings are secret, and how they are shown instead."""

from __future__ import annotations

from collections.abc import Mapping
import re
from typing import Any, Final

MASK: Final = "********"

# `sasl.oauthbearer.token.endpoint.url` is an address; `ssl.keystore.key` is a private key in PEM.
_SECRET: Final = re.compile(
    r"password|passphrase|passwd|pwd|secret|jaas|token(?![._]endpoint)"
    r"|keystore[._]key|key[._]pem|private[._-]key$"
    r"|access[._-]?key|account[._]key"  # of object stores, in Spark's settings
    r"|api[._-]?key|authorization|credentials?$"
    r"|basic\.auth\.user\.info|oauthbearer\.(?:config|extensions)$"  # of Confluent's clients
    # The URL of a webhook and its headers are enough to call it.
    r"|repoint\[\d+\]\.(?:url|headers)|webhook$",
    re.IGNORECASE,
)
_COMMAND: Final = re.compile(r"(?:^|[._])command$")

_NAME: Final = (
    r"(?:password|passphrase|passwd|pwd|secret|api[._-]?key|access[._-]?key|account[._-]?key"
    r"|keystore[._]key|key[._]pem|credentials?|signature|basic\.auth\.user\.info|oauthbearer\.(?:config|extensions))"
)
_VALUE: Final = (
    r"\\+\"(?:(?!\\+\").)*\\+\""  # quoted, within a text that is quoted itself
    r"|\"(?:\\.|[^\"\\])*\"?|'(?:''|\\.|[^'\\])*'?"
    r"|[^\s&\"'\\]*[^\s&\"'\\,;)}\]]"
)
_REPLACED: Final = (
    (
        re.compile(
            r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        r"\1 ",
    ),
    (
        re.compile(
            r"((?:\bauthorization|oauthbearer\.config)\\*[\"']?\s*[:=]\s*\\*[\"']?)[^\"'\\\r\n,}]+",
            re.IGNORECASE,
        ),
        r"\1",
    ),
    (re.compile(r"(\b(?i:bearer)\s+)(?=\S*[0-9._=/+-])[\w.~+/=-]{4,}"), r"\1"),
    (re.compile(r"(\b(?i:basic)\s+)(?=\S*[0-9=+/]|\S+[A-Z])[A-Za-z0-9+/]{4,}={0,2}"), r"\1"),
    (re.compile(rf"({_NAME}\\*[\"']?\s*[=:]\s*)(?:{_VALUE})", re.IGNORECASE), r"\1"),
    # "gave no token: HTTP 401" is a sentence.
    (re.compile(rf"(token(?:\s*=|\\*[\"']\s*[=:])\s*)(?:{_VALUE})", re.IGNORECASE), r"\1"),
    # user:password@host, in an address or in a list of servers; a user alone is no secret.
    (re.compile(r"((?:^|(?<=[\s/,;=\"'(\[<]))[^\s/:@,;=\"'()\[\]<>]*:)[^\s/@,;\"'<>]+(?=@[\w.\[-])"), r"\1"),
)
"""A secret with the text before it: only the secret is replaced."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting with this name must not be shown."""
    return _SECRET.search(name) is not None


def is_secret_argument(name: str) -> bool:
    """Return whether no argument of a process may give this setting a value: every user can read it.

    The name of a file with a secret is no secret.
    """
    return is_secret(name) and not name.lower().endswith("file")


def shown(name: str, value: Any) -> Any:
    """The value of a setting for display: of a command only the program, as its arguments may be secrets.

    :param name: the full path, as in ``failover.repoint[0].command``, or the last part of it
    """
    if value is None:
        return None
    if is_secret(name):
        return MASK
    if _COMMAND.search(name) and isinstance(value, (list, tuple)):
        return [*value[:1], *[MASK] * (len(value) > 1)]
    return without_secrets(value)


def without_secrets(value: object) -> object:
    """A nested value without the secrets that its names and texts show."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {k: MASK if is_secret(str(k)) else without_secrets(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [without_secrets(each) for each in value]
    return value


def scrubbed(text: str) -> str:
    """A text, such as a library's error message, without passwords, tokens and private keys."""
    for pattern, before in _REPLACED:
        text = pattern.sub(rf"{before}{MASK}", text)
    return text
