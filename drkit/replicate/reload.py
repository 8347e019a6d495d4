"""Takes changes of the configuration while flows run: by watching its file, and when asked to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from drkit import observe
from drkit.clock import Seconds, monotonic
from drkit.config import FlowSettings, Settings
from drkit.config.changes import changes, combined
from drkit.errors import ConfigError

_LOOK_SECONDS: Final = 0.5


class ConfigFile:
    """The configuration file of a run, and whether it has changed.

    :param read: reads and checks it, with the options that override it
    """

    def __init__(self, path: Path, read: Callable[[], Settings], clock: Seconds = monotonic) -> None:
        self.path = path
        self.read = read
        self._clock = clock
        self._looked_at = clock()
        self._known = self._seen = self._content()
        self._asked = False

    def ask(self) -> None:
        """Read the file again at the next look, even if unchanged. May be called by a signal handler."""
        self._asked = True

    def is_new(self) -> bool:
        """Look at it, at most every half second.

        A file that is still being written has another content at the next look; it is new once unchanged.
        """
        if self._asked:
            self._known = self._seen = self._content()
            self._asked = False
            return True
        if self._clock() - self._looked_at < _LOOK_SECONDS:
            return False
        self._looked_at = self._clock()
        before, self._seen = self._seen, self._content()
        if self._seen in {None, self._known} or self._seen != before:
            return False
        self._known = self._seen
        return True

    def _content(self) -> bytes | None:
        """The hash of the content; None while the file is missing, as when an editor replaces it."""
        try:
            return sha256(self.path.read_bytes()).digest()
        except OSError:
            return None


class Running(Protocol):
    """A flow that runs and takes new settings at its next look."""

    flow: FlowSettings


class Reload:
    """Follows a configuration file for flows that run.

    :param settings: those with which they were started
    """

    def __init__(self, file: ConfigFile, settings: Settings, jobs: Sequence[Running]) -> None:
        self._file = file
        self._settings = settings
        self._jobs = jobs

    def look(self) -> None:
        """Take what is new in the file; refuse impossible settings and keep the old ones."""
        if not self._file.is_new():
            return
        try:
            self._take(self._file.read())
        except ConfigError as error:
            observe.event("config_refused", level="error", reason=error.what, where=error.where,
                          evidence=error.evidence, hint=error.hint)  # fmt: skip

    def _take(self, wanted: Settings) -> None:
        found = changes(self._settings, [j.flow.name for j in self._jobs], wanted)
        settings = combined(self._settings, found)
        # The file fits together; without what waits for a restart it may not.
        for where, what, hint in settings.disagreements():
            evidence = "until drkit replicate is started again"
            raise ConfigError("settings_disagree", where=where, evidence=evidence, hint=hint, problem=what)
        self._settings = settings
        for job in self._jobs:
            if job.flow.name in found.live:
                taken = found.live[job.flow.name]
                job.flow = job.flow.model_copy(update=taken.values)
                observe.event("config_changed", flow=job.flow.name, changed=list(taken.lines))
        if found.restart:
            observe.event("config_needs_restart", level="warning", changed=list(found.restart),
                          hint="start drkit replicate again to take these")  # fmt: skip
        if not found.live and not found.restart:
            observe.event("config_unchanged", where=str(self._file.path))
