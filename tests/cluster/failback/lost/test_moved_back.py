"""The new primary dies, and clients move back: what was left of the first failover moves nothing.

The state on the cluster that was dead has the older promotion as the newest one, and its journal a run that
was left. Either would fence the cluster that clients write to, and empty it.
"""

from __future__ import annotations

import pytest

from drkit.failover.core.request import RunRequest
from drkit.failover.returning.pre_delete_checks import PreDeleteChecks
from tests.support.failback.dying_pair import DyingPair
from tests.support.failback.pair import CUT
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.failover.settings_file import toml
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide
LOST = 30
"""Records that clients wrote to the new primary alone."""
COPIED = 240
"""Records that both clusters had when the primary died."""


def moved_back(lab: DyingPair, topic: str) -> Said:
    """Let the new primary die, open the old one, write there, and start the other one again."""
    home = lab.home()
    lab.standby.kill()
    opened = lab.command("failover", "--flow", home, "--all", "--accept-data-loss", "burnt", "--yes")
    assert opened.code == 0, opened.err
    lab.write(lab.there, topic, "later", 5)
    lab.standby.restart()
    eventually(lambda: lab.there.offsets(lab.there.target, topic), what="an answer of the other cluster")
    return opened


def returned(lab: DyingPair, *more: str) -> Said:
    there, export = lab.there.settings.flows[0].name, str(lab.folder / "export")
    given = ["--disposition", "*=discard", "--reason", "a test", "--export-to", export, "--clients-cut", CUT]
    return lab.command("reprotect", "--flow", there, *(more or (*given, "--yes")))


def left_before_replay(lab: DyingPair, topic: str) -> None:
    """A return is killed when it has only the replay of its export to do."""
    request = RunRequest(
        clients_cut=CUT, dispositions={"*": "replay"}, reason="a test", export_to=str(lab.folder / "export")
    )
    with Orchestrators() as orchestrators:
        left = orchestrators.run(
            lab.there.plain(), "return", request=request.to_json(), kill=Kill("REPLAY  intent", AFTER)
        )
    assert left.killed, left.error
    lab.there.opposite.replicate()
    lab.there.opposite.copied([topic])


def is_untouched(lab: DyingPair, topic: str, before: list[bytes | None]) -> None:
    """Clients write to the old primary, and it has every record."""
    side = lab.there
    assert [s.value for s in side.records(side.source, topic)[0]] == before
    assert lab.accepts(side, topic, ["still here"])


def test_a_return_of_the_older_failover_is_refused(lab: DyingPair) -> None:
    topic, side = lab.there.name("t"), lab.there
    lab.begin([topic])
    lab.lose_primary([topic])
    paid = lab.command("fence", "pay", "--flow", side.settings.flows[0].name, "--yes")
    assert paid.code == 0, paid.err
    moved_back(lab, topic)
    before = [s.value for s in side.records(side.source, topic)[0]]
    refused = returned(lab)
    assert (refused.code, refused.error) == (3, "nothing_to_protect"), refused
    assert f"moved clients back to {side.source.alias}" in refused.err
    is_untouched(lab, topic, before)


@pytest.mark.parametrize(
    ("word", "at"),
    [
        ("--resume", "DEMOTE  intent"),
        ("--abort", "DEMOTE  intent"),
        ("--resume", "BEGIN  intent"),
        ("--resume", "BEGIN empty {} result"),
    ],
)
def test_a_return_that_was_left_ends(lab: DyingPair, word: str, at: str) -> None:
    """Nothing is deleted of what clients wrote since, and what was emptied before is in the stated loss."""
    topic, side = lab.there.name("t"), lab.there
    lab.begin([topic])
    lab.lose_primary([topic])
    request = RunRequest(
        clients_cut=CUT, dispositions={"*": "discard"}, reason="a test", export_to=str(lab.folder / "export")
    )
    with Orchestrators() as orchestrators:
        left = orchestrators.run(
            side.plain(), "return", request=request.to_json(), kill=Kill(at.format(topic), AFTER)
        )
    assert left.killed, left.error
    kept = [s.value for s in side.records(side.source, topic)[0]]
    assert bool(kept) is ("empty" not in at)
    loss = moved_back(lab, topic).data["loss"]
    before = [s.value for s in side.records(side.source, topic)[0]]
    assert before[: len(kept)] == kept
    assert loss["records"] is None or loss["records"] >= LOST + (0 if kept else COPIED), loss
    ended = returned(lab, word)
    assert (ended.code, ended.data["state"]) == (0, "aborted"), ended
    assert lab.home() in str(ended.data["next"]), "what makes the other cluster the standby"
    is_untouched(lab, topic, before)


def test_a_failover_that_was_left_after_open_ends(lab: DyingPair) -> None:
    topic, side = lab.there.name("t"), lab.there
    lab.begin([topic])
    lab.write(side, topic, "c", 20)
    side.replicate()
    side.copied([topic], {lab.group: None})
    side.protected([topic])
    with Orchestrators() as orchestrators:
        request = RunRequest(accept_data_loss="a test").to_json()
        left = orchestrators.run(
            side.plain(), "begin", groups=[], request=request, kill=Kill("VERIFY  intent", AFTER)
        )
    assert left.killed, left.error
    side.stop_replicating()
    moved_back(lab, topic)
    before = [s.value for s in side.records(side.source, topic)[0]]
    ended = lab.command("failover", "--flow", side.settings.flows[0].name, "--resume")
    assert (ended.code, ended.data["state"]) == (0, "aborted"), ended
    is_untouched(lab, topic, before)


def test_a_failover_while_the_export_is_read_keeps_what_it_opens(
    lab: DyingPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that does not reach the new primary opens the old one, which a return is about to empty."""
    topic, side, opened, saved = lab.there.name("t"), lab.there, list[Said](), PreDeleteChecks.saved
    lab.begin([topic])
    lab.lose_primary([topic])
    plain = side.plain() | {"failover": {"journal_folder": str(lab.folder / "elsewhere")}}
    plain["clusters"][side.target.alias]["bootstrap_servers"] = "127.0.0.1:1"
    file = lab.folder / "elsewhere.toml"
    file.write_text(toml(plain), encoding="utf-8")

    def fail_over(checks: PreDeleteChecks, name: str) -> None:
        saved(checks, name)
        words = ("--all", "--accept-data-loss", "it does not answer", "--yes")
        opened.append(opened[0] if opened else drkit(file, "failover", "--flow", lab.home(), *words))

    monkeypatch.setattr(PreDeleteChecks, "saved", fail_over)
    refused = returned(lab)
    assert (opened[0].code, opened[0].data["state"]) == (0, "done"), opened[0]
    assert (refused.code, refused.error) == (3, "old_primary_takes_writes"), refused
    assert len(side.records(side.source, topic)[0]) == COPIED + 10
    assert lab.accepts(side, topic, ["clients are here"])


def test_a_switchover_waits_for_the_replay_of_a_return_that_was_left(lab: DyingPair) -> None:
    topic, side = lab.there.name("t"), lab.there
    lab.begin([topic])
    lab.lose_primary([topic])
    left_before_replay(lab, topic)
    switch = ["failover", "--flow", lab.home(), "--all", "--planned", "--yes"]
    refused = lab.command(*switch)
    assert (refused.code, refused.error) == (3, "opposite_run"), refused
    assert f"--flow '{side.settings.flows[0].name}' --resume" in refused.err
    ended = returned(lab, "--resume")
    assert (ended.code, ended.data["state"]) == (0, "done"), ended
    side.opposite.copied([topic])
    side.opposite.protected([topic])
    assert lab.command(*switch).code == 0
    values = [s.value for s in side.records(side.source, topic)[0]]
    assert sum(value.startswith(b"tail") for value in values if value) == 10


def test_what_a_return_had_left_to_replay_is_named_after_clients_moved_back(lab: DyingPair) -> None:
    topic, side = lab.there.name("t"), lab.there
    lab.begin([topic])
    lab.lose_primary([topic])
    left_before_replay(lab, topic)
    side.opposite.stop_replicating()
    moved_back(lab, topic)
    ended = returned(lab, "--resume")
    assert (ended.code, ended.data["state"]) == (0, "aborted"), ended
    assert "in the export alone, not replayed" in ended.err
    [left] = [r for key, r in side.state().items() if key.startswith("unreplayed/")]
    assert (left["records"], left["disposition"]) == (10, "replay")
