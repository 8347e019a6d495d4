"""The flow's state topic is deleted on the new primary: nobody is called active by what is missing."""

from __future__ import annotations

import pytest

from drkit.flow_state.names import state_topic
from tests.support.failback.dying_pair import DyingPair

pytestmark = pytest.mark.wide


def test_in_the_second_round_nothing_closes_the_live_primary(lab: DyingPair) -> None:
    topic, side = lab.there.name("t"), lab.there
    lab.begin([topic])
    lab.lose_primary([topic])
    there, home = side.settings.flows[0].name, lab.home()
    side.delete(side.target, state_topic(side.source.alias))
    [found] = lab.topics_of_status(there)
    assert (found["state"], found["active"]) == ("unknown", side.target.alias), found
    assert "journal" in found["why"]
    assert not found["alarms"] if "alarms" in found else found["alarm"] is None
    for words in (["fence", "pay"], ["fence", "pay", "--dry-run"]):
        paid = lab.command(*words, "--flow", home, *([] if "--dry-run" in words else ["--yes"]))
        assert (paid.code, paid.error) == (3, "state_younger"), paid
        assert "delete nothing" in paid.err
    for flow, words in ((home, ["failover", "--all"]), (there, ["failover", "--all"])):
        refused = lab.command(*words, "--flow", flow, "--accept-data-loss", "burnt", "--yes")
        assert (refused.code, refused.error) == (3, "state_younger"), refused
    assert lab.accepts(side, topic, ["a client"], on_target=True)
