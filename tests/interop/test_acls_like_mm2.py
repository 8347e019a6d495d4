"""ACLs that the real MirrorMaker 2 makes, those that drkit makes of the same source, and each difference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from drkit.kafka.access.acls import delete_acls, list_acls
from drkit.local.cluster import LocalCluster, start_together
from drkit.local.spec import ADMIN, ClusterSpec
from drkit.topology.acls import Acl
from tests.support.mm2.mirror_maker import mirror_maker
from tests.support.topic_sync.acl_world import World, connect
from tests.support.waiting import eventually

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/acls.md"
PROPERTIES: Final = """\
clusters = {alias}, standby
{alias}.bootstrap.servers = {source}
standby.bootstrap.servers = {target}
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{user}" password="{password}";
{alias}->standby.enabled = true
{alias}->standby.topics = {tag}-.*
standby->{alias}.enabled = false
standby->{alias}.emit.heartbeats.enabled = false
replication.factor = 1
refresh.topics.interval.seconds = 1
sync.topic.acls.interval.seconds = 1
emit.checkpoints.enabled = false
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
standby.plugin.discovery = service_load
"""


class Three:
    """A source, a target for MirrorMaker 2 and one for drkit, all of them locked."""

    def __init__(self) -> None:
        self.source, self.theirs, self.ours = (
            LocalCluster(ClusterSpec(name, sasl=True, authorizer=True, mechanisms=("PLAIN",)))
            for name in ("source", "mm2", "drkit")
        )


@pytest.fixture
def three() -> Iterator[Three]:
    made = Three()
    with ExitStack() as stack:
        for each in (made.source, made.theirs, made.ours):
            stack.callback(each.stop)
        start_together(made.source, made.theirs, made.ours)
        yield made


def properties(three: Three, world: World, folder: Path) -> Path:
    user = three.source.client_properties(ADMIN, "PLAIN")
    file = folder / "mm2.properties"
    file.write_text(
        PROPERTIES.format(
            alias=world.source.alias, tag=world.tag, source=three.source.bootstrap(),
            target=three.theirs.bootstrap(), user=user["sasl.username"], password=user["sasl.password"],
        )
    )  # fmt: skip
    return file


def on_the_source(world: World, orders: str) -> list[Acl]:
    acl = world.acl
    return [
        *(acl(orders, o, "User:app") for o in ("READ", "WRITE", "DESCRIBE")),
        acl(orders, "ALL", "User:etl"),
        acl(orders, "ALTER_CONFIGS", "User:ops"),
        *(acl(orders, o, "User:intern", deny=True) for o in ("READ", "WRITE")),
        acl(world.name(""), "READ", "User:analyst", prefixed=True),
        acl(world.name("group"), "READ", "User:app", kind="GROUP"),
        acl("elsewhere", "READ", "User:app"),
    ]


@pytest.mark.wide
def test_what_mm2_makes_drkit_makes_and_each_difference_is_on_the_page(three: Three, tmp_path: Path):
    """P13: the same ACLs as MirrorMaker 2, but for the differences that docs/how-to/acls.md tells."""
    world = World(three.source, three.ours)
    theirs = connect(three.theirs, "theirs", ADMIN)
    orders, copy = world.topic("orders"), f"{world.source.alias}.{world.name('orders')}"
    acl, below = world.acl, f"{world.source.alias}.{world.name('')}"
    gone = acl(orders, "READ", "User:leaver")
    world.give(0, gone, *on_the_source(world, orders))
    shared = {
        *(acl(copy, o, "User:app") for o in ("READ", "DESCRIBE")),
        acl(copy, "READ", "User:etl"),
        *(acl(copy, o, "User:intern", deny=True) for o in ("READ", "WRITE")),
    }
    of_mm2 = {acl(copy, "ALTER_CONFIGS", "User:ops"): "ALLOW CREATE, DELETE, ALTER, ALTER_CONFIGS"}
    of_drkit = {
        acl(copy, "DESCRIBE_CONFIGS", "User:etl"): "ALLOW ALL",
        acl(below, "READ", "User:analyst", prefixed=True): "patterns",
        acl(world.name("group"), "READ", "User:app", kind="GROUP"): "resources",
    }
    with mirror_maker(properties(three, world, tmp_path)) as mm2:
        sync = world.sync(naming="prefix")
        sync.look([orders])

        def made_by_mm2() -> set[Acl]:
            mm2.check()
            return {a for a in list_acls(theirs.settings).acls if world.tag in a.name}

        left = acl(copy, "READ", "User:leaver")
        eventually(lambda: made_by_mm2() >= shared | {left}, 60, "the ACLs of MirrorMaker 2")
        assert made_by_mm2() == shared | {left} | set(of_mm2)
        assert world.has() == shared | {left} | set(of_drkit)

        # Deleted on the source: MirrorMaker 2 only creates. A later ACL shows that it has looked again.
        assert delete_acls(world.admins[0].settings, [gone]) == {}
        later = acl(copy, "READ", "User:later")
        world.give(0, acl(orders, "READ", "User:later"))
        sync.look([orders])
        eventually(lambda: later in made_by_mm2(), 30, "MirrorMaker 2's next look")
        assert left in made_by_mm2()
        assert world.has() == shared | {later} | set(of_drkit)
    world.state.close()
    rows = {line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| ")}
    assert {*of_mm2.values(), *of_drkit.values(), "ACL deleted on the source"} <= rows
