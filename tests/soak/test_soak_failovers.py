"""A hundred random failovers with live clients in Python and Java, orchestrators killed at random.

``DRKIT_TEST_SEED`` is the first seed, ``DRKIT_TEST_FAILOVERS`` the number. Each is printed with its seed and
written to the file ``DRKIT_TEST_RESULTS``; a seed that is in that file already is passed over, so a run
continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
import traceback

import pytest

from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ClusterSpec
from tests.soak.java_clients import Java
from tests.support.failover.orchestrator import Orchestrators
from tests.support.soak.failover_case import drawn
from tests.support.soak.failover_oracle import Verdict
from tests.support.soak.failover_stage import Stage

FIRST = int(os.environ.get("DRKIT_TEST_SEED", "1"))
NUMBER = int(os.environ.get("DRKIT_TEST_FAILOVERS", "100"))
PER_PAIR = 34
"""Failovers of one pair of clusters, at most."""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(NUMBER * 180)]


@contextmanager
def staged(folder: Path, orchestrators: Orchestrators, java: Java) -> Iterator[Stage]:
    """A new pair of clusters."""
    primary = LocalCluster(ClusterSpec("primary", linked=("PROBE", "REPLICATION")))
    standby = LocalCluster(ClusterSpec("standby"))
    stage = None
    try:
        start_together(primary, standby)
        folder.mkdir()
        stage = Stage(primary, standby, folder, orchestrators, java)
        yield stage
    finally:
        if stage is not None:
            stage.close_world()
        primary.stop()
        standby.stop()


def one(stage: Stage, seed: int) -> dict[str, object]:
    """Its figures; what broke it off is in ``wrong``."""
    case = drawn(seed)
    print(case.text(), flush=True)  # noqa: T201 - however far a soak run gets
    try:
        found: dict[str, object] = json.loads(Verdict(stage.failed_over(case)).line())
    except Exception:  # noqa: BLE001 - the next seed has its turn, and the test fails in the end
        found = {"case": case._asdict(), "wrong": [traceback.format_exc()]}
    return found


def test_random_failovers_with_live_clients(tmp_path: Path) -> None:
    results = Path(os.environ.get("DRKIT_TEST_RESULTS", tmp_path / "failovers.jsonl"))
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    known = {json.loads(line)["case"]["seed"] for line in lines}
    seeds = [s for s in range(FIRST, FIRST + NUMBER) if s not in known]
    wrong: dict[int, object] = {}
    with Orchestrators() as orchestrators, Java() as java, results.open("a", encoding="utf-8") as out:
        while seeds:
            with staged(tmp_path / f"pair-{seeds[0]}", orchestrators, java) as stage:
                for _ in range(min(PER_PAIR, len(seeds))):
                    seed = seeds.pop(0)
                    found = one(stage, seed)
                    out.write(json.dumps(found) + "\n")
                    out.flush()
                    print(json.dumps({k: v for k, v in found.items() if k != "case"}), flush=True)  # noqa: T201
                    if found["wrong"]:
                        wrong[seed] = found["wrong"]
                        stage.close_world()
    assert not wrong
