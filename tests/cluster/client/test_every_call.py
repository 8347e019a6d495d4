"""Each call of the two clients: what it does when the endpoint changes while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
import re
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
import pytest

from drkit.client import EndpointMoved, FailoverConsumer, FailoverProducer
from drkit.client import consumer as consumers
from drkit.client import producer as producers
from drkit.repoint.file import EndpointFile
from tests.support.client.calls import InThreads, endpoint, silence
from tests.support.client.world import World
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs/how-to/clients.md"
AT = [TopicPartition("t", 0, 3)]
CONSUMER = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
WAITING_QUESTIONS = {
    "commit": lambda c: c.commit(offsets=AT, asynchronous=False),
    "committed": lambda c: c.committed(AT),
    "cluster_id": lambda c: c.cluster_id(),
    "get_watermark_offsets": lambda c: c.get_watermark_offsets(AT[0]),
    "list_topics": lambda c: c.list_topics(),
    "offsets_for_times": lambda c: c.offsets_for_times(AT),
}
"""Of a consumer: they raise EndpointMoved."""
FOLLOWING = {"poll", "consume", "close"}
LOCAL = {
    "assign": lambda c: c.assign(AT),
    "incremental_assign": lambda c: c.incremental_assign([TopicPartition("t", 1, 3)]),
    "assignment": lambda c: c.assignment(),
    "position": lambda c: c.position(AT),
    "pause": lambda c: c.pause(AT),
    "resume": lambda c: c.resume(AT),
    "seek": lambda c: c.seek(AT[0]),
    "store_offsets": lambda c: c.store_offsets(offsets=AT),
    "memberid": lambda c: c.memberid(),
    "consumer_group_metadata": lambda c: bool(c.consumer_group_metadata()),
    "set_sasl_credentials": lambda c: c.set_sasl_credentials("me", "secret"),
    "incremental_unassign": lambda c: c.incremental_unassign([TopicPartition("t", 1)]),
    "unassign": lambda c: c.unassign(),
    "subscribe": lambda c: c.subscribe(["t"]),
    "unsubscribe": lambda c: c.unsubscribe(),
}
"""Of a consumer, in an order that makes sense: librdkafka answers them by itself."""
OF_PRODUCER = {
    "abort_transaction", "begin_transaction", "close", "cluster_id", "commit_transaction", "flush",
    "init_transactions", "list_topics", "poll", "produce", "produce_batch", "purge",
    "send_offsets_to_transaction", "set_sasl_credentials",
}  # fmt: skip


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.fixture
def silent() -> Iterator[str]:
    with silence() as address:
        yield address


@pytest.fixture
def path(tmp_path: Path, silent: str) -> Path:
    file = tmp_path / "endpoint.json"
    EndpointFile(file).tell(endpoint(silent, 1, "primary"))
    return file


@pytest.mark.wide
@pytest.mark.parametrize(
    ("library", "ours", "at_once", "known"),
    [
        (Consumer, FailoverConsumer, consumers.AT_ONCE, WAITING_QUESTIONS.keys() | LOCAL.keys() | FOLLOWING),
        (Producer, FailoverProducer, producers.AT_ONCE, OF_PRODUCER),
    ],
)
def test_no_method_of_the_library_is_forgotten(
    library: type, ours: type, at_once: frozenset[str], known: set[str]
):
    """A method is passed on only if it returns at once; drkit implements and documents all others."""
    special = {"__len__", "__bool__", "__enter__", "__exit__"} & set(dir(library))
    assert not {name for name in public(library) - at_once | special if not hasattr(ours, name)}
    assert at_once <= public(library)
    assert not {name for name in at_once if hasattr(ours, name)}
    assert public(library) == known, "a new method: find out whether it waits, and write a test"
    rows = PAGE.read_text(encoding="utf-8").partition("## Calls while the endpoint changes")[2]
    named = set(re.findall(r"`(\w+)[(`]", "".join(r.split("|")[1] for r in rows.splitlines() if "|" in r)))
    assert not public(library) - named, "not in the table of docs/how-to/clients.md"


@pytest.mark.wide
def test_what_is_not_known_is_not_passed_on(path: Path):
    with FailoverConsumer(CONSUMER, endpoint=path) as reader, FailoverProducer({}, endpoint=path) as out:
        for client in (reader, out):
            with pytest.raises(AttributeError, match="has no 'wait_for_ever'"):
                _ = client.wait_for_ever
        assert out, "as the plain producer, also while nothing is queued"


@pytest.mark.wide
def test_a_consumers_calls_end_when_the_endpoint_changes(world: World, silent: str):
    """They raise and nothing goes to the new cluster; `poll` reads on there."""
    world.fill(5)
    world.place_group(2)
    world.lead_to(world.primary, bootstrap_servers=silent)
    config = {**CONSUMER, "group.id": world.group}
    calls = InThreads()
    reader = FailoverConsumer(config, endpoint=world.path)
    closing = FailoverConsumer(config, endpoint=world.path)
    reader.subscribe([world.topic])
    closing.subscribe([world.topic])
    assert closing.poll(0.2) is None
    for name, call in WAITING_QUESTIONS.items():
        calls.start(name, lambda call=call: call(reader))  # type: ignore[misc]
    world.lead_to(world.standby)
    calls.start("close", closing.close)
    assert calls.all_end() == {"close": None} | dict.fromkeys(WAITING_QUESTIONS, EndpointMoved)
    for error in calls.errors.values():
        assert "clients go to standby (term 3): nothing of this call was sent there; call poll" in str(error)
    assert reader.endpoint.cluster == "primary", "the polling thread alone goes to another cluster"
    message = reader.poll(30)
    assert message is not None
    assert message.value() == b"v2"
    assert world.committed(world.standby) == 2
    assert reader.committed([TopicPartition(world.topic, 0)], 20)[0].offset == 2
    assert reader.cluster_id(20) == world.standby.cluster_id
    assert world.topic in reader.list_topics(timeout=20).topics
    assert reader.get_watermark_offsets(TopicPartition(world.topic, 0), 20) == (0, 5)
    reader.close()
    reader.close()
    with pytest.raises(RuntimeError, match="closed"):
        reader.poll(0)


@pytest.mark.wide
def test_a_call_with_a_timeout_keeps_it(path: Path):
    """As confluent-kafka's own: the endpoint has not changed, and the cluster does not answer."""
    calls = InThreads()
    with FailoverConsumer(CONSUMER, endpoint=path) as reader:
        calls.start("committed", lambda: reader.committed(AT, timeout=0.3))
        calls.start("list_topics", lambda: reader.list_topics(timeout=0.3))
        calls.start("cluster_id", lambda: reader.cluster_id(timeout=0.3))
        calls.all_end()
    assert not isinstance(calls.errors["committed"], EndpointMoved)


@pytest.mark.wide
def test_what_librdkafka_answers_by_itself_needs_no_cluster(path: Path):
    """Also while another thread waits for the cluster."""
    calls, waiting = InThreads(), InThreads()
    reader = FailoverConsumer(CONSUMER, endpoint=path)
    waiting.start("committed", lambda: reader.committed(AT))
    wait_until(lambda: reader._calls._asking)
    for name, call in LOCAL.items():
        calls.start(name, lambda call=call: call(reader))  # type: ignore[misc]
        calls.all_end(10)
    assert not waiting.ended
    threading.Thread(target=reader.close, daemon=True).start()


def test_a_producers_calls_continue_at_the_new_cluster(world: World, silent: str):
    world.create()
    world.lead_to(world.primary, bootstrap_servers=silent)
    calls, told = InThreads(), list[Any]()
    plain = FailoverProducer({"log_level": 0}, endpoint=world.path)
    asking = FailoverProducer({"log_level": 0}, endpoint=world.path)
    transactional = FailoverProducer({"log_level": 0, "transactional.id": world.topic}, endpoint=world.path)
    plain.produce(world.topic, "v0", on_delivery=lambda error, _message: told.append(error))
    calls.start("flush", plain.flush)
    calls.start("list_topics", lambda: world.topic in asking.list_topics().topics)
    calls.start("cluster_id", asking.cluster_id)
    calls.start("init_transactions", transactional.init_transactions)
    world.lead_to(world.standby)
    assert calls.all_end() == {
        "flush": 0,
        "list_topics": True,
        "cluster_id": world.standby.cluster_id,
        "init_transactions": None,
    }
    assert told == [None]
    transactional.begin_transaction()
    transactional.commit_transaction(20)
    for out in (plain, asking, transactional):
        out.close()
        out.close()
        with pytest.raises(KafkaException, match="closed"):
            out.produce(world.topic, "lost")
    assert world.values(world.standby) == ["v0"]


@pytest.mark.wide
def test_an_endpoint_for_which_no_client_can_be_made_is_not_followed(
    path: Path, silent: str, caplog: pytest.LogCaptureFixture
):
    """The application continues; `on_revoke` is not called, and a corrected file is followed."""
    broken = endpoint(silent, 2, "standby", client={"socket.timeout.ms": "soon"})
    with FailoverConsumer(CONSUMER, endpoint=path) as reader, FailoverProducer({}, endpoint=path) as out:
        EndpointFile(path).tell(broken)
        assert reader.poll(0.3) is None
        assert reader.poll(0.3) is None
        assert out.poll(0.3) == 0
        assert reader.endpoint.cluster == out.endpoint.cluster == "primary"
        said = [r.getMessage() for r in caplog.records if "not followed" in r.getMessage()]
        assert len(said) == 2, "each client says it once"
        assert "no client can be made for standby: KafkaError{code=_INVALID_ARG" in said[0]
        EndpointFile(path).tell(replace(broken, client={}))
        assert reader.poll(0.3) is None
        out.poll(0.3)
        assert reader.endpoint.cluster == out.endpoint.cluster == "standby"
