"""A topic of drkit on the new primary is back from an older disk, with the same id: it has no failover."""

from __future__ import annotations

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.names import journal_topic, state_topic
from drkit.flow_state.records import LeaseRecord
from drkit.flow_state.topic import StateTopic
from drkit.kafka.admin import Cluster
from drkit.replicate.flow_run import InternalTopics
from tests.support.errors import coded
from tests.support.failback.dying_pair import DyingPair
from tests.support.failover.command import drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.orchestrator_parent import AFTER
from tests.support.failover.settings_file import toml
from tests.support.flows.kept_folder import KeptFolder
from tests.support.waiting import eventually

pytestmark = pytest.mark.wide
YOUNGER = coded("state_younger")


class OlderTopic:
    """A topic on the standby, as it was when it was kept."""

    def __init__(self, lab: DyingPair, topic: str, name: str) -> None:
        self._lab, self._topic = lab, topic
        self._disk = KeptFolder(lab.standby.brokers[0], f"{name}-0")

    def keep(self) -> None:
        self._while_down(self._disk.keep)

    def put_back(self) -> None:
        self._while_down(self._disk.put_back)

    def _while_down(self, change: object) -> None:
        side = self._lab.there
        self._lab.standby.kill()
        change()  # type: ignore[operator]
        self._lab.standby.restart()
        eventually(lambda: side.offsets(side.target, self._topic), what="an answer of the standby")


def copied(lab: DyingPair) -> str:
    topic, side = lab.there.name("t"), lab.there
    side.create(side.source, topic, 1, {"retention.ms": "-1"})
    lab.write(side, topic, "a", 50)
    side.replicate()
    side.copied([topic])
    side.protected([topic])
    return topic


def test_an_older_state_is_not_believed(lab: DyingPair) -> None:
    topic, side = copied(lab), lab.there
    side.stop_replicating()
    older = OlderTopic(lab, topic, state_topic(side.source.alias))
    older.keep()
    lab.primary.kill()
    with side.desk() as desk:
        assert desk.begin([], RunRequest(accept_data_loss="dead"))["state"] == "done"
    assert lab.accepts(side, topic, ["d"], on_target=True)
    older.put_back()
    lab.primary.restart()
    eventually(lambda: side.offsets(side.source, topic), what="an answer of the old primary")

    flow = side.settings.flows[0].name
    [found] = lab.topics_of_status(flow)
    assert (found["state"], found["active"]) == ("unknown", side.target.alias), found
    for words in (["fence", "pay", "--yes"], ["failover", "--all", "--planned", "--yes"]):
        refused = lab.command(*words, "--flow", flow)
        assert (refused.code, refused.error) == (3, "state_younger"), refused
    with StateTopic(side.target, side.source.alias) as state:
        state.load()
        with pytest.raises(Refused, check=YOUNGER):
            InternalTopics(Cluster.connect(side.target), side.settings.flows[0], state)


def test_by_an_older_journal_a_run_is_neither_aborted_nor_resumed(lab: DyingPair) -> None:
    topic, side = copied(lab), lab.there
    with Orchestrators() as orchestrators:
        request = RunRequest(planned=True).to_json()
        kill = Kill("DRAIN  intent", AFTER)
        assert orchestrators.run(side.plain(), "begin", groups=[], request=request, kill=kill).killed
    side.stop_replicating()
    older = OlderTopic(lab, topic, journal_topic(side.source.alias))
    older.keep()
    before = side.state().get(LeaseRecord.KEY)
    side.replicate()
    eventually(lambda: side.state().get(LeaseRecord.KEY) not in (None, before), 30, side.said)
    with side.desk() as desk:
        assert desk.resume(RunRequest())["state"] == "done"
    side.stop_replicating()
    older.put_back()

    plain = side.plain()
    plain["failover"]["journal_folder"] = str(lab.folder / "another machine")
    file = lab.folder / "another.toml"
    file.write_text(toml(plain))
    words = ["failover", "--flow", side.settings.flows[0].name, "--take-over"]
    refused = drkit(file, *words, "--abort")
    assert (refused.code, refused.error) == (3, "journal_older"), refused
    assert not lab.accepts(side, topic, ["two sides"]), "the old primary is fenced"
    for more, answer in (([], (3, "journal_older")), (["--accept-data-loss", "checked"], (0, ""))):
        resumed = drkit(file, *words, "--resume", *more)
        assert (resumed.code, resumed.error) == answer, resumed
    assert resumed.data["state"] == "done"
    assert lab.accepts(side, topic, ["the new primary"], on_target=True)
