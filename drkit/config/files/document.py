"""A configuration file as read, before it is a :class:`Settings`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drkit.config.files.interpolate import Problem


@dataclass
class Document:
    """Tables as drkit.toml has them, whatever format they were written in.

    :param labels: place → how the user wrote it, for messages, as in ``line 7: A->B.topics``
    :param origins: place → where its value comes from, as in ``mm2.properties:7``
    :param notes: what is accepted but not, or not yet, acted on
    """

    tables: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def called(self, at: str) -> str:
        """The user's own words for a place; the place itself where none are known."""
        while at not in self.labels:
            if not at.endswith("]") or (at := at[: at.rfind("[")]) == "flows":
                return ""
        return self.labels[at]
