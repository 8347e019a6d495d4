"""Paths and URLs of the folders with exports."""

from __future__ import annotations

from pathlib import Path
import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from drkit.errors import ConfigError
from drkit.export.storage import LocalFolder, Storage
from drkit.masking import is_secret

_URL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_FILE: Final = "file"


def storage_at(place: str) -> Storage:
    """Return the folder at a path or URL. Raises ConfigError if its kind is unknown, or it has a password."""
    path = local_path(place)
    if path is not None:
        return LocalFolder(path)
    refuse_secrets(place)
    from drkit.export.remote import remote_folder  # noqa: PLC0415  loads pyarrow

    return remote_folder(place)


def local_path(place: str) -> Path | None:
    """Return the path of a folder of this machine, from a path or ``file:``, or None if it is elsewhere.

    :raises ConfigError: the text is empty, or a ``file:`` of another machine
    """
    if not place:
        raise ConfigError("export_folder_missing", where="--to")
    if not _URL.match(place):
        return Path(place).absolute()
    url = urlsplit(place)
    if url.scheme.lower() != _FILE:
        return None
    if url.netloc not in {"", "localhost"} or not url.path.startswith("/"):
        raise ConfigError("export_url_not_absolute", where=place)
    return Path(unquote(url.path))


def joined(place: str, name: str) -> str:
    """Return the path or URL of a name in a folder; the query of a URL, as of an object store, stays last."""
    head, mark, query = place.partition("?") if _URL.match(place) else (place, "", "")
    return f"{head.rstrip('/')}/{name}{mark}{query}"


def parent(place: str) -> tuple[str, str]:
    """Return the folder of a file, and the file's name."""
    head, mark, query = place.partition("?") if _URL.match(place) else (place, "", "")
    folder, slash, name = head.rpartition("/")
    if not slash:
        return "." + mark + query, name
    return (folder or "/") + mark + query, name


def refuse_secrets(place: str) -> None:
    """Raise ConfigError if a URL has a password, or its query a secret: process lists and logs show it."""
    url = urlsplit(place)
    has_password = ":" in url.netloc.rpartition("@")[0]
    if has_password or any(is_secret(key) for key, _ in parse_qsl(url.query, keep_blank_values=True)):
        raise ConfigError("export_url_has_secret", where=f"{url.scheme}://…")
