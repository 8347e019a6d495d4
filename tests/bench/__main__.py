"""``make bench``: measure drkit and MirrorMaker 2, print the tables, keep a full run in ``docs/``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
import sys
import tempfile
from typing import Final

from drkit.local import jars
from drkit.local.java import find_java
from tests.bench.failover_session import (
    DRILL,
    FAILOVER,
    LOST,
    RETURN,
    STANDBY,
    SWITCH,
    measure_drills,
    measure_failovers,
    measure_lost_primaries,
    measure_returns,
    measure_switchovers,
    measure_takeovers,
)
from tests.bench.groups_session import PARTS, GroupSession
from tests.bench.machine import facts
from tests.bench.peers.drkit import Drkit
from tests.bench.peers.mm2 import MirrorMaker
from tests.bench.peers.replicator import Peer
from tests.bench.report import splice, to_markdown
from tests.bench.results import Results, joined
from tests.bench.scale import QUICK_SIZES, SIZES
from tests.bench.scale_session import SCALE, WORKERS, measure_scale, measure_workers
from tests.bench.scenarios import PACES, SCENARIOS
from tests.bench.session import Plan, Session, clusters
from tests.bench.store import load, save

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
RESULTS: Final = "benchmarks.json"
WARM_UP_SECONDS: Final = 60.0
"""Before a window of latencies opens: compilers of all JVMs have seen the work by then."""
EPOCH_SECONDS: Final = 90.0
"""drkit's epochs in the latency runs, a third of its default: several of their ends are in the window."""
ENDS: Final = 3
START: Final = "start"
"""Its name in ``--only``."""
OWN: Final = (FAILOVER, SWITCH, RETURN, LOST, STANDBY, DRILL, SCALE, WORKERS)
"""Each has clusters of its own."""
ALL: Final = (*(scenario.key for scenario in SCENARIOS), "latency", START, *PARTS, *OWN)
RATES: Final = [str(pace.per_second) for pace in PACES]


def main(arguments: Sequence[str]) -> int:
    """Measure and report; 1 when a run gave no figure."""
    options = _options(arguments)
    java, classpath = str(find_java()), jars.classpath(progress=_tell, modules=jars.MIRROR_MAKER)
    plan = _plan(options, {"mm2": MirrorMaker(java, classpath), "drkit": Drkit()})
    folder = Path(options.keep or tempfile.mkdtemp(prefix="drkit-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    page = _Page(options, plan, facts(java, classpath), folder)
    wanted, results, at = options.only.split(","), Results(), folder.resolve()
    if set(wanted) - set(OWN):
        with clusters(_tell) as (source, target):
            session = Session(plan, source, target, at, _tell, results)
            session.measure(lambda: page.keep(results))
            if START in wanted:
                session.measure_starts()
                page.keep(results)
            for part in wanted:
                if part in PARTS:
                    PARTS[part](GroupSession(session))
                    page.keep(results)
    own = {
        FAILOVER: lambda: measure_failovers(results, at, _tell, rounds=plan.rounds, quick=plan.quick),
        SWITCH: lambda: measure_switchovers(results, at, _tell),
        RETURN: lambda: measure_returns(results, at, _tell),
        STANDBY: lambda: measure_takeovers(results, at, _tell, rounds=plan.rounds),
        DRILL: lambda: measure_drills(results, at, _tell, rounds=plan.rounds, quick=plan.quick),
        LOST: lambda: measure_lost_primaries(results, _tell, rounds=plan.rounds),
        SCALE: lambda: measure_scale(
            results, at, _tell, options.topics, partial(page.keep, results), quick=plan.quick
        ),
        WORKERS: lambda: measure_workers(results, at, _tell, rounds=plan.rounds, quick=plan.quick),
    }
    for part, measure in own.items():
        if part in wanted:
            measure()
            page.keep(results)
    sys.stdout.write(page.tables)
    _tell(f"figures and logs are in {folder}")
    return int(page.failed)


class _Page:
    """Where the figures go: a folder always, ``docs/`` when asked."""

    def __init__(self, options: Namespace, plan: Plan, machine: dict[str, str], folder: Path) -> None:
        self._machine = machine | {
            "rounds": str(plan.rounds),
            "mode": "quick" if plan.quick else "full",
            "drkit's epochs in latency runs": f"{plan.epoch_seconds:.0f} s",
        }
        self._docs = DOCS if options.write else None
        self._old = load(DOCS / RESULTS) if options.write and not plan.quick else Results()
        self._folder = folder
        self.tables = ""
        self.failed = False

    def keep(self, measured: Results) -> None:
        """Write what was measured so far; scenarios not measured now stay as an earlier run left them."""
        results = joined(self._old, measured)
        self.tables = to_markdown(self._machine, results)
        self.failed = measured.failed
        save(self._folder / RESULTS, self._machine, results)
        if self._docs:
            page = self._docs / "benchmarks.md"
            page.write_text(splice(page.read_text(), self.tables))
            save(self._docs / RESULTS, self._machine, results)


def _options(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, short windows")
    parser.add_argument("--only", default=",".join(ALL), help=f"some of {','.join(ALL)}")
    parser.add_argument("--peers", default="mm2,drkit", help="some of mm2,drkit")
    parser.add_argument("--rounds", type=int, help="default 3, quick 1")
    parser.add_argument("--window", type=float, help="seconds of each latency measurement")
    parser.add_argument(
        "--paces",
        default=",".join(RATES),
        help=f"records per second of the latency runs, some of {','.join(RATES)}",
    )
    sizes = f"default {_all(SIZES)}, quick {_all(QUICK_SIZES)}"
    parser.add_argument("--topics", help=f"sizes of {SCALE}, {sizes}")
    parser.add_argument("--epoch-seconds", type=float, help="drkit's epochs in the latency runs")
    parser.add_argument("--keep", help="folder for configurations, logs and the JSON file")
    parser.add_argument(
        "--write", action="store_true", help="write docs/benchmarks.* also after a partial run"
    )
    options = parser.parse_args(arguments)
    given = options.topics or _all(QUICK_SIZES if options.quick else SIZES)
    options.topics = [int(topics) for topics in given.split(",")]
    unknown = set(options.only.split(",")) - set(ALL)
    if unknown:
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    if set(options.paces.split(",")) - set(RATES):
        parser.error(f"the paces are {', '.join(RATES)}")
    options.write |= not options.quick and options.only == ",".join(ALL) and options.peers == "mm2,drkit"
    return options


def _all(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _plan(options: Namespace, peers: dict[str, Peer]) -> Plan:
    wanted, quick = options.only.split(","), options.quick
    epoch = options.epoch_seconds or (6.0 if quick else EPOCH_SECONDS)
    warm_up = min(epoch + 10, WARM_UP_SECONDS)
    return Plan(
        peers=[peers[name] for name in options.peers.split(",")],
        scenarios=[scenario for scenario in SCENARIOS if scenario.key in wanted],
        paces=[p for p in PACES if "latency" in wanted and str(p.per_second) in options.paces.split(",")],
        rounds=options.rounds or (1 if quick else 3),
        quick=quick,
        window_seconds=options.window or ENDS * epoch + 10,
        warm_up_seconds=warm_up,
        epoch_seconds=epoch,
        delay_seconds=20.0 if quick else 60.0,
    )


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
