"""A return is held between two topics, and what the next one needs is changed: it is not emptied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drkit.errors import Failed, Refused
from drkit.failover.core.context import StepProgress
from tests.support.errors import coded, made
from tests.support.failback.tail import PARTITIONS, Case, DeadPrimary, dead_primary
from tests.support.failover.truth import values
from tests.support.flows.produce import fill
from tests.support.shared_clusters import ModuleClusters

REFUSED = {
    "anew": "promoted_topic_recreated",
    "gone": "promoted_topic_recreated",
    "left": "reverse_flow_excludes",
    "purged": "rebuild_loses_history",
    "compacted": "keep_compacted",
}
"""What happens to a topic while its return is held, and the code of the refusal."""
KEPT = Case("replay", "keep")
CASES = {
    name: KEPT if t == "compacted" else Case("discard", "rebuild") for t in REFUSED for name in (f"{t}-0", t)
}


@pytest.fixture
def home(module_cluster: ModuleClusters, tmp_path: Path) -> Iterator[DeadPrimary]:
    primary = module_cluster("primary")
    with dead_primary(primary, module_cluster("standby"), tmp_path, CASES) as found:
        yield found


@pytest.mark.wide
def test_what_changed_on_the_new_primary_is_not_copied_over_the_only_copy(
    home: DeadPrimary, tmp_path: Path
) -> None:
    side = home.side
    for name, code in REFUSED.items():
        begun, topic = side.name(f"{name}-0"), side.name(name)
        fill(side.target, topic, 30, first=7000)  # so it is the second one
        request = home.request(tmp_path / "saved", [begun, topic])
        with side.desk(tell=_ends_before(topic)) as desk, pytest.raises(Failed, match="went away"):
            desk.begin_return(request, topics=[begun, topic])
        before = {p: values(r) for p, r in side.records(side.source, topic).items()}
        assert all(before.values())
        _change(home, name)
        with side.desk() as desk, pytest.raises(Refused, check=coded(code)) as caught:
            desk.resume(request)
        assert "--abort" in caught.value.hint or name != "compacted", "what is decided stays so"
        assert {p: values(r) for p, r in side.records(side.source, topic).items()} == before, name
        with side.desk() as desk:
            assert desk.abort("for the test")["state"] == "aborted"
        home.back.flow_fields.pop("topics_exclude", None)
        emptied = not any(map(values, side.records(side.source, begun).values()))
        assert emptied or CASES[name] is KEPT, "this one has begun"


def _ends_before(topic: str) -> Callable[[StepProgress], None]:
    def tell(progress: StepProgress) -> None:
        if progress.what == f"{topic} begins":
            raise made(Failed, "it went away")

    return tell


def _change(home: DeadPrimary, name: str) -> None:
    side, topic = home.side, home.side.name(name)
    if name in {"anew", "gone"}:
        side.delete(side.target, topic)
    if name == "anew":
        side.create(side.target, topic, PARTITIONS, {"retention.ms": "-1"})
        fill(side.target, topic, 10, first=9000)
    if name == "compacted":
        side.configure(side.target, topic, "cleanup.policy", "compact")
    if name == "left":
        home.back.flow_fields["topics_exclude"] = [topic]
    if name == "purged":
        for partition in range(PARTITIONS):
            side.delete_records(topic, partition, 20, side.target)
