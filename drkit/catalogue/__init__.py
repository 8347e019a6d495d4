"""Every error of drkit by its code: the one place of its sentence, hint, exit code and page.

``drkit explain CODE`` prints an entry; ``--json`` shows the code of an error. Pure: no class of errors is
known here, and no module of drkit is imported.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from drkit.catalogue import (
    command_line,
    config,
    export,
    failback,
    failover,
    fence,
    flow,
    journal,
    kafka,
    local,
    old_primary,
    rehearsal,
    replay,
    repoint,
    spark,
    topics,
    translate,
    watch,
)
from drkit.catalogue.entry import Entry, Program

AREAS: Final[tuple[ModuleType, ...]] = (
    command_line, config, local, topics, flow, kafka, spark, watch, failover, fence, journal, repoint,
    old_primary, failback, export, replay, translate, rehearsal,
)  # fmt: skip
"""Modules of this package, each with its ``ERRORS``, as the page of errors has them."""
ERRORS: Final[dict[str, Entry]] = {code: entry for area in AREAS for code, entry in area.ERRORS.items()}
"""Code → entry."""


def filled(template: str, values: dict[str, object]) -> str:
    """Return a sentence or a hint with its values.

    :raises KeyError: a value is missing
    """
    return template.format_map({**values, "drkit": Program()})
