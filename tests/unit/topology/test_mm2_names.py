from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.topology import Mm2Topics, is_internal_topic
from drkit.topology.naming import worker_group, worker_topic

ALIAS = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)


def test_names_with_dots():
    """The names of MM2's own topics."""
    names = Mm2Topics()
    assert names.offset_syncs("B") == "mm2-offset-syncs.B.internal"
    assert names.checkpoints("A") == "A.checkpoints.internal"


def test_names_with_a_separator_of_their_own():
    """``replication.policy.internal.topic.separator.enabled``, true by default."""
    names = Mm2Topics.of("_")
    assert names.offset_syncs("B") == "mm2-offset-syncs_B_internal"
    assert names.checkpoints("A") == "A_checkpoints_internal"
    assert Mm2Topics.of("_", enabled=False) == Mm2Topics()


@given(ALIAS, st.sampled_from("._-"))
def test_its_own_names_are_internal(alias: str, separator: str):
    names = Mm2Topics(separator)
    assert names.checkpoints_of(names.checkpoints(alias)) == alias
    for name in (names.offset_syncs(alias), names.checkpoints(alias), f"mm2-offsets.{alias}.internal"):
        assert names.is_internal(name)
        assert is_internal_topic(name, names)


@pytest.mark.parametrize("topic", ["orders", "audit_internal", "checkpoints_internal", "mm2", "heartbeats"])
def test_a_users_topic_is_not_internal(topic: str):
    assert not is_internal_topic(topic, Mm2Topics("_"))


def test_without_the_separator_only_dots_count():
    assert not is_internal_topic("A_checkpoints_internal")
    assert is_internal_topic("A_checkpoints_internal", Mm2Topics("_"))
    assert is_internal_topic("A.checkpoints.internal", Mm2Topics("_")), (
        "drkit and others write those with dots"
    )


def test_topics_of_its_workers():
    """MM2's own progress is in ``mm2-offsets.<source>.internal``, on the target."""
    assert worker_topic("mm2-offsets.us-west.internal") == ("mm2-offsets", "us-west")
    assert worker_topic("mm2-offset-syncs.B.internal") is None
    assert worker_topic("mm2-status..internal") is None
    assert worker_group("A") == "A-mm2"
