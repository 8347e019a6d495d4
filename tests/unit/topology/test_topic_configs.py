"""Which settings travel: MirrorMaker 2's rules one by one, and drkit's additions."""

from __future__ import annotations

from typing import Any

import pytest

from drkit.config.mm2.keys import FLOW_KEYS
from drkit.topology import split_list
from drkit.topology.topic_configs import (
    DEFAULT_CONFIG_EXCLUDE,
    MAX_MESSAGE_BYTES,
    PASSIVE,
    ConfigRules,
    is_fence,
)
from tests.support.topology.topic_configs import BROKER, CLUSTER, DEFAULT, FILE, TOPIC, Value

MM2_CONFIG_EXCLUDE = next(split_list(k.default) for k in FLOW_KEYS if k.name == "config.properties.exclude")


def wanted(name: str, value: Value, replicas: int | None = 3, *, new: bool = False, **rules: Any):
    return ConfigRules(**rules).wanted({name: value}, replicas, new=new).get(name)


@pytest.mark.parametrize("source", [TOPIC, BROKER, CLUSTER])
def test_a_setting_changed_while_running_is_set_on_the_target(source: str):
    want = wanted("retention.ms", Value("5", source))
    assert want is not None
    assert want.value == "5"


@pytest.mark.parametrize("source", [FILE, DEFAULT])
def test_what_the_source_inherits_goes_back_to_the_targets_default(source: str):
    want = wanted("retention.ms", Value("5", source))
    assert want is not None
    assert want.value is None


def test_with_defaults_from_source_its_default_is_set_and_its_server_file_left_alone():
    want = wanted("retention.ms", Value("5", DEFAULT), defaults_from="source")
    assert want is not None
    assert want.value == "5"
    assert wanted("retention.ms", Value("5", FILE), defaults_from="source") is None


@pytest.mark.parametrize(
    ("name", "mm2", "drkit"),
    [
        ("min.insync.replicas", False, True),
        ("unclean.leader.election.enable", False, False),
        ("leader.replication.throttled.replicas", False, False),
        ("follower.replication.throttled.replicas", False, False),
        ("message.timestamp.difference.max.ms", False, False),
        ("remote.storage.enable", True, False),
        ("local.retention.ms", True, False),
        ("cleanup.policy", True, True),
    ],
)
def test_what_is_excluded(name: str, mm2: bool, drkit: bool):  # noqa: FBT001  a table
    assert (wanted(name, Value("1"), exclude=MM2_CONFIG_EXCLUDE) is not None) is mm2
    assert (wanted(name, Value("1"), exclude=DEFAULT_CONFIG_EXCLUDE) is not None) is drkit


def test_an_exclusion_names_the_whole_setting():
    assert wanted("retention.ms", Value("1"), exclude=("retention",)) is not None
    assert wanted("retention.ms", Value("1"), exclude=(r"retention\..*",)) is None


def test_the_times_of_records_are_kept_whatever_the_source_or_a_filter_says():
    for exclude in ((), (".*",)):
        wants = ConfigRules(exclude).wanted({"message.timestamp.type": Value("LogAppendTime")}, 1)
        assert {n: w.value for n, w in wants.items()} == dict(PASSIVE)
        assert all(w.needed for w in wants.values())


def test_the_source_s_own_times_are_remembered_for_the_day_it_is_opened():
    source = {"message.timestamp.type": Value("LogAppendTime")}
    assert ConfigRules().followed(source) == {"message.timestamp.type": "LogAppendTime"}
    assert ConfigRules(MM2_CONFIG_EXCLUDE).followed(source) == {}


@pytest.mark.parametrize("bytes_", ["0", "70", "1023"])
def test_a_fence_is_never_copied(bytes_: str):
    fence = Value(bytes_)
    assert is_fence(MAX_MESSAGE_BYTES, fence)
    for new in (False, True):
        assert wanted(MAX_MESSAGE_BYTES, fence, new=new) is None
    assert ConfigRules().followed({MAX_MESSAGE_BYTES: fence}) == {}


def test_a_limit_of_1024_bytes_is_a_setting():
    want = wanted(MAX_MESSAGE_BYTES, Value("1024"))
    assert want is not None
    assert (want.value, want.needed, want.at_least, want.explicit) == ("1024", True, True, True)


def test_an_inherited_limit_is_needed_but_not_written_where_the_target_takes_as_much():
    want = wanted(MAX_MESSAGE_BYTES, Value("2000000", FILE))
    assert want is not None
    assert (want.value, want.explicit) == ("2000000", False)


def test_an_excluded_limit_is_left_alone():
    assert wanted(MAX_MESSAGE_BYTES, Value("5000000"), exclude=(r"max\..*",)) is None


def test_never_more_replicas_in_sync_than_there_are():
    """P27: ``min.insync.replicas`` stays the source's unless the copy has fewer replicas."""
    lowered = wanted("min.insync.replicas", Value("2"), replicas=1)
    assert lowered is not None
    assert lowered.value == "1"
    assert lowered.why == "the source has 2, but the copy has 1 replica"
    for replicas in (2, 3, None):
        kept = wanted("min.insync.replicas", Value("2"), replicas)
        assert kept is not None
        assert kept.value == "2"


def test_without_sync_only_new_topics_get_settings():
    assert wanted("retention.ms", Value("5"), sync=False) is None
    assert wanted("retention.ms", Value("5"), sync=False, new=True) is not None
    assert wanted(MAX_MESSAGE_BYTES, Value("5000000"), sync=False) is not None
    assert wanted("message.timestamp.type", Value("CreateTime", DEFAULT), sync=False) is not None
