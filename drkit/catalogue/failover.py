"""Errors of a failover."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

_ONCE_IT_ANSWERS: Final = (
    "once it answers, {drkit:failover --resume} fences it, or {drkit:fence pay} when the failover is over; "
    "else close its listeners"
)

ERRORS: Final[dict[str, Entry]] = {
    "all_promoted": refused(
        "all topics of this flow were failed over already",
        hint=("{drkit:status} shows which cluster is active; to move back, protect the new primary first"),
        page="failover-already-promoted",
    ),
    "copies_changed": failed(
        "copies on the target lost records, or were recreated, after the loss was stated",
        hint="state the loss and translate again: {drkit:failover --resume}; or {drkit:failover --abort}",
    ),
    "coordinator_away": failed(
        "groups whose coordinator is away cannot be asked",
        hint='start its broker; or leave its groups without a position: {drkit:--accept-data-loss "REASON"}',
        page="failover-no-exact-position",
    ),
    "fence_possible_now": failed(
        "the old primary answers again and can be fenced now", hint=_ONCE_IT_ANSWERS
    ),
    "flow_not_frozen": failed("the flow is not frozen: a replicator could copy again"),
    "foreign_writes": refused(
        ("{partitions} records on the standby that another producer wrote since the switchover"),
        hint=(
            "cut that client off; this version neither removes these records nor continues "
            "after them: {drkit:explain failover-written-standby}"
        ),
        page="failover-written-standby",
    ),
    "group_on_old_side": refused(
        "group {group} has committed on the passive side: one of its consumers still runs there",
        hint=(
            "stop that consumer and delete these offsets (kafka-consumer-groups.sh --delete-offsets) to have"
            " the group moved to its exact place{then}; left where it is, it would repeat or skip records"
        ),
        page="failover-positions-in-return",
    ),
    "group_unknown": wrong("group '{group}' has no committed offsets in a topic of this flow"),
    "group_worked_on_target": refused(
        "group {group} has committed offsets on the target",
        hint=(
            "delete these offsets (kafka-consumer-groups.sh --delete-offsets) to have it moved to where it is"
            " on the source{then}; or leave it where it is{keep}"
        ),
        page="failover-own-positions",
    ),
    "hanging_transactions": refused(
        "{transactional_ids} on the target: its producer would fail there",
        hint=(
            "restart these brokers, one after another: then the markers are written, and drkit "
            "continues to copy"
        ),
        page="failover-hanging-transactions",
    ),
    "heartbeats_from_the_future": refused(
        "the newest heartbeats are in the future, so the data loss is unknown",
        hint=(
            "correct the clocks of this machine and of the replicator's (NTP); or accept the "
            'loss: {drkit:--accept-data-loss "REASON"}'
        ),
        page="failover-data-loss",
    ),
    "home_acls_of_drkit": refused(
        "drkit's ACLs cannot be distinguished from those of clients",
        hint=(
            'set own_principal = "User:…" in [clusters.{home}]; or keep them: {drkit:--acls-only-home keep}'
        ),
        page="failover-acls-only-home",
    ),
    "home_acls_shared": refused(
        "some ACLs to remove also cover topics or groups that do not fail back",
        hint="replace these by ACLs of the topics that return; or keep them: {drkit:--acls-only-home keep}",
        page="failover-acls-only-home",
    ),
    "home_acls_unknown": refused(
        "the ACLs of both sides could not be compared",
        hint=(
            "grant drkit's principal DESCRIBE on both clusters; or return without a comparison: "
            "{drkit:--acls-only-home keep}"
        ),
        page="failover-acls-only-home",
    ),
    "home_acls_wider": refused(
        "clients would regain ACLs that were revoked since the failover",
        hint=(
            "revoked on {here} since? --acls-only-home remove removes these before clients "
            "return; if they are right, --acls-only-home keep, or grant them on {here}, too"
        ),
        page="failover-acls-only-home",
    ),
    "hook_without_effect": failed(
        "the stop hook ended, but the old primary still accepts connections",
        hint="stop its brokers by hand, then: {drkit:failover --resume}",
    ),
    "left_by_configuration": refused(
        "this configuration leaves out what the flow replicates",
        hint=("repeat it with the replicator's configuration; or leave this on the primary: {leave_behind}"),
        page="failover-topics-not-copied",
    ),
    "loss_unknown": refused(
        "the data loss of this failover is unknown",
        hint=('find out with: {drkit:status}; or accept the loss: {drkit:--accept-data-loss "REASON"}'),
        page="failover-data-loss",
    ),
    "lost_after_open": refused(
        "the old primary took records after the loss was stated, or does not answer",
        hint=(
            "bring {source} back to have them counted: {drkit:failover --resume}; "
            'or accept the loss: {drkit:failover --resume --accept-data-loss "REASON"}'
        ),
        page="failover-data-loss",
    ),
    "members_not_removed": failed(
        "group members could not be removed", hint="stop these consumers, then: {command}"
    ),
    "members_on_target": refused(
        "group {group} has members on the target, so its offsets there cannot be set",
        hint=(
            "stop these consumers (a static one stays a member until its session ends){then}; or remove them"
            "{evict}"
        ),
        page="failover-live-members",
    ),
    "new_primary_refuses": failed(
        "partitions of the new primary reject writes",
        hint="start the brokers that lead them, lift fences; then: {drkit:failover --resume}",
    ),
    "newer_term": refused(
        "{count} of {total} endpoints already carry a newer term",
        hint=(
            "see who moved the clients: {drkit:repoint show}; if no later run did, raise the term above "
            "theirs: {drkit:failover --resume --term N}"
        ),
        page="failover-newer-term",
    ),
    "no_exact_position": refused(
        "no exact offset for {groups}",
        hint="{translate_group} shows more; to leave them without a position{accept}",
        page="failover-no-exact-position",
    ),
    "no_quorum": refused(
        "too few observers report the primary as lost",
        hint=(
            "start the missing drkit watch, or correct what keeps this machine from seeing the "
            'primary; or, if you know that it is gone: {drkit:--without-quorum "REASON"}'
        ),
        page="failover-no-quorum",
    ),
    "no_replicator": refused(
        "a planned switchover needs a running replicator to copy the last records",
        hint="start it: {drkit:replicate --flow '{flow}'}",
        page="failover-planned-not-possible",
    ),
    "not_copied": refused(
        "{topics} would be left behind without a copy",
        hint=(
            "let drkit replicate copy them; or leave them out of the flow with topics_exclude; "
            "or leave them on the primary: {leave_behind}"
        ),
        page="failover-topics-not-copied",
    ),
    "not_copied_back": refused(
        "some topics are not completely copied back",
        hint=(
            "bring {source} back and let the copy end: {drkit:status}; or accept the loss: "
            '{drkit:--accept-data-loss "REASON"}'
        ),
        page="failover-data-loss",
    ),
    "not_open": failed(
        "the target's topics are not open for clients yet", hint="{drkit:failover --resume} applies it again"
    ),
    "not_returned": refused(
        "clients write to {source}, which answers, and these topics have not returned from there",
        hint="make the target their standby first: {to_reprotect}",
        page="failover-already-promoted",
    ),
    "nothing_to_move": wrong(
        "the flow has copied no topic yet", hint="copy first: {drkit:replicate --flow '{flow}'}"
    ),
    "old_primary_back": failed("the old primary is back", hint=_ONCE_IT_ANSWERS),
    "older_writers": failed(
        "{count} of {total} partitions still accept an older replicator's writes",
        hint=(
            "start the brokers that lead them, then: {drkit:failover --resume}; or roll it back: "
            "{drkit:failover --abort}"
        ),
    ),
    "open_refused": failed(
        "the target refused {what}",
        hint=(
            "grant drkit ALTER_CONFIGS on topics and ALTER on the cluster, then: {drkit:failover --resume}"
        ),
    ),
    "pending_offsets": refused(
        "offsets of {groups} are in an open transaction",
        hint=(
            'let these producers end their transactions, or set open_transactions = "abort" in '
            "[failover.fence]; then: {drkit:failover --resume}"
        ),
        page="failover-open-transactions",
    ),
    "position_not_written": failed(
        "an offset of group {group} cannot be written: {verdict}",
        hint="{translate_group} shows more; then: {drkit:failover --resume}",
    ),
    "positions_differ": failed(
        "the target's group offsets differ from those that were written",
        hint="who else commits for these groups? stop it, then: {drkit:failover --resume}",
    ),
    "positions_not_stored": failed(
        "the target did not store group offsets",
        hint="a member that joined just now? stop it, then: {drkit:failover --resume}",
    ),
    "opposite_run": refused(
        "a failover or failback in the other direction is under way",
        hint="end it first: {command}, or --abort",
        page="failover-another-orchestrator",
    ),
    "promoted": refused(
        "an earlier failover promoted these topics: producers already write to the target",
        hint=("{drkit:status} shows which cluster is active; to move back, protect the new primary first"),
        page="failover-already-promoted",
    ),
    "promoted_refuses": refused(
        "an earlier failover opened these topics, and their target refuses every client",
        hint="delete the DENYs of WRITE on these topics: by drkit fence, or kafka-acls; then: {drkit:status}",
        page="failover-already-promoted",
    ),
    "record_not_kept": failed(
        "the new primary lost a test record",
        hint="look at these brokers' logs and disks, then: {drkit:failover --resume}",
    ),
    "recreated_on_old_primary": refused(
        ("topics were recreated on the old primary; the standby has copies of their predecessors"),
        hint=(
            "find out who creates them (auto.create.topics.enable); delete them there if their "
            "records are not needed, then: {drkit:failover --resume}; or roll it back: {drkit:"
            "failover --abort}"
        ),
        page="failover-topics-not-copied",
    ),
    "repoint_failed": failed(
        "{count} of {total} endpoints could not be updated",
        hint="correct them, then: {drkit:failover --resume} (endpoints already updated are skipped)",
    ),
    "repoint_reaches_others": refused(
        "an endpoint also serves clients that stay on the primary",
        hint=(
            "limit it with groups or topics in the settings; or move everything: {drkit:failover "
            "--all}; or send these clients to the target, too: {drkit:--repoint-others}"
        ),
        page="failover-repoint-others",
    ),
    "promoted_elsewhere": refused(
        "clients of these topics write, or are moved, to a third cluster: there would be two primaries",
        hint=(
            "{drkit:status} shows where they are: move them from there; or make a second primary: "
            '{drkit:--despite-signs-of-life "REASON"}'
        ),
        page="failover-already-promoted",
    ),
    "rpo_exceeded": refused("the data loss would exceed rpo_seconds", page="failover-data-loss"),
    "source_alive": refused(
        "the old primary is alive, but this machine cannot reach it",
        hint="run it where the primary answers: then it is fenced, and nothing is lost{accept}",
        page="failover-signs-of-life",
    ),
    "source_unreachable": refused(
        "a planned switchover needs both clusters",
        hint=(
            "bring it back; or fail over without --planned, what is not copied is lost then (one "
            "that has begun is rolled back first: {drkit:failover --abort})"
        ),
        page="failover-planned-not-possible",
    ),
    "standby_begins_later": refused(
        "the standby has removed copied records that the source keeps",
        hint="copy the topic again, or give these records up: {give_up}",
        page="failover-standby-begins-later",
    ),
    "step_unexpected": failed(
        "a step failed with an unexpected error",
        hint=(
            "the run keeps what it has done; repeat the step: {command} --resume; or roll it "
            "back: {command} --abort; and report this with the output of drkit --version"
        ),
    ),
    "switchover_incomplete": refused(
        "the switchover is held: the copy is incomplete, or the source is not fenced",
        hint=(
            "see {drkit:status}, then: {drkit:failover --resume}; or roll it back: {drkit:failover --abort}"
        ),
        page="failover-data-loss",
    ),
    "target_not_ready": refused(
        "the target is not ready to take over",
        hint="start its brokers and let replicas catch up; leave topics out with --group",
        page="failover-target-not-ready",
    ),
    "topic_unknown": wrong("the flow has no copy of topic '{topic}'"),
    "translation_not_reversible": failed(
        "a translated position does not lead back to where it came from",
        hint="roll back ({drkit:failover --abort}) and report it",
    ),
    "unreplayed": refused(
        "records of {topics} are saved in an export and not replayed yet",
        hint="append them first: {command}; or give them up: {to_give_up}",
        page="failover-not-replayed",
    ),
    "wrong_cluster": refused(
        "another cluster answers at the addresses of {alias}",
        hint="correct bootstrap_servers of [clusters.{alias}], then: {drkit:config check --connect}",
        page="failover-wrong-cluster",
    ),
}
