"""What a watching process serves, from moments made by hand; and the commands' own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.cli import main as cli
from drkit.config.tables.metrics import OWN_LABELS
from drkit.detect.seen import Address, Probe, ProbeOutcome, Sight
from drkit.detect.verdict import VerdictKind
from drkit.watch.board import TABLE, WatchBoard
from drkit.watch.observer import Moment
from tests.support.errors import sentence
from tests.support.watch.moments import moment

PROBES = {Address("own", "h:1", 0): Probe(ProbeOutcome.REFUSED, 0.0, 0.1), Address("own", "h:2", 1): None}


LOST = moment(Sight.GONE, phi=20.0, gone_for=9.0)


def board(*moments: Moment) -> WatchBoard:
    return WatchBoard(lambda: [(m, PROBES) for m in moments])


def test_every_metric_is_served():
    text = board(LOST).metrics().decode()
    assert [name for name in TABLE if f"# HELP {name} " not in text] == []
    for line in (
        'drkit_verdict{reason="confirmed",source="a",target="b",verdict="LOST"} 1.0',
        'drkit_verdict_level{source="a",target="b"} 4.0',
        'drkit_address_well{listener="own",server="h:1",source="a",target="b"} 0.0',
        'drkit_votes{says="gone",source="a",target="b"} 1.0',
        'drkit_failover_risk_seconds{source="a",target="b"} 2.5',
        'drkit_target_findings{finding="disk_low",source="a",target="b"} 1.0',
    ):
        assert line in text
    assert 'server="h:2"' not in text  # it was not probed yet


def test_labels_of_the_user_never_meet_those_of_drkit():
    assert {label for labels, _ in TABLE.values() for label in labels} - {"says", "listener", "server"} <= {
        *OWN_LABELS, "finding",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sight", "healthy"),
    [(Sight.CLEAR, True), (Sight.FADING, True), (Sight.PARTIAL, False), (Sight.GONE, False)],
)
def test_health_is_the_verdict_too(sight: Sight, *, healthy: bool):
    found, told = board(moment(sight, phi=0.1)).health()
    assert found is healthy
    assert told["flows"]["a->b"]["verdict"]
    assert (told["flows"]["a->b"]["health"] == "ok") is healthy, "what says 503 says why"
    metrics = board(moment(sight, phi=0.1)).metrics().decode()
    assert f'drkit_flow_healthy{{source="a",target="b"}} {float(healthy)}' in metrics or healthy


def test_what_is_posted_says_what_a_failover_asks():
    told = LOST.as_dict()
    assert LOST.verdict.kind is VerdictKind.LOST
    assert (told["lost_at_ms"], told["source_last_seen_ms"]) == (1000 - 9000, 900)
    assert (told["risk_seconds"], told["risk_if_dead_seconds"]) == (2.5, 1.5), "both numbers are shown"
    assert (told["dead_since_ms"], told["copied_ms"]) == (None, 800), "nothing proves that it is dead"
    assert told["votes"][0]["observer"] == "o1"
    assert told["runbook"] == ""
    assert moment(Sight.FEW).as_dict()["runbook"] == "runbooks/hold-brokers-lost.md"
    assert moment(Sight.CLEAR).as_dict()["lost_at_ms"] is None


def test_a_pending_fence_is_posted_and_is_evidence():
    told = moment(Sight.CLEAR, promoted=True, fence_owed="run r1 left it pending; drkit fence pay").as_dict()
    assert told["reason"] == "promoted"
    assert told["fence_owed"] in told["evidence"][0]
    assert moment(Sight.CLEAR, promoted=True).as_dict()["evidence"] == ["broker 0: nothing listens"]


def test_of_a_promoted_flow_the_alarms_of_its_pair_and_where_clients_write_are_evidence():
    told = moment(Sight.CLEAR, promoted=True, since_promoted=("BOTH OPEN 1 topic",)).as_dict()
    assert told["evidence"][0] == "BOTH OPEN 1 topic"
    assert "drkit status says where clients write" in told["next"]


def test_an_agent_without_a_command_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = tmp_path / "drkit.toml"
    config.write_text(
        '[clusters.a]\nbootstrap_servers = "a:1"\n[clusters.b]\nbootstrap_servers = "b:1"\n'
        '[[flows]]\nsource = "a"\ntarget = "b"\n'
    )
    assert cli.run(["fence-agent", "--config", str(config)]) == 2
    assert "fence_agent.command" in capsys.readouterr().err


def test_nothing_to_watch_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = tmp_path / "drkit.toml"
    config.write_text('[clusters.a]\nbootstrap_servers = "a:1"\n')
    assert cli.run(["watch", "--once", "1", "--config", str(config)]) == 2
    assert sentence("no_flow_to_watch") in capsys.readouterr().err


@pytest.mark.parametrize("words", [["watch"], ["watch", "pause"], ["watch", "acknowledge"], ["fence-agent"]])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert cli.run([*words, "--help"]) == 0
    assert "--flow" in capsys.readouterr().out
