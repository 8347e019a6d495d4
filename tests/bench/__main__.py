"""``make bench``: measure drkit and MirrorMaker 2, print the tables, keep a full run in ``docs/``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
import sys
import tempfile
from typing import Final

from drkit.local import jars
from drkit.local.java import find_java
from tests.bench.machine import facts
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.mm2 import MirrorMaker
from tests.bench.peers.replicator import Peer
from tests.bench.report import splice, to_json, to_markdown
from tests.bench.scenarios import PACES, SCENARIOS
from tests.bench.session import Plan, Session, clusters

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
ALL: Final = (*(scenario.key for scenario in SCENARIOS), "latency")


def main(arguments: Sequence[str]) -> int:
    """Measure and report; 1 when a run gave no figure."""
    options = _options(arguments)
    java, classpath = str(find_java()), jars.classpath(progress=_tell, modules=jars.MIRROR_MAKER)
    plan = _plan(options, {"mm2": MirrorMaker(java, classpath), "drkit": Drkit()})
    folder = Path(options.keep or tempfile.mkdtemp(prefix="drkit-bench-"))
    with clusters(_tell) as (source, target):
        session = Session(plan, source, target, folder.resolve(), _tell)
        session.measure()
    machine = facts(java, classpath) | {"rounds": str(plan.rounds), "mode": "quick" if plan.quick else "full"}
    tables = to_markdown(machine, session.runs, session.paced)
    results = to_json(machine, session.runs, session.paced)
    (folder / "benchmarks.json").write_text(results)
    if options.write:
        _keep(tables, results)
    sys.stdout.write(tables)
    _tell(f"figures and logs are in {folder}")
    failed = [
        *filter(None, (run.failure for run in session.runs)),
        *filter(None, (run.failure for run in session.paced)),
    ]
    return int(bool(failed))


def _options(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, short windows")
    parser.add_argument("--only", default=",".join(ALL), help=f"some of {','.join(ALL)}")
    parser.add_argument("--peers", default="mm2,drkit", help="some of mm2,drkit")
    parser.add_argument("--rounds", type=int, help="default 3, quick 1")
    parser.add_argument("--window", type=float, help="seconds of each latency measurement")
    parser.add_argument("--epoch-seconds", type=float, help="drkit's epochs in the latency runs")
    parser.add_argument("--keep", help="folder for configurations, logs and the JSON file")
    parser.add_argument(
        "--write", action="store_true", help="write docs/benchmarks.* also after a partial run"
    )
    options = parser.parse_args(arguments)
    unknown = set(options.only.split(",")) - set(ALL)
    if unknown:
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    options.write |= not options.quick and options.only == ",".join(ALL) and options.peers == "mm2,drkit"
    return options


def _plan(options: Namespace, peers: dict[str, Peer]) -> Plan:
    wanted, quick = options.only.split(","), options.quick
    return Plan(
        peers=[peers[name] for name in options.peers.split(",")],
        scenarios=[scenario for scenario in SCENARIOS if scenario.key in wanted],
        paces=PACES if "latency" in wanted else (),
        rounds=options.rounds or (1 if quick else 3),
        quick=quick,
        window_seconds=options.window or (12.0 if quick else 90.0),
        warm_up_seconds=5.0 if quick else 15.0,
        epoch_seconds=options.epoch_seconds or (6.0 if quick else 30.0),
    )


def _keep(tables: str, results: str) -> None:
    page = DOCS / "benchmarks.md"
    page.write_text(splice(page.read_text(), tables))
    (DOCS / "benchmarks.json").write_text(results)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
