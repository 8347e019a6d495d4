"""Kafka's error codes by name. The numbers come from kafka-python, which has all of them."""

from __future__ import annotations

from typing import Final

from kafka import errors

NONE: Final[int] = errors.NoError.errno
UNKNOWN_SERVER_ERROR: Final[int] = errors.UnknownError.errno
OFFSET_OUT_OF_RANGE: Final[int] = errors.OffsetOutOfRangeError.errno
CORRUPT_MESSAGE: Final[int] = errors.CorruptRecordError.errno
UNKNOWN_TOPIC_OR_PARTITION: Final[int] = errors.UnknownTopicOrPartitionError.errno
LEADER_NOT_AVAILABLE: Final[int] = errors.LeaderNotAvailableError.errno
NOT_LEADER_OR_FOLLOWER: Final[int] = errors.NotLeaderForPartitionError.errno
TOPIC_AUTHORIZATION_FAILED: Final[int] = errors.TopicAuthorizationFailedError.errno
CLUSTER_AUTHORIZATION_FAILED: Final[int] = errors.ClusterAuthorizationFailedError.errno
KAFKA_STORAGE_ERROR: Final[int] = errors.KafkaStorageError.errno
FETCH_SESSION_ID_NOT_FOUND: Final[int] = errors.FetchSessionIdNotFoundError.errno
INVALID_FETCH_SESSION_EPOCH: Final[int] = errors.InvalidFetchSessionEpochError.errno
FENCED_LEADER_EPOCH: Final[int] = errors.FencedLeaderEpochError.errno
UNKNOWN_LEADER_EPOCH: Final[int] = errors.UnknownLeaderEpochError.errno
UNKNOWN_TOPIC_ID: Final[int] = errors.UnknownTopicIdError.errno
INCONSISTENT_TOPIC_ID: Final[int] = errors.InconsistentTopicIdError.errno
FETCH_SESSION_TOPIC_ID_ERROR: Final[int] = errors.FetchSessionTopicIdError.errno

NO_SUCH_TOPIC: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})
"""The topic is deleted, recreated, or the broker does not know it yet."""
FETCH_SESSION_LOST: Final = frozenset(
    {FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR}
)
"""The broker has forgotten the fetch session or refuses to continue it: a new one begins."""


def error_name(code: int) -> str:
    """The name of an error code and its number, for evidence."""
    return f"{errors.for_code(code).__name__} ({code})"
