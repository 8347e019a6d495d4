"""Kafka's error codes by name. The numbers come from kafka-python, which has all of them."""

from __future__ import annotations

from typing import Final

from kafka import errors

NONE: Final[int] = errors.NoError.errno
OFFSET_OUT_OF_RANGE: Final[int] = errors.OffsetOutOfRangeError.errno
UNKNOWN_TOPIC_OR_PARTITION: Final[int] = errors.UnknownTopicOrPartitionError.errno
LEADER_NOT_AVAILABLE: Final[int] = errors.LeaderNotAvailableError.errno
NOT_LEADER_OR_FOLLOWER: Final[int] = errors.NotLeaderForPartitionError.errno
REQUEST_TIMED_OUT: Final[int] = errors.RequestTimedOutError.errno
MESSAGE_TOO_LARGE: Final[int] = errors.MessageSizeTooLargeError.errno
COORDINATOR_LOAD_IN_PROGRESS: Final[int] = errors.CoordinatorLoadInProgressError.errno
COORDINATOR_NOT_AVAILABLE: Final[int] = errors.CoordinatorNotAvailableError.errno
NOT_COORDINATOR: Final[int] = errors.NotCoordinatorError.errno
RECORD_LIST_TOO_LARGE: Final[int] = errors.RecordListTooLargeError.errno
NOT_ENOUGH_REPLICAS: Final[int] = errors.NotEnoughReplicasError.errno
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final[int] = errors.NotEnoughReplicasAfterAppendError.errno
INVALID_TIMESTAMP: Final[int] = errors.InvalidTimestampError.errno
UNKNOWN_MEMBER_ID: Final[int] = errors.UnknownMemberIdError.errno
REBALANCE_IN_PROGRESS: Final[int] = errors.RebalanceInProgressError.errno
TOPIC_AUTHORIZATION_FAILED: Final[int] = errors.TopicAuthorizationFailedError.errno
GROUP_AUTHORIZATION_FAILED: Final[int] = errors.GroupAuthorizationFailedError.errno
CLUSTER_AUTHORIZATION_FAILED: Final[int] = errors.ClusterAuthorizationFailedError.errno
UNSUPPORTED_SASL_MECHANISM: Final[int] = errors.UnsupportedSaslMechanismError.errno
UNSUPPORTED_VERSION: Final[int] = errors.UnsupportedVersionError.errno
ILLEGAL_SASL_STATE: Final[int] = errors.IllegalSaslStateError.errno
OUT_OF_ORDER_SEQUENCE_NUMBER: Final[int] = errors.OutOfOrderSequenceNumberError.errno
DUPLICATE_SEQUENCE_NUMBER: Final[int] = errors.DuplicateSequenceNumberError.errno
INVALID_PRODUCER_EPOCH: Final[int] = errors.InvalidProducerEpochError.errno
CONCURRENT_TRANSACTIONS: Final[int] = errors.ConcurrentTransactionsError.errno
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final[int] = errors.TransactionalIdAuthorizationFailedError.errno
SECURITY_DISABLED: Final[int] = errors.SecurityDisabledError.errno
KAFKA_STORAGE_ERROR: Final[int] = errors.KafkaStorageError.errno
GROUP_ID_NOT_FOUND: Final[int] = errors.GroupIdNotFoundError.errno
FETCH_SESSION_ID_NOT_FOUND: Final[int] = errors.FetchSessionIdNotFoundError.errno
INVALID_FETCH_SESSION_EPOCH: Final[int] = errors.InvalidFetchSessionEpochError.errno
FENCED_LEADER_EPOCH: Final[int] = errors.FencedLeaderEpochError.errno
UNKNOWN_LEADER_EPOCH: Final[int] = errors.UnknownLeaderEpochError.errno
INVALID_RECORD: Final[int] = errors.InvalidRecordError.errno
POLICY_VIOLATION: Final[int] = errors.PolicyViolationError.errno
PRODUCER_FENCED: Final[int] = errors.ProducerFencedError.errno
UNKNOWN_TOPIC_ID: Final[int] = errors.UnknownTopicIdError.errno
INCONSISTENT_TOPIC_ID: Final[int] = errors.InconsistentTopicIdError.errno
OPERATION_NOT_ATTEMPTED: Final[int] = errors.OperationNotAttemptedError.errno
UNSTABLE_OFFSET_COMMIT: Final[int] = errors.UnstableOffsetCommitError.errno
FETCH_SESSION_TOPIC_ID_ERROR: Final[int] = errors.FetchSessionTopicIdError.errno
UNKNOWN_SERVER_ERROR: Final[int] = errors.UnknownError.errno

NO_SUCH_TOPIC: Final = frozenset({UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})
"""The topic is deleted, recreated, or the broker does not know it yet."""
FETCH_SESSION_LOST: Final = frozenset(
    {FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR}
)
"""The broker has forgotten the fetch session or refuses to continue it: a new one begins."""

FENCED: Final = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
"""A newer producer has the transactional id, or a marker has ended the epoch."""
COORDINATOR_MOVES: Final = frozenset(
    {COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR}
)
"""Another broker coordinates, or will soon."""
LEADER_MOVES: Final = frozenset(
    {UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_ID}
)
"""Another broker leads the partition, or the broker does not know a new topic yet."""
APPEND_AGAIN: Final = LEADER_MOVES | {
    REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, KAFKA_STORAGE_ERROR,
    CONCURRENT_TRANSACTIONS,
}  # fmt: skip
"""An append that is refused with one of these may succeed later."""
NO_ANSWER: Final = -2
"""Not one of Kafka's: the connection broke, or the leader is not known."""
NOT_AUTHORIZED: Final = frozenset(
    {TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
)
"""An ACL is missing on a topic, the cluster or a transactional id."""


def append_seconds(code: int) -> float:
    """Return how long an append is tried again: a broker's restart takes longer than a change of rights."""
    return 30.0 if code in APPEND_AGAIN or code == NO_ANSWER else 2.0


def bare_name(code: int) -> str:
    """The name of an error code."""
    return str(errors.for_code(code).__name__)


def error_name(code: int) -> str:
    """The name of an error code and its number, for evidence."""
    return f"{bare_name(code)} ({code})"
