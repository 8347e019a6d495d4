"""Every error drkit shows a user: what happened, where, the evidence, what to do, and the exit code.

Exit codes (the command-line contract): 1 failed, 2 usage or configuration, 3 refused or held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drkit.catalogue import ERRORS, filled
from drkit.counted import first_of


class DrkitError(Exception):
    """A failure, with everything that an operator needs.

    :param code: of :mod:`drkit.catalogue`, which has the sentence and the hint
    :param where: the file, cluster, topic or partition concerned
    :param evidence: what was seen (an error code, a number, an answer)
    :param hint: the next thing to do, best a ``NextCommand``, or None for the hint of the catalogue
    :param values: for the placeholders of the sentence and of the hint
    """

    exit_code: ClassVar[int] = 1
    heading: ClassVar[str] = "failed"
    """The word before the sentence of the error."""

    def __init__(
        self, code: str, /, *, where: str = "", evidence: str = "", hint: object = None, **values: object
    ) -> None:
        known = ERRORS[code]
        self.code = code
        self.what = filled(known.sentence, values)
        self.where, self.evidence = where, evidence
        self.hint = filled(known.hint, values) if hint is None else str(hint)
        super().__init__(self.what)

    def __reduce__(self) -> tuple[object, ...]:
        # Spark passes errors between processes by pickle: with their texts, not with the values in them.
        return (restored, (type(self), self.__dict__))

    @property
    def in_short(self) -> str:
        """What happened and the evidence, in one line."""
        return in_line(self.what, self.evidence)

    @property
    def in_full(self) -> str:
        """What happened, where, and the evidence, in one line."""
        return in_line(self.what, self.where, self.evidence)

    def as_dict(self) -> dict[str, str | int]:
        """The error as plain data, for ``--json``."""
        return {
            "code": self.code,
            "error": self.what,
            "where": self.where,
            "evidence": self.evidence,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


def in_line(*parts: str) -> str:
    """Return the parts that are not empty as one line."""
    return ": ".join("; ".join(part.splitlines()) for part in parts if part)


def raise_first(refused: Mapping[Any, DrkitError]) -> None:
    """Raise an error of a change that was refused in part, preferably that of an unanswered request."""
    for error in sorted(refused.values(), key=lambda error: not isinstance(error, ClusterUnreachable)):
        raise error


def raise_refused(code: str, where: str, refused: Mapping[Any, DrkitError], **words: str) -> None:
    """Raise Failed with a code if a part of a change was refused, or the error of an unanswered request."""
    raise_first({part: error for part, error in refused.items() if isinstance(error, ClusterUnreachable)})
    if refused:
        evidence = first_of(sorted(f"{part}: {error.evidence}" for part, error in refused.items()))
        raise Failed(code, where=where, evidence=evidence, **words)


def restored(kind: type[DrkitError], fields: Mapping[str, Any]) -> DrkitError:
    """Return an error of another process.

    :param fields: its attributes, at least those of :class:`DrkitError`
    """
    error = kind.__new__(kind, fields["what"])
    error.__dict__.update(fields)
    return error


def error_text(error: BaseException) -> str:
    """An error in words; a system error without its number, such as ``Connection reset by peer``."""
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__


class Failed(DrkitError):
    """The work was tried and failed (exit 1)."""


class ConfigError(DrkitError):
    """Wrong usage or configuration (exit 2)."""

    exit_code: ClassVar[int] = 2
    heading: ClassVar[str] = "configuration"


class Usage(ConfigError):
    """The command line asks for something that does not exist or cannot be combined; no file is wrong."""

    heading: ClassVar[str] = "usage"


class Refused(DrkitError):
    """drkit refuses until a person clears the named reason (exit 3)."""

    exit_code: ClassVar[int] = 3
    heading: ClassVar[str] = "refused"


class ExportAltered(Refused):
    """The files of an export, or its manifest, are not what was written."""


class ClusterUnreachable(Failed):
    """No broker of a cluster answered."""


class NotAuthenticated(Failed):
    """A cluster refused our credentials or our TLS."""


class NotAuthorized(Failed):
    """A cluster knows us but does not allow the operation."""
