"""The pure parts of the benchmark: process accounting, percentiles, ratios, tables."""

from __future__ import annotations

import os

from tests.bench.clocks import Sample, foreign_share
from tests.bench.latency import Latency, percentile
from tests.bench.process_tree import Process, ProcessTree, family, parse_stat
from tests.bench.report import BEGIN, END, PacedRun, Run, ratios, splice, to_markdown, with_sums
from tests.bench.scenarios import PACES, SCENARIOS
from tests.bench.store import joined, load, save
from tests.bench.throughput import Throughput

SCENARIO = SCENARIOS[0]


def process(pid: int, parent: int, started: int = 1) -> Process:
    return Process(pid, parent, "x", 0, started, 0)


def result(records: int, seconds: float, cpu: float) -> Throughput:
    return Throughput(
        records,
        seconds,
        cpu,
        broker_cpu_seconds=1.0,
        foreign_cpu_share=0.0,
        startup_seconds=9.0,
        tree_bytes=0,
        jvm_bytes=0,
        worker_bytes=0,
    )


def test_a_process_name_may_hold_spaces_and_parentheses():
    fields = " ".join(["S", "7", *["0"] * 9, "10", "20", "3", "4", *["0"] * 4, "99", "0", "2"])
    parsed = parse_stat(f"42 (a) b (c)) {fields} 0 0")
    assert (parsed.pid, parsed.parent, parsed.name) == (42, 7, "a) b (c)")
    assert (parsed.ticks, parsed.started) == (37, 99)
    assert parsed.resident_bytes == 2 * os.sysconf("SC_PAGE_SIZE")


def test_a_family_keeps_orphans_and_leaves_reused_process_ids_out():
    table = {
        p.pid: p for p in (process(1, 0), process(5, 1), process(6, 5), process(8, 1), process(9, 1, 77))
    }
    members = family(table, {5: 1, 8: 1, 9: 1})
    assert [p.pid for p in members] == [5, 6, 8]


def test_our_own_tree_uses_cpu_and_memory():
    tree = ProcessTree(os.getpid())
    tree.sample_memory()
    assert tree.cpu_seconds() > 0
    assert tree.memory.tree > 0


def test_percentiles_are_nearest_rank():
    values = [float(n) for n in range(1, 1001)]
    assert [percentile(values, share) for share in (0.5, 0.99, 0.999, 1.0)] == [500.0, 990.0, 999.0, 1000.0]
    assert percentile([3.0], 0.5) == 3.0


def test_strangers_are_what_nobody_known_used():
    first = Sample(at=0.0, cpu=1.0, brokers=1.0, own=1.0, busy=10.0)
    last = Sample(at=10.0, cpu=6.0, brokers=3.0, own=2.0, busy=20.0)
    assert foreign_share(first, last, cores=2) == 0.1


def test_ratios_are_taken_within_a_round():
    runs = [
        Run(SCENARIO, "mm2", 1, result(100, 10.0, 8.0)),
        Run(SCENARIO, "drkit", 1, result(100, 2.0, 1.0)),
        Run(SCENARIO, "mm2", 2, result(100, 20.0, 8.0)),
        Run(SCENARIO, "drkit", 2, None, failure="it died"),
    ]
    found = ratios(runs, SCENARIO, "drkit", "mm2", lambda r: r.per_second)
    assert found is not None
    assert found.middle == found.low == found.high == 5.0
    text = to_markdown({"cores": "2"}, runs, [])
    assert "5.0×" in text
    assert "- (a) drkit, round 2: no figure, it died" in text


def test_both_parts_of_a_common_goal_are_added_up_round_by_round():
    other = SCENARIOS[1]
    runs = [
        Run(SCENARIO, "drkit", 1, result(100, 10.0, 8.0)),
        Run(other, "drkit", 1, result(300, 2.0, 1.0)),
        Run(SCENARIO, "drkit", 2, result(100, 10.0, 8.0)),
        Run(other, "drkit", 2, None, failure="it died"),
    ]
    found = with_sums(runs)
    assert [run.scenario.key for run in found] == ["a", "a", "b", "b", "a+b"]
    total = found[-1].result
    assert total is not None
    assert (found[-1].round, total.records, total.seconds, total.cpu_seconds) == (1, 400, 12.0, 9.0)
    assert total.per_second == 400 / 12.0


def test_saved_runs_come_back_and_give_way_to_newer_ones(tmp_path):
    runs = [
        Run(SCENARIO, "mm2", 1, result(100, 10.0, 8.0)),
        Run(SCENARIOS[1], "mm2", 1, None, failure="died"),
    ]
    paced = [PacedRun(PACES[0], "mm2", Latency(5, 0, 1.0, 2.0, 3.0, 4.0, 0.0, 1, 1))]
    save(tmp_path / "runs.json", {}, runs, paced)
    old = load(tmp_path / "runs.json")
    assert old == (runs, paced)
    newer = Run(SCENARIO, "drkit", 1, None)
    assert joined(old, ([newer], [])) == ([newer, runs[1]], paced)


def test_tables_replace_only_what_is_between_the_markers():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert splice(page, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
