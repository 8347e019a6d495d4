"""What a release consists of: a CycloneDX document of every locked package and every jar, with hashes.

``python -m tests.support.release.sbom FILE`` writes it; the same commit gives the same document.
"""

from __future__ import annotations

import json
from pathlib import Path
import sys
from typing import Any, Final
import uuid

from drkit import __version__
from drkit.local.jars import pinned
from tests.support.release.locks import RUNTIME, Locked, locked

_NAMESPACE: Final = uuid.UUID("8f3f1c0e-5c0f-5d5b-9f0e-1f6f9f1f2b7a")


def document() -> dict[str, Any]:
    """The document, version 1.5 of the format."""
    components = [_package(each) for each in locked(RUNTIME)]
    components += [_jar(name, digest) for name, digest in sorted(pinned().items())]
    seed = json.dumps([__version__, components])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, seed)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "drkit",
                "name": "drkit",
                "version": __version__,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": "drkit", "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _package(package: Locked) -> dict[str, Any]:
    """One hash for each file of the package: an installation takes the one that fits the machine."""
    purl = f"pkg:pypi/{package.name}@{package.version}"
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in package.hashes],
    }
    if package.marker:
        found["properties"] = [{"name": "drkit:marker", "value": package.marker}]
    return found


def _jar(name: str, digest: str) -> dict[str, Any]:
    artifact, _, version = name.removesuffix(".jar").rpartition("-")
    purl = f"pkg:generic/{name}?checksum=sha256:{digest}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": artifact,
        "version": version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "properties": [{"name": "drkit:file", "value": name}],
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")
