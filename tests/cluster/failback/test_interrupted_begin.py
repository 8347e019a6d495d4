"""BEGIN breaks off between two changes, without a journal entry; then it continues, or is rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import shlex
from typing import Any

import pytest

from drkit.errors import Refused
from drkit.failover.loss.divergence import divergence
from drkit.failover.returning.deciding import Undecided
from drkit.flow_state.records import IncompleteRecord, TailRecord, UnreplayedRecord
from drkit.flow_state.topic import StateTopic
from drkit.journal.machine import StepName
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from drkit.local.cluster import LocalCluster
from tests.support.errors import coded, sentence
from tests.support.failback.broken_off import RELEASE, SEED, broken_off
from tests.support.failback.crossed import contents
from tests.support.failback.pair import CUT
from tests.support.failback.tail import Case, DeadPrimary, dead_primary
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import written
from tests.support.shared_clusters import ModuleClusters

DAY = "86400000"
KEPT_A_DAY = {"retention.ms": DAY}


@pytest.fixture
def home(module_cluster: ModuleClusters, target: LocalCluster, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    cases = {
        "resumed": Case(tail=0, settings=KEPT_A_DAY),
        "aborted": Case(tail=0, settings=KEPT_A_DAY),
        "asked": Case(tail=0, method="rebuild", settings=KEPT_A_DAY),
        "emptied": Case("replay", tail=6, settings=KEPT_A_DAY),
        "thrown": Case("discard", tail=6, settings=KEPT_A_DAY),
        "appended": Case("replay", tail=6, settings=KEPT_A_DAY),
    }
    with dead_primary(primary, target, tmp_path, cases) as found:
        yield found


@pytest.mark.wide
@pytest.mark.timeout(900)
def test_what_began_has_its_settings_and_what_is_left_is_said(home: DeadPrimary, tmp_path: Path) -> None:
    resumed, aborted, asked, emptied, thrown, appended = home.topics
    broken_off(home, tmp_path, resumed, RELEASE)
    with home.side.desk() as desk:
        assert desk.resume(home.request(tmp_path, [resumed]))["state"] == "done"
    assert _retention(home, resumed) == DAY

    broken_off(home, tmp_path, aborted, RELEASE)
    report = _aborted(home)
    assert _retention(home, aborted) == DAY
    assert "1 topic begun, and copied on" in report["next"][0]

    broken_off(home, tmp_path, asked, SEED)
    _aborted(home)
    with home.side.desk() as desk:  # the method is not asked for again
        request = home.request(tmp_path, [asked])._replace(methods={})
        assert desk.begin_return(request, topics=[asked])["state"] == "done"

    broken_off(home, tmp_path / "first", emptied, SEED)
    saved = home.side.run_log().results[StepName.EXPORT]["evidence"]
    report = _aborted(home)
    assert "is incomplete: emptied" in report["next"][0]
    assert f"not replayed: drkit replay --from {saved['manifest']} --topic {emptied}" in report["next"][0]
    _says_who_deleted(home, emptied)
    _is_given_up(home, tmp_path, emptied, saved["manifest"])
    _is_not_replayed_by_a_return(home, tmp_path, emptied, saved["manifest"])
    home.cases[emptied] = Case(tail=6, settings=KEPT_A_DAY)
    broken_off(home, tmp_path / "again", emptied, RELEASE)
    with home.side.desk() as desk:
        done = desk.resume(home.request(tmp_path / "again", [emptied]))
    [notes] = [s["notes"] for s in done["steps"] if s["step"] == StepName.DECIDE]
    assert any(f"drkit replay --from {saved['manifest']}" in note for note in notes), notes
    assert any(note.startswith("given up (ticket 4711), no disposition") for note in notes), notes
    tail, incomplete = _on_record(home, emptied)
    assert incomplete is None
    assert (tail.manifest, tail.sha256) == (saved["manifest"], saved["sha256"])
    assert _retention(home, emptied) == DAY
    for topic in (thrown, appended):
        _is_decided_again(home, tmp_path / topic, topic)
    home.turned()
    home.copied_back()
    assert home.same_on_both() > 100


def _is_decided_again(home: DeadPrimary, folder: Path, topic: str) -> None:
    """What an aborted return has emptied, and was to append or to discard, is for the next one to decide."""
    broken_off(home, folder, topic, SEED)
    saved = home.side.run_log().results[StepName.EXPORT]["evidence"]["manifest"]
    assert f"the export stays: {saved}; the next return decides" in " ".join(_aborted(home)["next"])
    broken_off(home, folder / "twice", topic, SEED)  # it decides about the export of the first one
    _aborted(home)
    _is_planned(home, folder, topic)
    request = home.request(folder / "again", [topic])
    with home.side.desk() as desk:
        with pytest.raises(Undecided) as caught:
            desk.begin_return(request._replace(dispositions={}), topics=[topic])
        number = sum(map(len, home.tails[topic].values()))
        assert caught.value.topics == {topic: number}
        again = request._replace(dispositions={topic: "quarantine"})
        report = desk.begin_return(again, topics=[topic])
    assert report["state"] == "done"
    [notes] = [s["notes"] for s in report["steps"] if s["step"] == StepName.DECIDE]
    assert not any("not replayed" in note for note in notes), notes
    apart = home.side.records(home.side.target, f"{topic}.divergent.{home.term}")
    assert {p: contents(r) for p, r in apart.items() if r} == {
        p: contents(records) for p, records in home.tails[topic].items()
    }


def _is_planned(home: DeadPrimary, folder: Path, topic: str) -> None:
    """The plan counts what an export alone has; its command has what was said, and names what is missing."""
    file, flow = written(home.side, folder), home.side.settings.flows[0].name
    number = sum(map(len, home.tails[topic].values()))
    plan = drkit(file, "reprotect", "--flow", flow, "--plan", "--topic", topic).data
    assert (
        f'--topic {topic} --clients-cut "HOW"'
        f" --disposition '{topic}=discard|replay|quarantine'"
        ' --reason "WHY"' in plan["next"][0]
    )
    assert [(t["only_old"], t["exported"]) for t in plan["topics"]] == [(0, number)]
    assert any("in an export alone" in line for line in plan["asked"]), plan["asked"]
    said = ("--topic", topic, "--clients-cut", CUT, "--disposition", f"{topic}=quarantine", "--reason", "why")
    plan = drkit(file, "reprotect", "--flow", flow, "--plan", *said).data
    assert shlex.split(plan["next"][0])[-len(said) :] == list(said)
    assert plan["asked"] == []


def _says_who_deleted(home: DeadPrimary, topic: str) -> None:
    """What a return has emptied is not said to be removed by retention."""
    with home.side.desk() as desk:
        found = divergence(desk.context_outside_run(), topics=[topic])
    gone = [t for t in found.tails if t.emptied]
    assert sum(t.emptied for t in gone) == sum(map(len, home.tails[topic].values()))
    assert not any(t.removed for t in found.tails)
    assert all("which was aborted, has emptied it up to" in t.why for t in gone)
    assert not found.is_clean


def _is_given_up(home: DeadPrimary, folder: Path, topic: str, manifest: str) -> None:
    """What was to be replayed is given up by name and reason; that is on record."""
    file = written(home.side, folder)
    flow = home.side.settings.flows[0].name
    other = ("--from", "/other/manifest.json", "--flow", flow)
    refused = drkit(file, "replay", *other, "--give-up", "why", "--yes")
    assert refused.code == 3, refused
    assert manifest in refused.err
    said = drkit(file, "replay", "--from", manifest, "--give-up", "ticket 4711", "--yes")
    assert said.code == 0, said
    with StateTopic(home.side.target, home.side.source.alias) as state:
        state.load()
        [record] = state.all(UnreplayedRecord).values()
    assert (record.ended, record.reason, record.disposition) == ("given up", "ticket 4711", "replay")
    assert record.records == sum(map(len, home.tails[topic].values()))


def _is_not_replayed_by_a_return(home: DeadPrimary, folder: Path, topic: str, manifest: str) -> None:
    """A disposition of records that were given up is refused before the return begins."""
    for said in ("replay", "quarantine"):
        request = home.request(folder, [topic])._replace(dispositions={topic: said})
        with home.side.desk() as desk, pytest.raises(Refused, check=coded("given_up")) as caught:
            desk.begin_return(request, topics=[topic])
        number = sum(map(len, home.tails[topic].values()))
        assert f"{topic}: {number} records of" in caught.value.evidence
        assert caught.value.evidence.endswith(": ticket 4711")
        with home.side.desk() as desk:
            assert desk.under_way is None
    assert f"drkit replay --from {manifest} --topic {topic} --sha256 " in caught.value.hint
    assert "--to-quarantine" in caught.value.hint
    file = written(home.side, folder)
    flow = home.side.settings.flows[0].name
    possible = drkit(file, "replay", "--from", manifest, "--topic", topic, "--flow", flow, "--dry-run")
    assert possible.code == 0, possible
    choice = ("--clients-cut", CUT, "--disposition", f"{topic}=replay")
    plan = drkit(file, "reprotect", "--flow", flow, "--plan", "--topic", topic, *choice).data
    assert any(f"would not begin: {sentence('given_up')}" in a for a in plan["asked"]), plan


def _aborted(home: DeadPrimary) -> dict[str, Any]:
    with home.side.desk() as desk:
        report = desk.abort("for the test")
    assert report["state"] == "aborted"
    return report


def _on_record(home: DeadPrimary, topic: str) -> tuple[TailRecord, IncompleteRecord | None]:
    with StateTopic(home.side.target, home.side.source.alias) as state:
        state.load()
        found = state.get(TailRecord, topic)
        assert found is not None
        return found, state.get(IncompleteRecord, topic)


def _retention(home: DeadPrimary, topic: str) -> str | None:
    return topic_configs(Cluster.connect(home.side.source), [topic])[topic]["retention.ms"].value
