"""A return that breaks off in BEGIN between two changes, without a journal entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.errors import Failed
from drkit.failover.returning import begin
from tests.support.errors import made
from tests.support.failback.tail import DeadPrimary

SEED = begin, "seed"
RELEASE = begin, "release"
MAY_COPY = begin.BeginStep, "_may_copy"


def broken_off(home: DeadPrimary, folder: Path, topic: str, before: tuple[Any, str]) -> None:
    """The return of a topic, which breaks off before a function of BEGIN.

    :param before: where the function is, and its name
    """

    def breaks(*given: Any) -> None:
        if [] in given:  # of no topic
            return
        raise made(Failed, "it breaks off here", where=before[1], evidence="for the test", hint="")

    with home.side.desk() as desk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(*before, breaks)
        with pytest.raises(Failed, match="it breaks off here"):
            desk.begin_return(home.request(folder, [topic]), topics=[topic])
