"""A fatal error of the client, which librdkafka raises amid other callbacks: nothing may break."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, Producer
import pytest

from drkit.client import FailoverProducer
from tests.support.client.sending import Reports, names, send
from tests.support.client.world import World, quiet
from tests.support.waiting import wait_until

RECORDS = 50


@pytest.fixture
def fenced(world: World) -> FailoverProducer:
    """A transactional producer that another of its id has fenced before its records were on their way."""
    world.create()
    out = FailoverProducer({"log_level": 0, "transactional.id": world.topic}, endpoint=world.path)
    out.init_transactions(30)
    out.begin_transaction()
    other = Producer(quiet(world.primary, transactional_id=world.topic))
    other.init_transactions(30)
    return out


def test_it_goes_to_the_new_cluster_all_the_same(world: World, fenced: FailoverProducer):
    told = Reports()
    sent = _sent(fenced, world, told)
    wait_until(lambda: _is_dead(fenced))
    world.lead_to(world.standby, fenced)
    wait_until(lambda: _aborted(fenced))
    fenced.begin_transaction()
    send(fenced, world, told, names(RECORDS, RECORDS))
    fenced.commit_transaction(30)
    fenced.close(10)
    assert sorted(v for v, _ in told.failed) == sorted(sent)
    assert sorted(told.done) == sorted(names(RECORDS, RECORDS))


def _sent(out: FailoverProducer, world: World, told: Reports) -> list[str]:
    """Records that it took before it knew that it is fenced."""
    for count, name in enumerate(names(0, RECORDS)):
        try:
            send(out, world, told, [name])
        except KafkaException as error:
            # What `produce` raises has the code alone, and does not say of itself that it is fatal.
            told_fatal = error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL
            if not (count and told_fatal):
                raise
            return names(0, count)
    return names(0, RECORDS)


def _is_dead(out: FailoverProducer) -> bool:
    """Whether the client knows; its callbacks have not been served yet."""
    try:
        out.list_topics(timeout=5)
        out._sending.client.begin_transaction()
    except KafkaException as error:
        return bool(error.args[0].fatal())
    return False


def _aborted(out: FailoverProducer) -> bool:
    try:
        out.abort_transaction(30)
    except KafkaException:
        return False
    return True


def test_each_record_is_reported_while_the_error_is_raised(world: World, fenced: FailoverProducer):
    """As by the plain client, whose callback is called all the same."""
    told = Reports()
    sent = _sent(fenced, world, told)
    with pytest.raises(KafkaException) as caught:
        fenced.flush(30)
    assert caught.value.args[0].fatal()
    fenced.close(1)
    assert sorted(v for v, _ in told.failed) == sorted(sent)
    assert len(fenced) == 0
