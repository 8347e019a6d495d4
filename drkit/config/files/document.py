"""A configuration file as read, before it is a :class:`Settings`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drkit.config.files.interpolate import Problem


@dataclass
class Document:
    """Tables in the form of drkit.toml, whatever the format of the file.

    :param labels: path → how the user wrote it, for messages, as in ``line 7: A->B.topics``
    :param origins: path → origin of its value, as in ``mm2.properties:7``
    :param notes: settings that are accepted and have no effect, or none yet
    """

    tables: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def called(self, at: str) -> str:
        """The user's own words for a path; the path itself if they are unknown."""
        while at not in self.labels:
            if not at.endswith("]") or (at := at[: at.rfind("[")]) == "flows":
                return ""
        return self.labels[at]
