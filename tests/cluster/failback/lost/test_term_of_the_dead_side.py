"""Each direction has its journal on its target; the newer one dies with the primary.

Clients are told by a command, which cannot be asked and refuses an older term. The failover is typed on
another machine, without the journals' files.
"""

from __future__ import annotations

import json
from pathlib import Path
import sys

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from tests.support.errors import coded
from tests.support.failback.dying_pair import DyingPair
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER

pytestmark = pytest.mark.wide
RECEIVER = """#!/usr/bin/env python3
import json, pathlib, sys
path = pathlib.Path(sys.argv[1])
new = json.load(sys.stdin)
old = json.loads(path.read_text()) if path.exists() else None
if old and new["term"] < old["term"]:
    print("I know term", old["term"])
    sys.exit(3)
path.write_text(json.dumps(new))
"""


def test_a_term_is_known_on_both_sides(lab: DyingPair, tmp_path: Path) -> None:
    program, told = tmp_path / "receiver.py", tmp_path / "endpoint"
    program.write_text(RECEIVER)
    program.chmod(0o755)
    way = {"kind": "command", "command": [sys.executable, str(program), str(told)]}
    topic, pair = lab.there.name("t"), lab.pair
    for side in (pair.now, pair.other):
        side.failover_fields |= {"repoint": [way], "journal_folder": str(tmp_path / "machine-a")}
    lab.there.create(lab.there.source, topic, 1, {"retention.ms": "-1"})
    lab.turn([topic], "a")
    pair.now.replicate()
    pair.now.copied([topic])
    with Orchestrators() as orchestrators:  # a switchover that is rolled back takes a term, too
        plain, request = pair.now.plain(), RunRequest(planned=True).to_json()
        assert orchestrators.run(plain, "begin", groups=[], request=request, kill=Kill(8, AFTER)).killed
        report = orchestrators.run(plain, "abort", elsewhere=True).report
        assert report is not None
        assert report["state"] == "aborted"
    pair.now.stop_replicating()
    lab.turn([topic], "b")
    side = pair.now
    side.replicate()
    side.copied([topic])
    side.protected([topic])
    side.stop_replicating()
    known = json.loads(told.read_text())["term"]
    lab.primary.kill()
    side.failover_fields |= {"journal_folder": str(tmp_path / "machine-b")}
    with side.desk() as desk:
        shown = desk.rehearse([], RunRequest(accept_data_loss="dead"))
    assert any("was not read" in str(line) for line in shown.lines), shown.lines
    with side.desk() as desk:
        report = desk.begin([], RunRequest(accept_data_loss="dead"))
    assert (report["state"], report["term"] > known) == ("done", True), report
    assert json.loads(told.read_text())["cluster_id"]


def test_a_run_that_is_refused_for_its_term_is_raised_by_name(lab: DyingPair, tmp_path: Path) -> None:
    program, told = tmp_path / "receiver.py", tmp_path / "endpoint"
    program.write_text(RECEIVER)
    program.chmod(0o755)
    topic, side = lab.there.name("t"), lab.there
    way = {"kind": "command", "command": [sys.executable, str(program), str(told)]}
    side.failover_fields |= {"repoint": [way]}
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    lab.write(side, topic, "a", 40)
    side.replicate()
    side.copied([topic])
    told.write_text(json.dumps({"term": 7}))
    for request in (RunRequest(planned=True), None):
        with side.desk() as desk, pytest.raises(Refused, check=coded("newer_term")) as caught:
            _ = desk.begin([], request) if request is not None else desk.resume(RunRequest())
        assert "--resume --term N" in caught.value.hint
    with side.desk() as desk:
        report = desk.resume(RunRequest(term=8))
    assert (report["state"], json.loads(told.read_text())["term"]) == ("done", 8)
