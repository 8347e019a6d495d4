"""Files of a Structured Streaming checkpoint that hold its own path, which must lead into the copy. Pure.

Stateful operators of the newer kind, such as ``transformWithState``, note the whole paths of their state's
schemas (Spark 4.0 to 4.3, ``OperatorStateMetadataV2``): ``state/O/_metadata/v2/N`` is a line ``v2`` and JSON
with ``"stateStoreInfo":[{"stateSchemaFilePaths":["file:/checkpoint/state/O/_stateSchema/…"]}]``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_FILE: Final = re.compile(r"state/\d+/_metadata/v2/\d+")
_SCHEMA: Final = re.compile(r"(?P<place>.*)/(?P<rest>state/\d+/_stateSchema/.*)")
_STORES: Final = "stateStoreInfo"
_PATHS: Final = "stateSchemaFilePaths"


def names_its_place(name: str) -> bool:
    """Whether a file of a checkpoint may hold such paths, by its name within the checkpoint."""
    return _FILE.fullmatch(name) is not None


def places(data: bytes) -> set[str]:
    """The checkpoint folders, as paths or URLs, that a file names."""
    found = (_SCHEMA.fullmatch(path) for path in _paths(_parsed(data)[1]))
    return {match["place"] for match in found if match is not None}


def moved(data: bytes, place: str) -> bytes:
    """The file with its paths within another checkpoint folder.

    :param place: that folder as path or URL
    """
    version, body = _parsed(data)
    for store in body.get(_STORES, ()):
        if _PATHS in store:
            store[_PATHS] = [_SCHEMA.sub(lambda m: f"{place}/{m['rest']}", path) for path in store[_PATHS]]
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    return version + b"\n" + text.encode()


def _parsed(data: bytes) -> tuple[bytes, dict[str, Any]]:
    version, _, text = data.partition(b"\n")
    try:
        body = json.loads(text)
    except ValueError:
        return version, {}
    return version, body if isinstance(body, dict) else {}


def _paths(body: dict[str, Any]) -> list[str]:
    return [path for store in body.get(_STORES, ()) for path in store.get(_PATHS, ())]
