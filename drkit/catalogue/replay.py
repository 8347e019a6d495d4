"""Errors of replays."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused

ERRORS: Final[dict[str, Entry]] = {
    "batch_refused": failed(
        "a batch was refused", hint="run the same command again: what was appended is not appended again"
    ),
    "batch_too_large": refused(
        "the topic takes no batch of this size",
        hint=("see max.message.bytes of the topic: a fence sets it to 0; then run the same command again"),
        page="replay-not-taken",
    ),
    "export_without_topic": refused(
        "the export has no records of a topic",
        hint="name topics of the export, as the old primary calls them",
        page="replay-wrong-place",
    ),
    "keep_begun_otherwise": refused(
        "the replay of this tail was begun in another way",
        hint="run that command to its end; then {format}",
        page="replay-taken",
    ),
    "keep_content_known": refused(
        ("the new primary has records with the content of some of the tail, and keep leaves none out"),
        page="replay-same-or-other",
    ),
    "keep_replayed_before": refused(
        "records of the tail were replayed before: the method keep would have them twice",
        page="replay-same-or-other",
    ),
    "keep_under_way": refused(
        "a return that keeps this tail is appending it",
        hint="let that return end, or roll it back: drkit reprotect --abort",
        page="replay-taken",
    ),
    "new_primary_stopped_answering": failed("the new primary stopped answering"),
    "not_authorized_to_replay": failed(
        "no permission to {verb} a topic on {alias}",
        hint="grant drkit's principal READ and WRITE on the topic; see drkit explain replay",
    ),
    "nothing_to_replay": refused(
        "nothing of this export waits for a replay",
        hint="name the manifest and the topics as drkit status does",
        page="replay-another-export",
    ),
    "partition_silent": failed(
        "a partition does not answer",
        hint=("check the cluster; then run the same command again: what was appended is not appended again"),
    ),
    "quarantine_name_clash": refused(
        "Kafka takes no topic whose name differs from another's in . and _ only",
        hint="keep the export instead of a quarantine: it holds the records",
        page="replay-quarantine",
    ),
    "quarantine_name_long": refused(
        "the name of a topic in quarantine would be too long",
        hint="keep the export instead: it holds the records",
        page="replay-quarantine",
    ),
    "quarantine_topic_foreign": refused(
        "a topic of this name is there, and is not drkit's",
        hint=(
            "find out who created it; move its records to another topic, and free the name; or "
            "keep the export instead, in a return by --disposition TOPIC=discard"
        ),
        page="replay-quarantine",
    ),
    "record_refused": refused(
        "the topic does not take a record",
        hint=(
            "a compacted topic takes no record without a key; keep such records in quarantine: "
            "drkit replay --from MANIFEST --to-quarantine"
        ),
        page="replay-not-taken",
    ),
    "record_too_large": refused(
        "a record is larger than the topic takes",
        hint="raise max.message.bytes of the topic, then run the same command again",
        page="replay-not-taken",
    ),
    "record_too_old": refused(
        "the topic does not take records of this age",
        hint=(
            "raise message.timestamp.before.max.ms of the topic, or "
            "message.timestamp.after.max.ms for times ahead of the clock: a replay keeps the "
            "original times"
        ),
        page="replay-not-taken",
    ),
    "replay_content_known": refused(
        ("the new primary has records with the content of some of the tail: sent again, or others?"),
        hint=("--same content leaves these out, for payloads that are unique; --same none sends all"),
        page="replay-same-or-other",
    ),
    "replay_earlier_failover": refused(
        "the export is of an earlier failover of this topic",
        hint=(
            "what was replayed before that cannot be told from what was not; keep the records in "
            "quarantine: drkit replay --from MANIFEST --to-quarantine"
        ),
        page="replay-wrong-place",
    ),
    "replay_fewer_partitions": refused(
        "the new primary has fewer partitions than the old one",
        hint="keys must not move: add the partitions, then run the same command again",
        page="replay-wrong-place",
    ),
    "replay_id_reused": refused(
        "another export with the id of this one was replayed before",
        hint="find out which of them is right: an export is never changed after it was written",
        page="replay-another-export",
    ),
    "replay_not_comparable": refused(
        ("what the new primary took first since the failover is removed: the tail cannot be compared"),
        hint=(
            "send all of the tail with --same none (not on a compacted topic); or keep it in "
            "quarantine: drkit replay --from MANIFEST --to-quarantine"
        ),
        page="replay-not-comparable",
    ),
    "replay_open_transaction": refused(
        "a transaction is open in the partition to replay into",
        hint=(
            "what it wrote cannot be compared: let it end, or abort it (kafka-transactions.sh "
            "abort); then run the same command again: what was appended is not appended again"
        ),
        page="replay-not-comparable",
    ),
    "replay_other_failover": refused(
        "the export is of another failover than the one that promoted this topic",
        hint="keep the records in quarantine: drkit replay --from MANIFEST --to-quarantine",
        page="replay-wrong-place",
    ),
    "replay_other_primary": refused(
        "the new primary is not the primary of this topic any more",
        hint="replay to the side that takes writes, before a return ends; see drkit status",
        page="replay-wrong-place",
    ),
    "replay_other_source": refused(
        "the export is of another cluster than the flow's source",
        hint="name the flow whose old primary the export is of, with --flow",
        page="replay-wrong-place",
    ),
    "replay_other_target": refused(
        "another cluster answers under the new primary's name",
        hint="correct bootstrap_servers of the cluster",
        page="replay-wrong-place",
    ),
    "replay_other_topic": refused(
        "the export is of another topic of this name",
        hint="name the flow whose old primary the export is of, with --flow",
        page="replay-wrong-place",
    ),
    "replay_record_damaged": refused(
        "the record of what was replayed is damaged",
        hint=(
            "find out who writes there besides drkit, and deny it. With the topic deleted a "
            "replay begins again; what it has appended it finds by the header drkit.replayed-from"
        ),
        page="replay-another-export",
    ),
    "replay_same_differs": refused(
        "the replay was begun with another --same",
        hint="continue it with --same {same}, or without --same",
        page="replay-same-or-other",
    ),
    "replay_stalled": failed(
        "the replay of a partition does not get on",
        hint=("check the cluster; then run the same command again: what was appended is not appended again"),
    ),
    "replay_start_unrecorded": refused(
        "where clients began to write on the new primary is not on record",
        hint=(
            "without it nothing can be compared; keep the records in quarantine: drkit replay "
            "--from MANIFEST --to-quarantine"
        ),
        page="replay-not-comparable",
    ),
    "replay_taken": refused(
        "another process replays into this partition",
        hint=(
            "let it end; if no other replay runs, run the same command again: what was appended "
            "is not appended again"
        ),
        page="replay-taken",
    ),
    "replay_topic_recreated": refused(
        "the topic to replay into was deleted or recreated",
        hint=(
            "drkit does not append to another topic of the same name; keep the records in "
            "quarantine: drkit replay --from MANIFEST --to-quarantine"
        ),
        page="replay-wrong-place",
    ),
}
