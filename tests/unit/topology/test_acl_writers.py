"""Who may write to a topic, as its ACLs say."""

from __future__ import annotations

import pytest

from drkit.topology.acl_scope import ANY_CLIENT, UNKNOWN, refuses_clients, writers
from drkit.topology.acls import EVERYBODY, Acl
from tests.support.topology.acl_samples import OWN, US, acl

TOPIC = "drkit-state.primary.internal"


@pytest.mark.parametrize(("is_open", "who"), [(True, (ANY_CLIENT,)), (None, (UNKNOWN,)), (False, ())])
def test_without_an_acl_it_is_a_matter_of_the_cluster(*, is_open: bool | None, who: tuple[str, ...]):
    assert (
        writers(TOPIC, [acl("orders", "WRITE"), acl(TOPIC, "ALL", kind="GROUP")], US, is_open=is_open) == who
    )


@pytest.mark.parametrize(
    ("acls", "who"),
    [
        ([acl(TOPIC, "WRITE")], ["User:app"]),
        ([acl(TOPIC, "ALL", "User:etl")], ["User:etl"]),
        ([acl(TOPIC, "WRITE", host="10.0.0.1")], ["User:app from 10.0.0.1"]),
        ([acl("*", "WRITE")], ["User:app, by topic *"]),
        ([acl("drkit-", "ALL", prefixed=True)], ["User:app, by topic drkit-*"]),
        ([acl("*", "WRITE", EVERYBODY)], ["every client that can log in (User:*), by topic *"]),
        ([acl(TOPIC, "WRITE", OWN), acl(TOPIC, "READ")], []),
        ([acl("*", "WRITE"), acl(TOPIC, "WRITE", deny=True)], []),
        ([acl("*", "WRITE"), acl("drkit-", "ALL", EVERYBODY, prefixed=True, deny=True)], []),
        ([acl("*", "WRITE"), acl(TOPIC, "WRITE", deny=True, host="10.0.0.1")], ["User:app, by topic *"]),
        ([acl("*", "WRITE"), acl(TOPIC, "READ", deny=True)], ["User:app, by topic *"]),
    ],
)
def test_principals_are_listed_with_what_lets_them_in(acls: list[Acl], who: list[str]):
    assert list(writers(TOPIC, acls, US, is_open=True)) == who


@pytest.mark.parametrize(
    ("acls", "refuses"),
    [
        ([], False),
        ([acl(TOPIC, "READ", EVERYBODY)], False),
        ([acl(TOPIC, "WRITE")], False),
        ([acl(TOPIC, "WRITE"), acl(TOPIC, "WRITE", deny=True)], True),
        ([acl("*", "WRITE"), acl("*", "ALL", "User:etl"), acl(TOPIC, "WRITE", deny=True)], False),
        (
            [
                acl("*", "WRITE"),
                acl("*", "ALL", "User:etl"),
                acl("drkit-", "ALL", EVERYBODY, prefixed=True, deny=True),
            ],
            True,
        ),
        ([acl(TOPIC, "WRITE", OWN), acl(TOPIC, "WRITE", deny=True)], True),
        ([acl("orders", "WRITE", deny=True)], False),
    ],
)
def test_a_topic_refuses_its_clients_if_each_writer_is_denied(acls: list[Acl], *, refuses: bool):
    assert refuses_clients(TOPIC, acls, US) is refuses
