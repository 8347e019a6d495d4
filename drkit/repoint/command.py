"""A user's command sends the endpoint to clients."""

from __future__ import annotations

import os
import shutil
from typing import Final

from drkit.endpoint import Endpoint
from drkit.errors import Failed, Refused
from drkit.repoint.contract import RepointEffect, TryAgain, older
from drkit.repoint.program import run_program


class Command:
    """Runs a program with the endpoint as JSON on its input and as variables ``DRKIT_…``.

    Only the program knows the clients' previous endpoint: it exits with 0 when they have this endpoint now,
    and with 3, drkit's own code for a refusal, when they have a newer term. Any other code is tried again.
    """

    OLDER: Final = Refused.exit_code

    def __init__(self, command: tuple[str, ...], timeout_seconds: float) -> None:
        self._command = command
        self._timeout_seconds = timeout_seconds

    @property
    def name(self) -> str:
        """See :class:`Adapter`; arguments may be secrets."""
        return f"command {self._command[0]}"

    def current(self) -> None:
        """See :class:`Adapter`: a command cannot be queried, so only a missing program is reported."""
        if shutil.which(self._command[0]) is None:
            searched = "" if "/" in self._command[0] else f"PATH = {os.environ.get('PATH', '')}"
            raise Failed("program_missing", where=self._command[0], evidence=searched)

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """See :class:`Adapter`."""
        variables = variables_of(endpoint)
        ended = run_program(self._command, endpoint.to_json(), variables, self._timeout_seconds)
        if ended.code == self.OLDER:
            raise older(self.name, endpoint, ended.output or f"it ended with {ended.code}")
        if ended.code:
            evidence = ended.output or "it said nothing"
            where = self._command[0]
            raise TryAgain("repoint_command_failed", where=where, evidence=evidence, error_code=ended.code)
        return RepointEffect.CHANGED


def variables_of(endpoint: Endpoint) -> dict[str, str]:
    """The endpoint as variables of a process."""
    return {
        "DRKIT_TERM": str(endpoint.term),
        "DRKIT_CLUSTER": endpoint.cluster,
        "DRKIT_CLUSTER_ID": endpoint.cluster_id,
        "DRKIT_BOOTSTRAP_SERVERS": endpoint.bootstrap_servers,
    }
