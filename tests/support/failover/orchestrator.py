"""Orchestrators that are killed or frozen at a boundary of their journal."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from functools import cache
from itertools import count
from pathlib import Path
import signal
from tempfile import TemporaryDirectory
import threading
from typing import Any, NamedTuple, Self

from drkit.exercise.processes import Child, ProcessParent
from drkit.local.process import wait_stopped
from tests.support.children import finish, run_until
from tests.support.failover.orchestrator_parent import AFTER, BOUNDARIES, MODULE, SERVICE

_METHODS = {"return": "begin_return"}
_SECONDS = 90.0


class Kill(NamedTuple):
    """Where an orchestrator dies: at which entry that it writes, and when."""

    entry: int | str
    """Its number, or its step, effect and kind: entries before it may be more or fewer."""
    when: str
    """``before`` it is written anywhere, when it is in the ``file`` only, or ``after`` it is
    everywhere.
    """


class Outcome(NamedTuple):
    """How an orchestrator ended."""

    killed: bool
    report: dict[str, Any] | None
    error: dict[str, Any] | None


class Running:
    """An orchestrator at work.

    :param kill: where it dies
    :param freeze: where it is suspended, until :meth:`wake`
    """

    def __init__(self, child: Child, log: Path, kill: Kill | None, freeze: Kill | None) -> None:
        self._child, self._log, self.pid = child, log, child.pid
        self._finishing = threading.Thread(target=finish, args=(child,), daemon=True)
        if (at := kill or freeze) is None:
            self._finishing.start()
        elif run_until(child, _Boundary(at).is_reached) is not None:
            if kill is not None:
                child.kill()
            else:
                child.signal(signal.SIGSTOP)

    def is_stopped(self) -> bool:
        """Return whether it is suspended."""
        return wait_stopped(self.pid, 0.0)

    def wake(self) -> None:
        """Let it continue."""
        if self._child.result is None:
            self._child.signal(signal.SIGCONT)
            self._child.proceed()
            self._finishing.start()

    def has_ended(self) -> bool:
        """Return whether it ended by itself."""
        return self._child.result is not None

    def outcome(self) -> Outcome:
        """Wait for its end."""
        if self._finishing.ident is not None:
            self._finishing.join(_SECONDS)
        ended = self._child.ended()
        log = self._log.read_text(encoding="utf-8")
        assert "Traceback" not in log, log
        return Outcome(ended.code is None, ended.answer or None, ended.error or None)


class _Boundary:
    def __init__(self, at: Kill) -> None:
        self._at, self._written = at, 0

    def is_reached(self, position: Any) -> bool:
        """Return whether the process dies or freezes here; called at each boundary, in turn."""
        names = self._written, f"{position.step} {position.effect} {position.kind}"
        self._written += position.when == AFTER
        return position.when == self._at.when and self._at.entry in names


@cache
def _parent() -> ProcessParent:
    """Return the parent of all orchestrators of this test process: to load everything takes it seconds."""
    parent = ProcessParent(MODULE).__enter__()
    atexit.register(parent.__exit__)
    return parent


class Orchestrators:
    """Forks orchestrators of a parent that has everything loaded; use it in a ``with``."""

    def __enter__(self) -> Self:
        self._folder, self._numbers = TemporaryDirectory(prefix="orchestrators-"), count()
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def run(self, settings: Mapping[str, Any], verb: str, **more: Any) -> Outcome:
        """One orchestrator to its end; see :meth:`start`."""
        return self.start(settings, verb, **more).outcome()

    def start(
        self,
        settings: Mapping[str, Any],
        verb: str,
        *,
        kill: Kill | None = None,
        freeze: Kill | None = None,
        elsewhere: bool = False,
        **arguments: Any,
    ) -> Running:
        """Begin one orchestrator.

        :param arguments: those of the verb: ``groups``, ``topics``, ``request``
        """
        if verb == "resume":
            arguments["added"] = arguments.pop("request", {})
        elif verb == "abort":
            arguments["reason"] = "for the test"
        else:
            arguments.setdefault("request", {})
        log = Path(self._folder.name) / f"{next(self._numbers)}.log"
        child = _parent().start(
            ("drkit", "failover"),
            SERVICE,
            {"elsewhere": elsewhere, "boundaries": BOUNDARIES if kill or freeze else ()},
            log=log,
            settings=settings,
            call=_METHODS.get(verb, verb),
            arguments=arguments,
        )
        return Running(child, log, kill, freeze)
