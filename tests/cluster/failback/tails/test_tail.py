"""A killed primary comes home with records of its own, as an operator types it: by each choice, and back.

Every record and every offset is compared; what was decided is on record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drkit.failover.new_primary.hold import HeldTopic
from drkit.failover.watches import HoldWatch
from drkit.flow_state.records import FenceSizesRecord, IncompleteRecord, ReturnRecord, TailRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.lost import violations
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import alter_topic_configs
from drkit.local.cluster import LocalCluster
from drkit.topology.topic_configs import WIDEST
from tests.support.errors import longest_part
from tests.support.failback.crossed import crossed
from tests.support.failback.pair import CUT, Pair
from tests.support.failback.tail import REASON, Case, DeadPrimary
from tests.support.failover.command import Said, drkit
from tests.support.failover.settings_file import written
from tests.support.failover.truth import values
from tests.support.shared_clusters import ModuleClusters
from tests.support.waiting import eventually

DAY_MS = "86400000"
CASES = {
    "thrown": Case("discard"),
    "again": Case("replay", transactions=True),
    "short": Case("replay", "trim"),
    "keys": Case("quarantine", settings={"cleanup.policy": "compact"}),
    "clean": Case(tail=0, settings={"retention.ms": DAY_MS}),
    "both": Case("replay", "keep", transactions=True),
}
FOREVER = {"retention.ms": "-1", "retention.bytes": "-1"}
LAGS = dict.fromkeys(("min.compaction.lag.ms", "max.compaction.lag.ms"), WIDEST)
MINE = "1000000000000"
MORE = {
    "apart": Case("quarantine", "rebuild"),
    "whole": Case(tail=0, method="rebuild"),
    "left": Case("replay", "keep"),
}


class Operator:
    """A person who types: the pair's configuration, and what was said last."""

    def __init__(self, home: DeadPrimary, folder: Path) -> None:
        self.home, self.folder = home, folder
        self.file = written(home.side, folder)
        self.export = folder / "saved"
        self.own: dict[str, dict[str, str]] = {}
        """What the new primary's topics have of their own, without a hold."""

    def types(self, *words: str, code: int = 0) -> Said:
        """Type a command."""
        said = drkit(self.file, *words)
        assert said.code == code, (words, said.code, said.out, said.err)
        return said

    @property
    def choices(self) -> list[str]:
        """What is decided about each topic, as options."""
        cases = self.home.cases.items()
        said = [("--disposition", f"{t}={c.disposition}") for t, c in cases if c.disposition]
        said += [("--method", f"{t}={c.method}") for t, c in cases if c.method]
        return [word for pair in said for word in pair]

    def is_well(self) -> None:
        """``drkit status`` of both flows ends with 0, and no group would read a record again."""
        own, seen = self.home.pair.now.settings.flows[0].name, dict[str, Any]()

        def there() -> bool:
            said = drkit(self.file, "status")
            [flow] = [f for f in said.data["flows"] if f["flow"] == own]
            seen.update(code=said.code, faults=[f["faults"] for f in said.data["flows"]],
                        repeats={g["group"]: g["repeats"] for g in flow["groups"]})  # fmt: skip
            return said.code == 0 and set(seen["repeats"].values()) == {0}

        eventually(there, 60, lambda: str(seen))

    def states(self) -> dict[str, Any]:
        """What ``drkit status`` says of each topic of the pair."""
        said = drkit(self.file, "status", "--flow", self.home.pair.now.settings.flows[0].name)
        [flow] = said.data["flows"]
        found: dict[str, Any] = {t["topic"]: t["state"] for t in flow["pair"]["topics"]}
        return found


@pytest.fixture(params=[CASES, pytest.param(CASES | MORE, marks=pytest.mark.soak)], ids=["a few", "all"])
def home(
    request: pytest.FixtureRequest, module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path
) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    pair = Pair(primary, target, tmp_path / "journal")
    found = DeadPrimary(pair, primary, request.param)
    yield found
    found.close()


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_what_was_decided_is_done(home: DeadPrimary, tmp_path: Path) -> None:
    """P41. Two rounds: the second one fails over from the other side, and returns, as planned."""
    operator = Operator(home, tmp_path)
    home.fall()
    _while_it_is_away(operator)
    home.rise()
    _nothing_is_decided_by_itself(operator)
    report = _decided(operator)
    _is_on_record(home)
    home.copied_back()
    home.nothing_is_lost()
    _is_apart(home)
    assert home.same_on_both() > 200
    home.positions_are_right()
    assert home.reads_are_whole() >= 2 * len(home.groups)
    _has_its_own_back(operator)
    assert report["state"] == "done"
    assert not violations(home.side.run_log())
    _goes_home(operator)


def _while_it_is_away(operator: Operator) -> None:
    plan = operator.types("reprotect", "--plan").data
    assert {t["topic"] for t in plan["topics"]} == set(operator.home.topics)
    assert all(t["only_old"] is None and t["delta"] > 0 and t["unknown"] for t in plan["topics"])
    assert "--plan" in plan["next"][0]
    assert longest_part("cluster_unusable") in operator.types("reprotect", "--yes", code=1).err
    assert plan["rate"]["is_estimate"]
    for t in plan["topics"]:
        sent = {name: cost["bytes"] for name, cost in t["costs"].items()}
        assert 0 < sent["delta"] == sent["trim"] < sent["rebuild"], t
        assert all(cost["seconds"] > 0 for cost in t["costs"].values())
    _keeps_the_delta(operator, plan)


def _keeps_the_delta(operator: Operator, plan: dict[str, Any]) -> None:
    """The new primary keeps everything while the old one is away; a person changes one of the settings."""
    home = operator.home
    limited = {t["topic"] for t in plan["topics"] if t["bound"]["until_ms"] is not None}
    assert limited == {t for t, c in home.cases.items() if c.settings}
    before = home.own_settings(home.side.target)
    would = operator.types("reprotect", "--hold", "--dry-run").data
    assert not would["held"]
    assert home.own_settings(home.side.target) == before
    held = operator.types("reprotect", "--hold", "--yes").data
    assert held["held"]
    now = home.own_settings(home.side.target)
    for topic, case in home.cases.items():
        wanted = LAGS if "cleanup.policy" in case.settings else FOREVER
        assert wanted.items() <= now[topic].items(), topic
    assert {t["topic"]: t["after"] for t in held["topics"]} == {
        t["topic"]: t["after"] for t in would["topics"]
    }
    plan = operator.types("reprotect", "--plan").data
    assert all(t["bound"]["until_ms"] is None and t["bound"]["held_ms"] for t in plan["topics"])
    again = operator.types("reprotect", "--hold", "--yes").data
    assert not any(t["changes"] for t in again["topics"])
    [other, *_] = [t for t, c in home.cases.items() if not c.settings]
    alter_topic_configs(Cluster.connect(home.side.target), {other: {"retention.bytes": MINE}})
    operator.own = {**before, other: {**before[other], "retention.bytes": MINE}}


def _has_its_own_back(operator: Operator) -> None:
    """The flow back has not followed what was held; protected, the new primary has its settings back."""
    home = operator.home
    there = home.own_settings(home.side.source)
    for topic, case in home.cases.items():
        assert case.settings.items() <= there[topic].items(), topic
        assert there[topic].get("retention.bytes") == operator.own[topic].get("retention.bytes"), topic
        assert not LAGS.keys() & there[topic].keys(), topic
    flows = home.back.settings.flows
    watch = HoldWatch(home.back.settings, flows[1], flows[0])
    done: list[HeldTopic] = []

    def ended() -> bool:
        done.extend(watch.look())
        return len(done) == len(home.topics)

    eventually(ended, 30, "the end of the hold")
    assert home.own_settings(home.side.target) == operator.own
    changed = {t.topic: dict(t.changed) for t in done if t.changed}
    assert list(changed.values()) == [{"retention.bytes": MINE}]
    assert watch.look() == []


def _nothing_is_decided_by_itself(operator: Operator) -> None:
    home = operator.home
    plan = operator.types("reprotect", "--plan", "--clients-cut", CUT).data
    tails = {t: sum(map(len, log.values())) for t, log in home.tails.items()}
    assert {t["topic"]: t["only_old"] for t in plan["topics"]} == tails
    refused = operator.types("reprotect", "--clients-cut", CUT, "--yes", code=3)
    assert refused.error == "export_place_missing", refused.err
    export = ("--clients-cut", CUT, "--export-to", str(operator.export))
    refused = operator.types("reprotect", *export, "--yes", code=3)
    assert refused.error == "decision_missing", refused.err
    assert home.side.run_log().opening.get("table") != "return", "it has left no run"
    held = operator.types("reprotect", *export, "--until-export", "--yes", code=3)
    assert (held.data["state"], held.data["held"]["step"]) == ("held", "DECIDE")
    exported = home.side.run_log().results[StepName.EXPORT]["evidence"]
    home.manifest_is_the_truth(exported["manifest"], exported["sha256"])
    now = {t: home.side.records(home.side.source, t) for t in home.topics}
    assert {t: {p: values(r) for p, r in log.items()} for t, log in now.items()} == {
        t: {p: values(r) for p, r in log.items()} for t, log in home.before.items()
    }, "nothing was emptied"


def _decided(operator: Operator) -> dict[str, Any]:
    done: dict[str, Any] = operator.types(
        "reprotect", "--resume", *operator.choices, "--reason", REASON, "--yes"
    ).data
    operator.home.turned()
    there = operator.home.own_settings(operator.home.side.source)
    assert not [t for t, own in there.items() if "retention.bytes" in own], "its own hold is over"
    return done


def _is_on_record(home: DeadPrimary) -> None:
    with StateTopic(home.back.target, home.back.source.alias) as state:
        state.load()
        assert set(state.all(ReturnRecord)) == set(home.topics)
    with StateTopic(home.side.target, home.side.source.alias) as state:
        state.load()
        tails = state.all(TailRecord)
        assert set(tails) == {t for t, c in home.cases.items() if c.tail or c.method}
        assert all((r.disposition or "") == home.cases[t].disposition for t, r in tails.items())
        assert {t for t, r in tails.items() if r.manifest} == {t for t, log in home.tails.items() if log}
        assert not state.all(IncompleteRecord)
        assert state.get(FenceSizesRecord) is None


def _is_apart(home: DeadPrimary) -> None:
    """What is in quarantine is the tail, record by record."""
    for topic, case in home.cases.items():
        if case.disposition == "quarantine":
            [name] = [t for t in home.side.topics_of_target() if t.startswith(f"{topic}.divergent.")]
            assert name == f"{topic}.divergent.{home.term}", "the failover's term, not the return's"
            there = Counter(v for r in home.side.records(home.side.target, name).values() for v in values(r))
            assert there == Counter(v for r in home.tails[topic].values() for v in values(r)), topic


def _goes_home(operator: Operator) -> None:
    """The switchover back finds every position, and the forward direction begins again."""
    home = operator.home
    eventually(lambda: set(operator.states().values()) == {"protected"}, 30, lambda: str(operator.states()))
    operator.is_well()
    back, forward = (s.settings.flows[0].name for s in (home.back, home.side))
    operator.types("failover", "--flow", back, "--all", "--planned", "--clients-cut", CUT, "--yes")
    home.back.stop_replicating()
    done = operator.types("reprotect", "--flow", back, "--clients-cut", CUT, "--yes")
    assert done.data["state"] == "done"
    home.pair.now, home.pair.other = home.side, home.back
    side = home.side
    side.replicate()
    side.copied(home.topics)
    for topic, case in home.cases.items():
        if case.method != "trim":
            theirs, ours = (side.records(c, topic) for c in (side.source, side.target))
            same = Counter if case.method == "keep" else list
            assert {p: same(values(r)) for p, r in theirs.items()} == {
                p: same(values(r)) for p, r in ours.items()
            }, topic
    assert side.exact([t for t, c in home.cases.items() if c.method not in {"trim", "keep"}]) > 200
    assert sum(crossed(side, t) for t, c in home.cases.items() if c.method == "keep") > 100
    eventually(lambda: set(operator.states().values()) == {"protected"}, 30, lambda: str(operator.states()))
    assert forward != back
    operator.is_well()
