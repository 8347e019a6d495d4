"""A primary of three brokers, a standby, a replicator between them, and observers that look on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
import json
from pathlib import Path
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, NamedTuple
import uuid

from confluent_kafka.admin import AdminClient, NewTopic

from drkit.config import Settings
from drkit.detect.awake import AwakeClock, Ticker
from drkit.detect.reasons import Reason
from drkit.detect.verdict import Verdict, VerdictKind
from drkit.local.cluster import LocalCluster
from drkit.watch.automatic import AutoFailover
from drkit.watch.identity import ObserverIdentity
from drkit.watch.observer import Moment, Observer
from tests.support.waiting import eventually
from tests.support.warm import WarmProcess

_ROOT = Path(__file__).parents[3]
QUICK = {
    "probe_interval_seconds": 0.4, "probe_timeout_seconds": 1.0, "confirm_seconds": 2.0,
    "phi_pause_seconds": 1.0, "phi_min_deviation_seconds": 0.3,
}  # fmt: skip
"""Detection for tests that do not ask how long it takes by default."""


class Seen(NamedTuple):
    """A change of a verdict."""

    at: float
    verdict: Verdict


class Lookout:
    """An observer that looks all the time, and remembers what it saw."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.clock = AwakeClock()
        self._ticker = Ticker(self.clock)
        self.observer = Observer(
            settings, settings.flows[0], ObserverIdentity(name, uuid.uuid4().hex), self.clock
        )
        self.automat: AutoFailover | None = None
        self.changes: list[Seen] = []
        self.moment: Moment | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._ticker.start()
        self.observer.start()
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            if not self.observer.is_ready:
                continue
            moment = self.moment = self.observer.look()
            verdict = moment.verdict
            if self.automat is not None:
                self.automat.see(moment, time.monotonic())
            last = self.changes[-1].verdict if self.changes else None
            if last is None or (last.kind, last.reason) != (verdict.kind, verdict.reason):
                self.changes.append(Seen(time.monotonic(), verdict))

    @property
    def is_alive(self) -> bool:
        """Whether it still looks."""
        return self._thread.is_alive()

    @property
    def reason(self) -> Reason | None:
        return self.moment.verdict.reason if self.moment else None

    def sees(self, reason: Reason, seconds: float = 30.0) -> Moment:
        """Wait for a verdict."""

        def there() -> Moment | None:
            return self.moment if self.reason is reason else None

        try:
            return eventually(there, seconds, reason)
        except AssertionError:
            told = [f"{s.at:.1f} {s.verdict.name} {s.verdict.reason}" for s in self.changes[-8:]]
            evidence = self.moment.verdict.evidence if self.moment else ()
            raise AssertionError(f"no {reason}: {told} {evidence}") from None

    def is_settled(self) -> bool:
        """Heartbeats arrive, the flow was looked at, nothing on the target blocks."""
        picture = self.moment.picture if self.moment else None
        if picture is None or picture.phi is None:
            return False
        return picture.risk.seconds is not None and not picture.blockers

    def settles(self, seconds: float = 100.0) -> None:
        """Wait until the observer's view is complete; the failure shows what is missing."""
        try:
            eventually(self.is_settled, seconds, "rest")
        except AssertionError:
            picture = self.moment.picture if self.moment else None
            told = (picture.phi, picture.risk, picture.blockers) if picture else "no picture"
            raise AssertionError(f"no heartbeats, no look or a target that is not ready: {told}") from None

    def worst_since(self, when: float) -> VerdictKind:
        """The worst verdict since a moment of `time.monotonic`, the one that stood then included."""
        before = [s for s in self.changes if s.at <= when][-1:]
        return max(s.verdict.kind for s in [*before, *(s for s in self.changes if s.at > when)])

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(5.0)
        self.observer.stop()
        self._ticker.stop()


class World:
    """The clusters with a flow of their own.

    :param roles: listeners of the primary: that of the replicator, that of the probes
    """

    def __init__(self, primary: LocalCluster, standby: LocalCluster, *, beat: float = 0.3) -> None:
        self.primary, self.standby = primary, standby
        tag = uuid.uuid4().hex[:6]
        self.source, self.target = f"a{tag}", f"b{tag}"
        self.topic = f"{tag}-orders"
        flow = {
            "source": self.source, "target": self.target, "topics": [f"{tag}-.*"], "buckets": 2, "tasks": 1,
            "heartbeats_interval_seconds": beat, "replication_factor": 1,
        }  # fmt: skip
        self.base: dict[str, Any] = {
            "clusters": {
                self.source: {"bootstrap_servers": primary.bootstrap("REPLICATION")},
                self.target: {"bootstrap_servers": standby.bootstrap()},
            },
            "flows": [flow],
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the world
        self._replicator: subprocess.Popen[bytes] | WarmProcess | None = None
        self._lookouts: list[Lookout] = []
        admin = AdminClient({"bootstrap.servers": primary.bootstrap(), "log_level": 0})
        admin.create_topics([NewTopic(self.topic, 3, 3)])[self.topic].result(30)

    def plain(self, role: str = "PROBE", **tables: Any) -> dict[str, Any]:
        """The configuration of an observer that reaches the primary by one of its listeners."""
        found = deepcopy(self.base)
        found["clusters"][self.source]["bootstrap_servers"] = self.primary.bootstrap(role)
        return found | {"detection": QUICK, **tables}

    def settings(self, role: str = "PROBE", **tables: Any) -> Settings:
        return Settings.model_validate(self.plain(role, **tables))

    def lookout(self, name: str = "o1", role: str = "PROBE", **tables: Any) -> Lookout:
        """An observer in this process."""
        made = Lookout(self.settings(role, **tables), name)
        self._lookouts.append(made)
        made.start()
        return made

    def replicate(self, wrong: Path | None = None) -> None:
        """Start a replicator; `wrong`: how wrong its clock is, for :mod:`tests.support.watch.jumping`."""
        program, plain = "drkit.replicate.solo", json.dumps(self.base).encode()
        if wrong is None:
            self._replicator = WarmProcess(program, stdin=plain, out=self._log.fileno())
            return
        jumping = self._replicator = subprocess.Popen(
            [sys.executable, "-m", "tests.support.watch.jumping", str(wrong), program],
            stdin=subprocess.PIPE, stdout=self._log, stderr=subprocess.STDOUT, cwd=_ROOT,
        )  # fmt: skip
        assert jumping.stdin is not None
        jumping.stdin.write(plain)
        jumping.stdin.close()

    def dismiss(self) -> None:
        """Stop all observers of this process."""
        lookouts, self._lookouts = self._lookouts, []
        together(lookouts, Lookout.stop)

    def dismiss_replicator(self) -> None:
        """SIGKILL the replicator."""
        if self._replicator is not None:
            self._replicator.kill()
            self._replicator.wait()
            self._replicator = None

    def close(self) -> None:
        self.dismiss()
        self.dismiss_replicator()
        self._log.close()

    def said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-3000:]


def together(things: Sequence[Any], act: Callable[[Any], None]) -> None:
    threads = [threading.Thread(target=act, args=(t,)) for t in things]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
