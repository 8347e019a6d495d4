"""Errors of replays."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused

ERRORS: Final[dict[str, Entry]] = {
    "batch_refused": failed(
        "the topic refused a batch",
        hint="run the same command again: what was appended is not appended again",
    ),
    "batch_too_large": refused(
        "a batch is larger than the topic accepts",
        hint=("see max.message.bytes of the topic: a fence sets it to 0; then run the same command again"),
        page="replay-not-taken",
    ),
    "export_without_topic": refused(
        "the export has no records of this topic",
        hint="name topics of the export, as the old primary calls them",
        page="replay-wrong-place",
    ),
    "keep_begun_otherwise": refused(
        "this tail is being replayed with another method",
        hint="run that command to its end; then {command} appends what is missing",
        page="replay-taken",
    ),
    "keep_content_known": refused(
        "the new primary already has some records with the same content, and keep skips none",
        hint=(
            "if they are others, {drkit:reprotect --resume --same none} keeps both; if they are the same: "
            "{command} appends what is missing"
        ),
        page="replay-same-or-other",
    ),
    "keep_replayed_before": refused(
        "records of this tail were already replayed: keep would duplicate them",
        hint="{command} appends what is missing",
        page="replay-same-or-other",
    ),
    "keep_under_way": refused(
        "a failback is appending this tail",
        hint="let that return end, or roll it back: {drkit:reprotect --abort}",
        page="replay-taken",
    ),
    "not_authorized_to_replay": failed(
        "no permission to {verb} a topic on {alias}",
        hint="grant drkit's principal READ and WRITE on the topic; see {drkit:explain replay}",
    ),
    "nothing_to_replay": refused(
        "no records of this export wait for a replay",
        hint="name the manifest and the topics as {drkit:status} does",
        page="replay-another-export",
    ),
    "partition_silent": failed(
        "a partition does not answer",
        hint=("check the cluster; then run the same command again: what was appended is not appended again"),
    ),
    "quarantine_name_clash": refused(
        "another topic's name differs only in '.' and '_', which Kafka refuses",
        hint="keep the export instead of a quarantine: it holds the records",
        page="replay-quarantine",
    ),
    "quarantine_name_long": refused(
        "the name of the quarantine topic would be too long",
        hint="keep the export instead: it holds the records",
        page="replay-quarantine",
    ),
    "quarantine_topic_foreign": refused(
        "a topic with this name exists, and drkit did not create it",
        hint=(
            "find out who created it; move its records to another topic, and free the name; or "
            "keep the export instead, in a return by --disposition TOPIC=discard"
        ),
        page="replay-quarantine",
    ),
    "record_refused": refused(
        "the topic refused a record",
        hint=(
            "a compacted topic rejects records without a key; keep such records in quarantine: "
            "{drkit:replay --from MANIFEST --to-quarantine}"
        ),
        page="replay-not-taken",
    ),
    "record_too_large": refused(
        "a record is larger than the topic accepts",
        hint="raise max.message.bytes of the topic, then run the same command again",
        page="replay-not-taken",
    ),
    "record_too_old": refused(
        "the topic refuses records with such old timestamps",
        hint=(
            "raise message.timestamp.before.max.ms of the topic, or "
            "message.timestamp.after.max.ms for times ahead of the clock: a replay keeps the "
            "original times"
        ),
        page="replay-not-taken",
    ),
    "replay_content_known": refused(
        ("the new primary has records with the content of some of the tail: duplicates or distinct?"),
        hint=("--same content leaves these out, for payloads that are unique; --same none sends all"),
        page="replay-same-or-other",
    ),
    "replay_earlier_failover": refused(
        "the export belongs to an earlier failover of this topic",
        hint=(
            "earlier replayed records cannot be distinguished from others; keep the records in "
            "quarantine: {drkit:replay --from MANIFEST --to-quarantine}"
        ),
        page="replay-wrong-place",
    ),
    "replay_fewer_partitions": refused(
        "the new primary has fewer partitions than the old one",
        hint="keys must not move: add the partitions, then run the same command again",
        page="replay-wrong-place",
    ),
    "replay_id_reused": refused(
        "another export with the same id was replayed before",
        hint="find out which of them is right: an export is never changed after it was written",
        page="replay-another-export",
    ),
    "replay_not_comparable": refused(
        "the first records since the failover were deleted, so duplicates cannot be found",
        hint=(
            "send all of the tail with --same none (not on a compacted topic); or keep it in "
            "quarantine: {drkit:replay --from MANIFEST --to-quarantine}"
        ),
        page="replay-not-comparable",
    ),
    "replay_open_transaction": refused(
        "the partition to replay into has an open transaction",
        hint=(
            "what it wrote cannot be compared: let it end, or abort it (kafka-transactions.sh "
            "abort), never one of a transactional id drkit.…: a replay without --dry-run ends it; then "
            "run the same command again: what was appended is not appended again"
        ),
        page="replay-not-comparable",
    ),
    "replay_other_failover": refused(
        "the export belongs to another failover of this topic",
        hint="keep the records in quarantine: {drkit:replay --from MANIFEST --to-quarantine}",
        page="replay-wrong-place",
    ),
    "replay_other_primary": refused(
        "this cluster is no longer the primary of this topic",
        hint="replay to the cluster that accepts writes, before a return ends; see {drkit:status}",
        page="replay-wrong-place",
    ),
    "replay_other_source": refused(
        "the export was taken from another cluster",
        hint="name the flow whose old primary the export is of, with --flow",
        page="replay-wrong-place",
    ),
    "replay_other_target": refused(
        "another cluster answers at the new primary's address",
        hint="correct bootstrap_servers of the cluster",
        page="replay-wrong-place",
    ),
    "replay_other_topic": refused(
        "the export was taken from another topic with the same name",
        hint="name the flow whose old primary the export is of, with --flow",
        page="replay-wrong-place",
    ),
    "replay_record_damaged": refused(
        "the record of replayed offsets is damaged",
        hint=(
            "find out who writes there besides drkit, and deny it. With the topic deleted a "
            "replay begins again; what it has appended it finds by the header drkit.replayed-from"
        ),
        page="replay-another-export",
    ),
    "replay_same_differs": refused(
        "the replay was started with another --same",
        hint="continue it with --same {same}, or without --same",
        page="replay-same-or-other",
    ),
    "replay_stalled": failed(
        "the replay of a partition stalled",
        hint=("check the cluster; then run the same command again: what was appended is not appended again"),
    ),
    "replay_start_unrecorded": refused(
        "the journal lacks the offset at which clients began to write on the new primary",
        hint=(
            "without it nothing can be compared; keep the records in quarantine: {drkit:replay "
            "--from MANIFEST --to-quarantine}"
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
            "quarantine: {drkit:replay --from MANIFEST --to-quarantine}"
        ),
        page="replay-wrong-place",
    ),
}
