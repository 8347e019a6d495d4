"""What was said of a return, as the options that say it again."""

from __future__ import annotations

from typing import Final

from drkit.failover.core.request import RunRequest
from drkit.next_command import typed

NOTHING_SAID: Final = RunRequest()


def begin_words(request: RunRequest) -> list[str]:
    """The options that a return needs in any case, whatever is decided in it."""
    words = [
        typed(option, value)
        for option, value in (
            ("--clients-cut", request.clients_cut),
            ("--new-primary", request.new_primary),
            ("--export-to", request.export_to),
            ("--format", request.export_format),
        )
        if value
    ]
    return words + ["--evict-readers"] * request.evict_readers


def decision_words(request: RunRequest) -> list[str]:
    """The options by which a person decides."""
    words = [typed("--disposition", f"{t}={said}") for t, said in request.dispositions.items()]
    words += [typed("--method", f"{t}={said}") for t, said in request.methods.items()]
    words += [typed("--give-up-history", t) for t in request.give_up_history]
    words += [typed("--same", request.same)] if request.same else []
    words += [typed("--copy-limit", str(request.copy_limit))] if request.copy_limit else []
    return words + ([typed("--reason", request.reason)] if request.reason else [])
