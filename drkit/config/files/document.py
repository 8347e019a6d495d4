"""A configuration file as read, before it is a :class:`Settings`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from drkit.config.files.interpolate import Problem


@dataclass
class Document:
    """Tables in the form of drkit.toml, whatever the format of the file.

    :param labels: path → how the user wrote it, for messages, as in ``line 7: A->B.topics``
    :param lines: path → line of the setting or table in drkit.toml, from 1
    :param origins: path → origin of its value, as in ``mm2.properties:7``
    :param references: path → the ``${env:NAME}`` or ``${file:PATH}`` that its value came from
    :param unresolved: path → a reference in its value that could not be resolved
    :param beside: flags and variables that set single settings, as in ``--set flows.A->B.tasks``
    :param notes: settings that are accepted and have no effect, or none yet
    """

    tables: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    unresolved: dict[str, str] = field(default_factory=dict)
    beside: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def called(self, at: str) -> str:
        """The user's own words for a path; the path itself if they are unknown."""
        while at not in self.labels:
            if not at.endswith("]") or (at := at[: at.rfind("[")]) == "flows":
                return ""
        return self.labels[at]

    def line_of(self, at: str) -> int:
        """Return the line of a setting, or of the nearest table or array around it; 0: unknown."""
        around = (known for known in self.lines if at == known or at.startswith((f"{known}.", f"{known}[")))
        return self.lines.get(max(around, key=len, default=""), 0)

    def located(self, at: str, file: str) -> str:
        """Return a path with its file and line; a flag or variable is in no file."""
        label = self.called(at) or at
        if label in self.beside:
            return label
        line = self.line_of(at)
        return ": ".join(part for part in (f"{file}:{line}" if line else file, label) if part)
