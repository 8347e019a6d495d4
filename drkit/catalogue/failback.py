"""Errors of a failback."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused

ERRORS: Final[dict[str, Entry]] = {
    "compare_interrupted": failed("the old primary stopped answering", page="export-not-whole"),
    "copy_end_unrecorded": failed(
        "the journal lacks the offset at which the new primary began",
        hint="this version cannot return it",
        page="reprotect-not-ready",
    ),
    "copy_end_unrecorded_role": refused(
        "the journal lacks the offset at which the new primary began",
        hint=(
            "{drkit:divergence --flow '{flow}'} lists what only {source} has; this version cannot return it"
        ),
        page="reprotect-not-ready",
    ),
    "decision_missing": refused(
        "a decision is required before records on the old primary are deleted", page="reprotect-undecided"
    ),
    "deleted_keys_return": refused(
        "keys that clients deleted since the failover could reappear", page="replay-not-comparable"
    ),
    "delta_out_of_order": refused(
        "the method delta would break the order of records, or lose some",
        hint="{command}, or =trim",
        page="reprotect-method-not-sound",
    ),
    "dry_run_of_held_run": refused(
        "this stage is already in progress: a dry run shows only a new one",
        hint="{drkit:failback} continues it",
        page="failover-another-orchestrator",
    ),
    "export_not_as_recorded": refused(
        "the export differs from the journal, so nothing is deleted",
        hint="{drkit:divergence verify MANIFEST}; then {abort}",
        page="reprotect-changed-meanwhile",
    ),
    "export_place_missing": refused(
        "{records} only on the old primary: name a place to save them",
        hint="name a folder or a URL that is kept: {command}",
        page="reprotect-undecided",
    ),
    "export_short": refused(
        "the export lacks records of the old primary, so nothing may be deleted",
        hint=("its retention or its cleaner may have been at work: {again} compares and exports again"),
        page="reprotect-changed-meanwhile",
    ),
    "failover_under_way": refused("a failover is under way", page="failover-another-orchestrator"),
    "fewer_partitions": refused(
        "the old primary has more partitions than the new one",
        hint=(
            "give the topic as many partitions on {target}, then: {command}; or save what is "
            "there: {drkit:divergence export --flow '{flow}' --to DIR}; then delete the topic on "
            "the old primary"
        ),
        page="reprotect-not-ready",
    ),
    "given_up": refused(
        "a topic's records were given up, so they cannot be appended",
        hint="{left_out}; to append the records all the same, from their export: {commands}",
        page="reprotect-undecided",
    ),
    "group_committed_on_old": refused(
        "a group committed on the old primary after its offsets were saved",
        hint="stop this consumer, then {abort}",
        page="reprotect-changed-meanwhile",
    ),
    "group_positions_not_stored": failed(
        "the old primary does not store group offsets",
        hint="stop consumers that still work there, then: {drkit:reprotect --resume}",
    ),
    "groups_before_trim": refused(
        "{groups} would have no offset in a trimmed partition",
        hint=(
            "let them read on, past the moment of the failover; or the method rebuild, which "
            "keeps every position: {command}"
        ),
        page="reprotect-method-not-sound",
    ),
    "keep_after_kept": refused(
        "the copy has not passed an earlier kept tail yet", page="reprotect-method-not-sound"
    ),
    "keep_compacted": refused(
        ("the method keep cannot be used for a compacted topic: the newest value of a key could differ"),
        page="reprotect-method-not-sound",
    ),
    "keep_contradicts": refused(
        "the method keep and another disposition were chosen for one topic",
        hint="{command}; or: {other_command}",
        page="reprotect-method-not-sound",
    ),
    "keep_lost_records": refused(
        "the method keep needs the complete tail, and the old primary has lost records of it",
        page="reprotect-method-not-sound",
    ),
    "keep_mixed": refused(
        "the tail to keep contains records of the new primary", page="reprotect-method-not-sound"
    ),
    "keep_not_appended": failed("the tail to keep was not appended completely", hint="{command} --resume"),
    "keep_tail_lost": refused(
        "the old primary lost records of the tail to keep",
        hint="the export has them: {command} --abort; then {next_command}",
        page="reprotect-changed-meanwhile",
    ),
    "keep_unproven": refused(
        "the method keep needs a verified start and records that only the old primary has",
        page="reprotect-method-not-sound",
    ),
    "kept_tail_missing": failed("the kept tail is not on the new primary", hint="{drkit:reprotect --resume}"),
    "new_primary_lost_records": refused(
        "the new primary has lost records since it was promoted, so it cannot be trimmed",
        hint="{command}, with --disposition TOPIC=replay for these",
        page="reprotect-method-not-sound",
    ),
    "new_primary_removed_first": refused(
        "retention on the new primary has deleted the first records since the failover",
        hint=("raise the retention of these topics there; give up the records that are gone: {command}"),
        page="reprotect-method-not-sound",
    ),
    "new_start_unknown": failed("the start offset of a partition on the new primary is unknown"),
    "new_topic_unknown": failed("drkit cannot tell whether the new primary has the topic"),
    "no_flow_to_third": refused(
        "no flow copies from the new primary to that cluster", page="reprotect-third-cluster"
    ),
    "no_third_cluster": refused(
        "--to names one of the two clusters of this failover", page="reprotect-third-cluster"
    ),
    "not_comparable": refused(
        "{partitions} of the old primary cannot be compared",
        hint="check its brokers; a transaction that stays open: {drkit:fence pay}; then: {command}",
        page="reprotect-cannot-compare",
    ),
    "not_in_step": failed(
        "{target} has not caught up yet: clients stay on {source}",
        hint="{drkit:status --flow '{flow_back}'}; run it again: {command}",
    ),
    "nothing_to_fail_back": refused(
        "there is nothing to fail back",
        hint="{drkit:status} shows which cluster is active and what protects it",
        page="reprotect-wrong-pair",
    ),
    "nothing_to_protect": refused(
        "no topic needs a standby",
        hint="{drkit:status} shows which cluster is active and what protects it",
        page="reprotect-wrong-pair",
    ),
    "nothing_to_protect_in_topics": refused(
        "none of these topics needs a standby",
        hint="name one of them with --topic, or leave it out: {command}",
        page="reprotect-wrong-pair",
    ),
    "old_change_unknown": failed(
        "drkit cannot tell whether the old primary changed since the comparison",
        hint="check its brokers, then: {command} --resume",
    ),
    "old_primary_changed": refused(
        "the old primary changed since the comparison",
        hint="find out who writes there; then {abort}",
        page="reprotect-changed-meanwhile",
    ),
    "old_primary_still_written": refused(
        "the old primary still accepts writes",
        hint="find out who writes there, or whose transaction it is, then: {command}",
        page="reprotect-cannot-compare",
    ),
    "old_primary_takes_writes": refused(
        "the old primary cannot become a standby: {partitions} writes",
        hint=(
            "find out who lifted its fence, or may pass it{next}; what it took since: {drkit:"
            "divergence --flow '{flow}'}"
        ),
        page="reprotect-old-primary-open",
    ),
    "old_topic_unknown": failed(
        "the old primary does not know a topic of the failback", hint="check the cluster, then: {command}"
    ),
    "promoted_topic_recreated": refused(
        "a promoted topic was recreated on the new primary",
        hint=(
            "the old primary may have the only copy of its records: save them with {drkit:"
            "divergence export --flow '{flow}' --to DIR}; then return the other topics, each by "
            "--topic; when the topic is deleted on {source}, too: {command} --flow '{flow}' "
            "--forget TOPIC; a return that is under way is rolled back first, by --abort"
        ),
        page="reprotect-new-primary",
    ),
    "other_flow_reads": refused(
        "another flow reads from the old primary, and would copy rebuilt records twice",
        hint=(
            "stop that flow, remove it from this configuration, delete its state on its target, "
            "and repeat the command; before the flow runs again, delete its copies"
        ),
        page="reprotect-other-flow",
    ),
    "rebuild_loses_history": refused(
        "a rebuild would lose early records that only the old primary has",
        hint="give them up: {command}",
        page="reprotect-method-not-sound",
    ),
    "replay_recreated": refused(
        "records of a topic that was recreated on the old primary cannot be replayed",
        hint="keep them apart: {command}",
        page="replay-wrong-place",
    ),
    "replicas_out_of_sync": refused(
        "the new primary would hold the only copy, and some of its replicas are out of sync",
        hint="let its replicas catch up, then: {command}",
        page="reprotect-not-ready",
    ),
    "reverse_flow_blocked": failed("the reverse flow may not copy yet", hint="{drkit:reprotect --resume}"),
    "reverse_flow_excludes": refused(
        "the reverse flow excludes topics of this failback",
        hint=(
            "let topics and topics_exclude of {back} choose them, then: {command}; or return the "
            "others alone: {abort}{other_command}"
        ),
        page="reprotect-wrong-pair",
    ),
    "reverse_names_differ": refused(
        "the reverse flow renames topics",
        hint='set naming = "identity" in both flows of the pair',
        page="reprotect-wrong-pair",
    ),
    "still_primary": failed(
        "the old primary is still recorded as a primary", hint="{drkit:reprotect --resume}"
    ),
    "switchover_fence_refuses_drkit": refused(
        ("the fence of the {switchover} would block drkit too, and nothing else would block clients"),
        hint=(
            "cut clients off by other means (listener, DNS, network), then state how: "
            '{drkit:--clients-cut "HOW"}; or let an ACL fence {left}: {drkit:explain '
            "reprotect-fence-refuses-drkit}"
        ),
        page="reprotect-fence-refuses-drkit",
    ),
    "third_incomplete": refused(
        "the third cluster would not receive all promoted topics",
        hint=(
            "correct topics and topics_exclude of the flow; where the cluster has topics of these"
            " names with records of its own, delete or rename them there; all of it: {look}"
        ),
        page="reprotect-third-cluster",
    ),
    "third_not_promoted": refused(
        "no failover has promoted these topics",
        hint="{drkit:status} shows which cluster is active and what protects it",
        page="reprotect-third-cluster",
    ),
    "trim_compacted": refused(
        "a compacted topic cannot be trimmed: an early record may be the newest of its key",
        page="reprotect-method-not-sound",
    ),
}
