"""The SHA-256 of every jar that drkit fetches: part of the repository, so that no first use is trusted.

``make lock`` writes the list, for another version of Kafka. Compare what changes with what Maven Central
publishes beside the jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from drkit.errors import Failed

NAME: Final = "jars.sha256"


def pinned() -> dict[str, str]:
    """Name of a jar, as it is stored → its SHA-256 in hexadecimal digits."""
    text = files("drkit.local").joinpath(NAME).read_text(encoding="ascii")
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def written(digests: Mapping[str, str]) -> str:
    """The content of the list, in the form of ``sha256sum``."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def refuse_unpinned(found: Mapping[str, str], pins: Mapping[str, str], *, all_of_them: bool) -> None:
    """Check what was fetched.

    :param found: name → SHA-256
    :param all_of_them: whether every jar has to be on the list
    :raises Failed: one is another than the list says, or is not on it
    """
    other = sorted(n for n, digest in found.items() if pins.get(n, digest) != digest)
    unknown = sorted(n for n in found if n not in pins) if all_of_them else []
    if other or unknown:
        evidence = "its SHA-256 is another than in" if other else "it is not in"
        raise Failed(
            "jar_not_pinned", where=", ".join(other or unknown), evidence=f"{evidence} drkit/local/{NAME}"
        )


def expected(known: Mapping[str, str], pins: Mapping[str, str]) -> dict[str, str]:
    """What jars must be: by the list, and where it has none, as they were at their first use."""
    return {name: pins.get(name, digest) for name, digest in known.items()}
