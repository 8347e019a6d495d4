"""``drkit failback`` is stopped by a signal: it never passes OPEN after it, and says what is held."""

from __future__ import annotations

from pathlib import Path
import signal

import pytest

from drkit.journal.machine import RunState, StepName
from tests.support.errors import sentence
from tests.support.failback.pair import CUT, Pair
from tests.support.failover.draining import drkit, waiting_in_drain
from tests.support.flows.produce import fill


@pytest.mark.wide
@pytest.mark.timeout(300)
def test_a_signal_holds_the_switchover_home_before_the_old_primary_opens(pair: Pair, tmp_path: Path) -> None:
    there = pair.now
    topic, name = there.name("home"), there.settings.flows[0].name
    there.create(there.source, topic, 1, {"retention.ms": "-1"})
    fill(there.source, topic, 20)
    there.replicate()
    there.copied([topic])
    assert pair.switch(clients_cut=CUT)["state"] == "done"
    assert pair.reprotect()["state"] == "done"
    home = pair.now
    home.replicate()
    home.copied([topic])
    command = ("failback", "--flow", name, "--clients-cut", CUT, "--yes")
    with waiting_in_drain(home, tmp_path, topic, *command) as run:
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=60)
        assert run.returncode == 1, said
        assert sentence("run_interrupted") in said
        assert f"{home.source.alias} refuses producers" in said
        log = home.run_log()
        assert (log.state, StepName.OPEN in log.begun) == (RunState.HELD, False)
    done = drkit(tmp_path, *command)
    said, _ = done.communicate(timeout=120)
    assert done.returncode == 0, said
