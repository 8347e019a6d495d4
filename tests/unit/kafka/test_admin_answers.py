"""Admin calls that come to no end: an error like any other, never a thread that dies of it."""

from __future__ import annotations

from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
import pytest

from drkit.config import ClusterSettings
from drkit.errors import ClusterUnreachable, NotAuthorized
from drkit.kafka import admin
from drkit.kafka.access.acls import _error
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import _change

UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster without a server."""
    monkeypatch.setattr(admin, "CALL_SECONDS", 0.01)
    settings = ClusterSettings(alias="standby", bootstrap_servers="127.0.0.1:1")
    client = AdminClient({"bootstrap.servers": settings.bootstrap_servers, "log_level": 0})
    return Cluster(settings, client, "id", [])


def ended(error: int | None = None) -> Future[str]:
    future: Future[str] = Future()
    if error is None:
        future.set_result("done")
    else:
        future.set_exception(KafkaException(KafkaError(error)))
    return future


def test_no_answer_is_said_as_such(cluster: Cluster):
    for ask in (
        lambda: cluster.wait(Future(), "describe a topic", "orders"),
        lambda: cluster.refused_with(UNKNOWN, Future(), "describe a topic", "orders"),
    ):
        with pytest.raises(ClusterUnreachable) as caught:
            ask()
        assert caught.value.where == "standby: orders"
        assert "no answer" in caught.value.evidence
        assert "drkit config check --connect" in caught.value.hint


def test_one_error_of_kafka_is_distinguished_from_all_others(cluster: Cluster):
    assert cluster.refused_with(UNKNOWN, ended(UNKNOWN), "describe a topic")
    assert not cluster.refused_with(UNKNOWN, ended(KafkaError.TOPIC_AUTHORIZATION_FAILED), "describe a topic")
    assert not cluster.refused_with(UNKNOWN, ended(), "describe a topic")


def test_one_topic_without_an_answer_does_not_affect_the_others(cluster: Cluster):
    futures = {"silent": Future[str](), "gone": ended(UNKNOWN), "fine": ended()}
    weights = dict.fromkeys(futures, 1)
    failed = _change(cluster, lambda *_, **__: futures, "delete a topic", weights, UNKNOWN)
    assert failed.keys() == {"silent"}
    assert isinstance(failed["silent"], ClusterUnreachable)


def test_a_refused_acl_is_named_by_its_error_alone():
    """A broker's text is its request object: 3,012 characters were seen."""
    dump = "Request Request(processor=0, connectionId=127.0.0.1:33829-127.0.0.1:37166-0-3, " * 30
    refused = _error("standby", "ALLOW User:app ALL on group *", 31, dump, "ALTER")
    assert isinstance(refused, NotAuthorized)
    assert refused.evidence == "error 31: CLUSTER_AUTHORIZATION_FAILED"
    assert _error("standby", "ALLOW", 42, "an odd request", "ALTER").evidence == "error 42: an odd request"
