"""What `drkit watch` says of a flow that was promoted, from its pair. No clusters."""

from __future__ import annotations

from dataclasses import replace

from drkit.pair.view import FenceSeen
from drkit.status.pair.judge import judge
from drkit.status.protection import since_promoted
from tests.support.status.pair_facts import RPO, TOPIC, back, direction, promoted, returned, status


def test_of_two_promoted_flows_the_one_that_clients_left_last_is_told_from_the_other():
    """There and back: the return of the first promotion has begun, that of the second has not."""
    first = direction(running=False, promoted=promoted("f1", at_ms=1))
    second = back(
        promoted=promoted("r1", at_ms=2), returns=returned("f1"), copies={TOPIC: TOPIC},
        fences={TOPIC: FenceSeen.PENDING},
    )  # fmt: skip
    forth = replace(status("promoted"), pair=judge(first, second, RPO))
    both_open, clients = since_promoted(forth)
    assert both_open == "BOTH OPEN 1 topic (orders): s answers, and is not fenced since the failover"
    assert clients.startswith("clients write 1 topic (orders) on p again, by a later promotion: its return")
    home = replace(status("promoted"), flow="s->p", source="s", target="p", pair=judge(second, first, RPO))
    assert since_promoted(home) == (both_open,)
    assert since_promoted(replace(forth, role="replicating")) == ()
    assert since_promoted(replace(forth, pair=None)) == ()
