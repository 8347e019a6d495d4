"""The new primary dies while the old one is copied back, which is no failover target before it has all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drkit.config import Settings
from drkit.detect.reasons import Reason
from drkit.detect.verdict import VerdictKind
from drkit.status.pair.model import PairState
from tests.support.failback.pair import Pair, Side
from tests.support.failback.tail import Case, DeadPrimary
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.flows.produce import aged, fill
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually
from tests.support.watch.world import QUICK, Lookout

RPO_SECONDS = 90.0
OLD_MS = 600_000
"""Age of the records that are missing; far above the budget, which is far above the silence."""
RECORDS, SIZE, SMALL_BATCHES = 3000, 1000, 16_384
SLOW = 40_000
"""Bytes a second: the copy takes more than a minute, and heartbeats pass."""


@pytest.fixture
def home(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[DeadPrimary]:
    """A primary that died, and is copied back wholly; it had no records of its own."""
    primary, standby = module_cluster.ready({"primary": {}, "standby": {}})
    pair = Pair(primary, standby, tmp_path / "journal")
    found = DeadPrimary(pair, primary, {"orders": Case(tail=0, method="rebuild")})
    found.die()
    fill(found.side.target, found.topics[0], RECORDS, first=9000, size=SIZE, timestamp=aged(OLD_MS),
         batch_size=SMALL_BATCHES)  # fmt: skip
    found.come_home(found.request(tmp_path / "saved"))
    found.back.failover_fields["rpo_seconds"] = RPO_SECONDS
    yield found
    found.close()


@contextmanager
def _watching(side: Side) -> Iterator[Lookout]:
    """`drkit watch` of a direction, while it runs."""
    lookout = Lookout(Settings.model_validate(side.plain() | {"detection": QUICK}), "o1")
    lookout.start()
    try:
        yield lookout
    finally:
        lookout.stop()


def _seen(lookout: Lookout, holds: Callable[[Any], bool], what: str) -> None:
    """Wait for a look at both clusters, with heartbeats."""

    def there() -> bool:
        moment, status = lookout.moment, lookout.observer.senses.status
        arrives = moment is not None and moment.picture.phi is not None
        return arrives and status is not None and status.pair is not None and holds(status)

    eventually(there, 90, lambda: f"{what}: {lookout.observer.senses.status}")


def _begins_a_failover(side: Side, folder: Path) -> Any:
    return drkit(written(side, folder), "failover", "--flow", side.settings.flows[0].name, "--all", "--yes")


def _lost(lookout: Lookout) -> Any:
    """The verdict once the primary counts as lost."""
    moment = eventually(
        lambda: lookout.moment if lookout.moment and lookout.moment.verdict.primary_lost else None, 60, "loss"
    )
    return moment.verdict


@pytest.mark.wide
def test_lost_while_the_old_primary_is_rebuilt_and_once_it_has_all(home: DeadPrimary, tmp_path: Path) -> None:
    """Heartbeats pass all the time; they hid that records of ten minutes were missing."""
    back, standby, topic = home.back, home.side.brokers[1], home.topics[0]
    back.flow_fields["throttle_bytes_per_second"] = SLOW
    back.replicate()
    with _watching(back) as lookout:
        _seen(lookout, lambda s: s.pair.count(PairState.RETURNING) == 1, "RETURNING")
        eventually(lambda: _copied(back, topic) > 100, 60, "a part is copied")
        assert _copied(back, topic) < RECORDS
        standby.kill()
        verdict = _lost(lookout)
        assert verdict.kind is VerdictKind.HOLD, "an automatic failover acts on LOST"
        assert Reason.NOT_PROTECTED in verdict.obstacles, verdict
        assert any("RETURNING: 1 topic" in line for line in verdict.evidence), verdict.evidence
        assert lookout.moment is not None
        assert lookout.moment.picture.risk.above > RPO_SECONDS
    with _watching(back) as later:  # which never saw both
        later.sees(Reason.NOT_PROTECTED, 60.0)
    refused = _begins_a_failover(back, tmp_path)
    assert refused.code == 3, refused
    assert refused.error == "not_copied_back", refused.err
    assert f"{topic} is copied back since a return" in refused.err, refused.err

    standby.restart()
    back.stop_replicating()
    del back.flow_fields["throttle_bytes_per_second"]
    home.copied_back()
    with _watching(back) as lookout:
        _seen(lookout, lambda s: s.pair.count(PairState.PROTECTED) == 1, "PROTECTED")
        eventually(lookout.is_settled, 60, "rest")
        standby.kill()
        assert _lost(lookout).kind is VerdictKind.LOST
    done = _begins_a_failover(back, tmp_path)
    assert done.code == 0, (done.out, done.err)
    standby.restart()
    assert home.same_on_both()


def _copied(side: Side, topic: str) -> int:
    """Number of records in a copy."""
    return sum(map(len, side.records(side.target, topic).values()))
