"""Errors of a failover."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "all_promoted": refused(
        "everything that the flow copies has moved: there is nothing left to fail over",
        hint="drkit status says who is active; to move back, protect the new primary first",
        page="failover-already-promoted",
    ),
    "fence_possible_now": failed(
        "the old primary answers: it can be fenced now",
        hint=(
            "once it answers, drkit failover --resume fences it, or drkit fence pay when the "
            "failover is over; else close its listeners"
        ),
    ),
    "flow_not_frozen": failed("the flow would copy again"),
    "foreign_writes": refused(
        ("{partitions} records on the standby that another producer wrote there since the turn"),
        hint=(
            "cut that client off; this version neither removes these records nor goes on behind "
            "them, see drkit explain failover-written-standby"
        ),
        page="failover-written-standby",
    ),
    "group_on_old_side": refused(
        (
            "the group {group} has committed on the side that a turn has made passive: a consumer"
            " still lives there"
        ),
        page="failover-positions-in-return",
    ),
    "group_unknown": wrong("the group '{group}' has no committed offsets in a topic that the flow copies"),
    "group_worked_on_target": refused(
        ("the group {group} has committed by itself on the target: its position there is its own"),
        page="failover-own-positions",
    ),
    "hanging_transactions": refused(
        "{transactional_ids} on the target: its producer would fail there",
        hint=(
            "restart these brokers, one after another: then the markers are written, and drkit's "
            "copy goes on by itself"
        ),
        page="failover-hanging-transactions",
    ),
    "heartbeats_from_the_future": refused(
        "the newest heartbeats are from the future: what would be lost is not known",
        hint=(
            "correct the clocks of this machine and of the replicator's (NTP); or accept the loss"
            ' by name: --accept-data-loss "REASON"'
        ),
        page="failover-data-loss",
    ),
    "home_acls_of_drkit": refused(
        "of ACLs that only home has, drkit's own cannot be told from those of clients",
        hint=('set own_principal = "User:…" in [clusters.{home}]; or keep them: --acls-only-home keep'),
        page="failover-acls-only-home",
    ),
    "home_acls_shared": refused(
        "ACLs that only home has are also about topics or groups that do not return",
        hint="replace these by hand by ACLs of what returns; or keep them: --acls-only-home keep",
        page="failover-acls-only-home",
    ),
    "home_acls_unknown": refused(
        "what clients may do at home, and not where they are now, is unknown",
        hint=(
            "grant drkit's principal DESCRIBE on both clusters; or return without a comparison: "
            "--acls-only-home keep"
        ),
        page="failover-acls-only-home",
    ),
    "home_acls_wider": refused(
        "clients would be allowed at home what they may not do where they are now",
        hint=(
            "revoked on {here} since? --acls-only-home remove removes these before clients "
            "return; if they are right, --acls-only-home keep, or grant them on {here}, too"
        ),
        page="failover-acls-only-home",
    ),
    "hook_without_effect": failed(
        "the site's hook ended, and the old primary still takes connections",
        hint="stop its brokers by hand, then: drkit failover --resume",
    ),
    "loss_unknown": refused(
        "what would be lost is not known",
        hint=('find out with: drkit status; or accept the loss by name: --accept-data-loss "REASON"'),
        page="failover-data-loss",
    ),
    "members_not_removed": failed(
        "members of groups could not be removed", hint="stop these consumers, then: {command}"
    ),
    "members_on_target": refused(
        "the group {group} has members on the target: its position there cannot be set",
        page="failover-live-members",
    ),
    "new_primary_refuses": failed(
        "partitions of the new primary take no records",
        hint="start the brokers that lead them, lift fences; then: drkit failover --resume",
    ),
    "newer_term": refused(
        "{count} of {count2} ways lead to a newer term",
        hint="a later run moved the clients: see who with drkit repoint show",
        page="failover-newer-term",
    ),
    "no_exact_position": refused(
        "no exact position for {groups}",
        hint=(
            "{translate_group} says more; to leave them without a position: drkit failover "
            '--resume --accept-data-loss "REASON"; or drkit failover --abort'
        ),
        page="failover-no-exact-position",
    ),
    "no_quorum": refused(
        "too few observers say that the old primary is gone",
        hint=(
            "start the missing drkit watch, or correct what keeps this machine from seeing the "
            'primary; or, if you know that it is gone: --without-quorum "REASON"'
        ),
        page="failover-no-quorum",
    ),
    "no_replicator": refused(
        "a planned switchover needs a running replicator: it copies what is left",
        hint="start it: drkit replicate --flow '{flow}'",
        page="failover-planned-not-possible",
    ),
    "not_copied": refused(
        "a switchover of everything would leave behind {topics} without a copy",
        hint=(
            "let drkit replicate copy them; or leave them out of the flow with topics_exclude; or"
            " leave them on the primary by name: {leave_behind}"
        ),
        page="failover-topics-not-copied",
    ),
    "not_copied_back": refused(
        "topics are not wholly copied back to the target",
        hint=(
            "bring {source} back and let the copy end: drkit status; or accept the loss by name: "
            '--accept-data-loss "REASON"'
        ),
        page="failover-data-loss",
    ),
    "not_open": failed(
        "the target is not open as it should be", hint="drkit failover --resume applies it again"
    ),
    "nothing_to_move": wrong(
        "there is nothing to move: the flow has copied no topic",
        hint="copy first: drkit replicate --flow '{flow}'",
    ),
    "old_primary_back": failed(
        "the old primary is back",
        hint=(
            "once it answers, drkit failover --resume fences it, or drkit fence pay when the "
            "failover is over; else close its listeners"
        ),
    ),
    "older_writers": failed(
        "{count} of {count2} partitions do not refuse drkit's older writers yet",
        hint=(
            "start the brokers that lead them, then: drkit failover --resume; or roll it back: "
            "drkit failover --abort"
        ),
    ),
    "open_refused": failed(
        "the target refused {what}",
        hint=("grant drkit ALTER_CONFIGS on topics and ALTER on the cluster, then: drkit failover --resume"),
    ),
    "pending_offsets": refused(
        "an open transaction holds offsets of {groups}: their positions are not known yet",
        hint=(
            'let these producers end their transactions, or set open_transactions = "abort" in '
            "[failover.fence]; then: drkit failover --resume"
        ),
        page="failover-open-transactions",
    ),
    "position_not_written": failed(
        "a position of the group {group} cannot be written: {verdict}",
        hint="{translate_group} says more; then: drkit failover --resume",
    ),
    "positions_differ": failed(
        "the target keeps other positions than were written",
        hint="who else commits for these groups? stop it, then: drkit failover --resume",
    ),
    "positions_not_stored": failed(
        "the target did not store positions of groups",
        hint="a member that joined just now? stop it, then: drkit failover --resume",
    ),
    "promoted": refused(
        "these topics were opened by an earlier failover: producers own them on the target",
        hint="drkit status says who is active; to move back, protect the new primary first",
        page="failover-already-promoted",
    ),
    "record_not_kept": failed(
        "the new primary does not keep a record",
        hint="look at these brokers' logs and disks, then: drkit failover --resume",
    ),
    "recreated_on_old_primary": refused(
        ("topics were created again on the old primary: the standby has copies of the earlier ones"),
        hint=(
            "find out who creates them (auto.create.topics.enable); delete them there if nobody "
            "needs their records, then: drkit failover --resume; or roll it back: drkit failover "
            "--abort"
        ),
        page="failover-topics-not-copied",
    ),
    "repoint_failed": failed(
        "{count} of {count2} ways could not tell the clients",
        hint="correct them, then: drkit failover --resume (the others stay told)",
    ),
    "repoint_reaches_others": refused(
        "a repoint way also reaches clients that remain on the primary",
        hint=(
            "limit it with groups or topics in the settings; or move everything: drkit failover "
            "--all; or send these clients to the target, too: --repoint-others"
        ),
        page="failover-repoint-others",
    ),
    "rpo_exceeded": refused("more would be lost than rpo_seconds allows", page="failover-data-loss"),
    "same_cluster": refused(
        "{source} and {target} lead to the same cluster",
        hint=(
            "a host name may point to the other side by now: correct bootstrap_servers, then: "
            "drkit config check --connect"
        ),
        page="failover-wrong-cluster",
    ),
    "source_alive": refused(
        "the old primary does not answer this machine, but it is alive",
        hint=(
            "run it where the primary answers: then it is fenced, and nothing is lost; or, if no "
            'application reaches it: --despite-signs-of-life "REASON"'
        ),
        page="failover-signs-of-life",
    ),
    "source_unreachable": refused(
        "a planned switchover needs both clusters",
        hint=(
            "bring it back; or fail over without --planned, what is not copied is lost then (one "
            "that has begun is rolled back first: drkit failover --abort)"
        ),
        page="failover-planned-not-possible",
    ),
    "step_unexpected": failed(
        "a step met something that drkit does not foresee",
        hint=(
            "the run keeps what it has done; repeat the step: {command} --resume; or roll it "
            "back: {command} --abort; and report this with the output of drkit --version"
        ),
    ),
    "switchover_incomplete": refused(
        "the switchover is held: the copy is not complete, or the source is not fenced",
        hint=("see drkit status, then: drkit failover --resume; or roll it back: drkit failover --abort"),
        page="failover-data-loss",
    ),
    "target_not_ready": refused(
        "the target is not ready to take over",
        hint="start its brokers and let replicas catch up; leave topics out with --group",
        page="failover-target-not-ready",
    ),
    "target_unreachable": failed(
        "the target stopped answering", hint="check the target: drkit config check --connect"
    ),
    "target_unreachable_in_step": failed(
        "the target does not answer", hint="check it: drkit config check --connect"
    ),
    "topic_unknown": wrong("the flow has no copy of the topic '{topic}'"),
    "translation_not_reversible": failed(
        "a translated position does not lead back to where it came from",
        hint="roll back (drkit failover --abort) and report it",
    ),
    "unreplayed": refused(
        "records that were to be replayed are in an export alone, of {topics}",
        hint="append them first: {command}; or give them up by name: {to_give_up}",
        page="failover-not-replayed",
    ),
    "wrong_cluster": refused(
        "the name {found} leads to another cluster",
        hint="correct bootstrap_servers of [clusters.{found}], then: drkit config check --connect",
        page="failover-wrong-cluster",
    ),
}
