"""Every error drkit shows a user: what happened, where, the evidence, what to do, and the exit code.

Exit codes (the command-line contract): 1 failed, 2 usage or configuration, 3 refused or held.
"""

from __future__ import annotations

from typing import ClassVar


class DrkitError(Exception):
    """A failure, with everything that an operator needs.

    :param what: one sentence, no trailing full stop
    :param where: the file, cluster, topic or partition concerned
    :param evidence: what was seen (an error code, a number, an answer)
    :param hint: the next thing to do, best a command
    """

    exit_code: ClassVar[int] = 1
    heading: ClassVar[str] = "failed"
    """The word before the sentence of the error."""

    def __init__(self, what: str, *, where: str = "", evidence: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.evidence = evidence
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Spark passes errors between processes by pickle, which needs help with keyword-only fields.
        return (_rebuild, (type(self), self.what, self.where, self.evidence, self.hint))

    @property
    def in_short(self) -> str:
        """What happened and the evidence, in one line."""
        return f"{self.what}: {self.evidence}" if self.evidence else self.what

    @property
    def in_full(self) -> str:
        """What happened, where, and the evidence, in one line."""
        return ": ".join(part for part in (self.what, self.where, self.evidence) if part)

    def as_dict(self) -> dict[str, str | int]:
        """The error as plain data, for ``--json``."""
        return {
            "error": self.what,
            "where": self.where,
            "evidence": self.evidence,
            "hint": self.hint,
            "exit_code": self.exit_code,
        }


def _rebuild(kind: type[DrkitError], what: str, where: str, evidence: str, hint: str) -> DrkitError:
    return kind(what, where=where, evidence=evidence, hint=hint)


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
