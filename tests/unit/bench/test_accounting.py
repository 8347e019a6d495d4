"""The pure parts of the benchmark: process accounting, percentiles, ratios, tables."""

from __future__ import annotations

from array import array
from dataclasses import replace
import os
import random

from drkit.model import TopicPartition
from tests.bench.clocks import Sample, foreign_share
from tests.bench.detection import DetectionRun
from tests.bench.drills import BubbleRun, Window, window
from tests.bench.failovers import FailoverRun
from tests.bench.groups import GroupRound, SyncDelay
from tests.bench.latency import Latency, percentile
from tests.bench.lost_primary import LostPrimaryRun, StartUp
from tests.bench.offset_map import MapCost
from tests.bench.positions import Truth
from tests.bench.process_tree import Process, ProcessTree, family, parse_stat
from tests.bench.repointing import Moved
from tests.bench.report import BEGIN, END, ratios, splice, to_markdown, with_sums
from tests.bench.report_scale import growth
from tests.bench.results import CostRun, PacedRun, Results, Run, joined
from tests.bench.scale import BROKERS, COMMANDS, ROLES, ScaleRun
from tests.bench.scale_model import ModelRun
from tests.bench.scenarios import PACES, SCENARIOS
from tests.bench.store import load, save
from tests.bench.throughput import Throughput
from tests.bench.workers import WorkersRun

SCENARIO = SCENARIOS[0]

BUBBLE = BubbleRun(
    1, "pass", "", 41.0, {"GATE": 2.0}, Window(9, 1.0, 10.0, 3.0, 20.0), Window(9, 1.0, 11.0, 3.0, 25.0)
)
LOST = LostPrimaryRun(6.0, 1.2, {"OPEN": 0.3, "VERIFY": 0.2}, 0.9, 0.1, 3.0, 9.0, 1.5, "abc1234")


def process(pid: int, parent: int, started: int = 1) -> Process:
    return Process(pid, parent, "x", 0, started, 0)


def sized(topics: int, figure: float) -> ScaleRun:
    """A run of one size, with one figure everywhere."""
    used = dict.fromkeys((*ROLES, *BROKERS), figure)
    memory, commands = dict.fromkeys(ROLES, int(figure) << 20), dict.fromkeys(COMMANDS, figure)
    return ScaleRun(
        topics, 2 * topics, 2 * topics, figure, figure, figure, figure, memory, used, used, figure, figure,
        figure, commands, commands, 0.5,
    )  # fmt: skip


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


def test_foreign_cpu_time_is_what_no_known_process_used():
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
    text = to_markdown({"cores": "2"}, Results(runs))
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
    measured = Results(
        runs,
        paced,
        [GroupRound(500, 1, 12_000, 2.0, 3.0, 1.0, 0.5, 0.5, 0, 0.0)],
        [SyncDelay(500, 5.0, 100, 0, 3.0, 6.0, 7.0, 0.0)],
        [MapCost(1000, 1, 24_000, 30_000, 0.1, 1.0, 1.0, 2.0)],
        [CostRun(checkpoints=True, groups=500, round=1, result=result(100, 10.0, 8.0))],
        failovers=[FailoverRun("killed", 20, 3.0, 5.0, {"OPEN": 0.5}, 0)],
        detections=[DetectionRun("killed", 8.0, 9.0)],
        repoints=[Moved("killed", "Java", None, 1, gap=False)],
        lost=[LOST],
        bubbles=[BUBBLE],
        starts=[StartUp("dry run", 0.8, 1.1)],
        scale=[sized(250, 3.0)],
        workers=[WorkersRun(2, 1, 1000.0, 1e6, 0.5, 0.7, 0.1)],
        models=[ModelRun(2000, {"plan": 0.5}, {"all leases": 5000})],
    )
    save(tmp_path / "runs.json", {}, measured)
    old = load(tmp_path / "runs.json")
    assert old == measured
    newer = Run(SCENARIO, "drkit", 1, None)
    assert joined(old, Results([newer])) == replace(measured, runs=[newer, runs[1]])


def test_groups_have_tables_of_their_own():
    runs = [
        CostRun(checkpoints=on, groups=500, round=n, result=result(100, seconds, 8.0), share=0.05)
        for n, on, seconds in ((1, False, 9.0), (1, True, 10.0), (2, True, 3.0))
    ]
    rounds = [GroupRound(2000, n, 48_000, s, 3.0, 1.0, 0.5, 0.5, n, 0.0) for n, s in ((1, 4.0), (2, 6.0))]
    text = to_markdown({}, Results(rounds=rounds, costs=runs, failures=["map: no figure, gone"]))
    assert "| 2,000 | 48,000 | 5.0 (4.0–6.0) | < 10 |" in text
    assert "| 3 |" in text  # wrong offsets add up
    assert "| 500 | 5% |" in text
    assert "| 10% |" in text  # only of rounds with both sides
    assert "- map: no figure, gone" in text


def test_a_lost_primary_has_its_stages_and_says_where_it_was_measured():
    text = to_markdown(
        {}, Results(lost=[LOST, replace(LOST, total=13.0)], starts=[StartUp("dry run", 0.8, 1.1)])
    )
    assert "| OPEN | 0.3 |" in text
    assert "| kill to first record | 11.0 (9.0–13.0) | < 12 |" in text
    assert "| whole command | 3.0 | < 5 |" in text
    assert "abc1234 at load 1.5" in text
    assert "| dry run | 0.80 | < 1.0 | 1.10 |" in text


def test_a_bubble_is_compared_with_the_time_before_it():
    text = to_markdown({}, Results(bubbles=[BUBBLE]))
    assert "| 1 | pass | 41.0 | 10.0 | 11.0 | 10% | 20.0 | 25.0 | 25% |" in text
    acked = array("q", (x for second in range(10) for x in (second * 10**9, second * 10**9 + 5_000_000)))
    assert window(acked, acked, 2.0, 6.0) == Window(4, 5.0, 5.0, 5.0, 5.0)


def test_failovers_have_tables_of_their_own():
    found = Results(
        failovers=[FailoverRun("killed", 1000, s, 9.0, {"OPEN": 0.5}, 1) for s in (3.0, 5.0)],
        detections=[DetectionRun("killed", 8.0, 9.0), DetectionRun("killed", 8.0, 13.0)],
        repoints=[
            Moved("killed", "FailoverConsumer, classic", 0.4, 0, gap=False),
            Moved("killed", "Java", None, 2, gap=False),
            Moved("killed", "Java", 3.0, 0, gap=True),
        ],
    )
    text = to_markdown({}, found)
    assert "| killed | 1,000 | 4.0 (3.0–5.0) | < 30 |" in text
    assert text.split("| killed | 1,000 |")[1].split("\n")[0].endswith("| 2 |"), "wrong positions add up"
    assert "| killed | 2 | 8.0 | 11.0 (9.0–13.0) | < 12 |" in text
    assert "| FailoverConsumer, classic | < 2 | 0.4 |" in text
    assert "| Java |  | 3.0, 1 of 2 never, 2 repeated, gap |" in text


def test_sizes_are_side_by_side_with_the_power_by_which_a_figure_grows():
    text = to_markdown({}, Results(scale=[sized(1000, 16.0), sized(250, 1.0)]))
    assert "| topics / partitions / groups | 250 / 500 / 500 | 1,000 / 2,000 / 2,000 |" in text
    assert "| memory of tasks, PSS: MiB | 1 | 16 | 2.0 |" in text
    assert "| at rest, source broker: CPU s a minute | 1.0 | 16.0 | 2.0 |" in text
    assert "| `drkit status`: CPU s | 1.0 | 16.0 | 2.0 |" in text
    assert growth(3.0, 12.0, 4.0) == 1.0
    assert "| 250 |" not in to_markdown({}, Results(scale=[sized(250, 1.0)]))


def test_what_is_computed_without_a_cluster_grows_in_a_table_of_its_own():
    runs = [ModelRun(n, {"plan": n / 1e6}, {"all leases": n * n}) for n in (1000, 10_000)]
    text = to_markdown({}, Results(models=runs))
    assert "| plan | 1.0 ms | 10.0 ms | 1.0 |" in text
    assert "| all leases | 1,000 kB | 100,000 kB | 2.0 |" in text


def test_copies_by_more_tasks_have_a_row_for_each_number():
    runs = [WorkersRun(tasks, n, 1000.0 * tasks, 1e6, 0.5, 0.75, 0.1) for tasks in (1, 2) for n in (1, 2)]
    text = to_markdown({}, Results(workers=runs))
    assert "| 2 | 2,000 | 1 | 0.50 | 0.75 | 10 |" in text


def test_truth_distinguishes_a_skip_and_a_repeat_from_the_same_next_record():
    truth = Truth({0: [0, 1, 5, 6]}, {0: [2, 3, 4, 8]})
    assert [truth.is_exact(0, 5, t) for t in (3, 4, 5)] == [False, True, False]
    assert [truth.is_exact(0, 3, t) for t in (3, 4)] == [False, True]
    assert [truth.is_exact(0, 7, t) for t in (8, 9, 20)] == [False, True, True]
    at = TopicPartition("t", 0)
    assert truth.wrong({"g": {at: 5}, "h": {at: 6}}, {"g": {at: 4}}) == 1
    moved = truth.elsewhere(0, 5, random.Random(1))
    assert not truth.is_exact(0, moved, 4)


def test_tables_replace_only_what_is_between_the_markers():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert splice(page, "new\n") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
