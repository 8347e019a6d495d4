"""Errors of fences."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "aborted_at_source": refused(
        "the run was rolled back on its source while the target was down",
        hint=(
            "end it here as well: {drkit:failover --abort}; where OPEN has begun: {drkit:failover "
            '--resume --accept-data-loss "REASON"}'
        ),
        page="failover-target-away",
    ),
    "acl_fence_opens": refused(
        "a fence by ACL could give readers access that they do not have now",
        hint=(
            "set allow_everyone_if_no_acl_found in [clusters.{alias}] as its brokers have it, "
            'or means = "max.message.bytes" in [failover.fence]'
        ),
        page="failover-readers-unknown",
    ),
    "acl_fence_principal_unknown": refused(
        "a fence by ACL could block drkit itself: its principal is unknown",
        hint='set own_principal = "User:…" in [clusters.{alias}]',
        page="failover-refuses-drkit",
    ),
    "acl_fence_refuses_drkit": refused(
        "a fence by ACL would block drkit itself",
        hint=(
            "let writers write by their own principals instead of User:* or drkit's; or remove "
            "canary from [failover.fence]: then drkit is fenced like every client, and proves it "
            "itself"
        ),
        page="failover-refuses-drkit",
    ),
    "acls_not_listable": refused(
        "drkit may not list the ACLs of the old primary, so its fence is unknown",
        hint=(
            "grant drkit's principal DESCRIBE and ALTER on the cluster, then: {again}; or set "
            'means = "max.message.bytes" in [failover.fence], with which a return needs '
            "--clients-cut"
        ),
        page="reprotect-fence-refuses-drkit",
    ),
    "canary_not_authorized": refused(
        "the canary has no WRITE permission, so its refusal proves no fence",
        hint=(
            "give {who} WRITE on them, or name an ordinary producer as canary in "
            "[failover.fence], then: {drkit:failover --resume}; or continue unfenced: {drkit:"
            'failover --resume --accept-data-loss "REASON"}'
        ),
        page="failover-canary-proves-nothing",
    ),
    "fence_failed": failed(
        "the fence could not be {done}",
        hint="grant drkit's principal ALTER on the cluster and ALTER_CONFIGS on the topics",
    ),
    "fence_leaks": refused(
        "the old primary still accepts writes in {partitions}",
        hint="see means and canary in [failover.fence] (super users pass every ACL), then: {then}",
        page="failover-still-takes-writes",
    ),
    "fence_owned": refused(
        "a {table} in progress owns the fence", hint="{command} --resume{then}", page="failover-fence-owned"
    ),
    "fence_remains": failed(
        "the source accepted the request to lift the fence, and still refuses writes",
        hint="find out who sets max.message.bytes or these ACLs there, then repeat the command",
    ),
    "fence_unproven": failed(
        "the old primary {state}",
        hint="bring these brokers back, or stop them, so that others lead, then: {then}",
    ),
    "later_failover": refused(
        "a later failover of these topics opened the target",
        hint=(
            "bring the target back, then: {drkit:status --flow '{flow}'}; if it is lost: {drkit:"
            'failover --abort --target-lost "HOW YOU KNOW"}'
        ),
        page="failover-target-away",
    ),
    "lift_opens_both": refused(
        "lifting this fence may let two clusters accept writes",
        hint=(
            'keep them fenced; or, if no client writes there: {drkit:fence lift --accept-divergence "REASON"}'
        ),
        page="failover-fence-owned",
    ),
    "no_fence_of_drkit": wrong("drkit has no fence on {topics}", hint="{drkit:fence show} names them"),
    "no_planned_fence": refused(
        "the target does not answer, and the source has no record of a fenced run",
        hint="bring the target back, then: {drkit:failover --abort}",
        page="failover-target-away",
    ),
    "not_authorized_to_fence": failed(
        "drkit may not fence its own writers on the target",
        hint="grant drkit's principal ALTER on the cluster (ACL), then: {drkit:failover --resume}",
    ),
    "old_primary_not_stopped": failed(
        "the old primary was not stopped", hint="stop its brokers by hand, then: {drkit:failover --resume}"
    ),
    "old_primary_unreachable": failed("the old primary does not answer"),
    "open_transactions": refused(
        "{count} fenced partitions have an open transaction",
        hint=(
            'let their producers end them, or set open_transactions = "abort" in '
            "[failover.fence]; then: {drkit:failover --resume}"
        ),
        page="failover-open-transactions",
    ),
    "open_unknown": refused(
        "without the target it is unknown whether this run already opened it",
        hint=(
            "bring the target back, then: {drkit:failover --resume}, or --abort; if the target is "
            'lost and stays away from all clients: {drkit:failover --abort --target-lost "HOW YOU '
            'KNOW"}'
        ),
        page="failover-target-away",
    ),
    "opened_meanwhile": refused(
        "the run has opened its target meanwhile",
        hint="see {drkit:status}; to move back, protect the new primary first: {drkit:reprotect}",
        page="failover-target-away",
    ),
    "source_record_untrusted": refused(
        "the fence record on the source cannot be trusted",
        hint="find out who writes there besides drkit; with the target: {drkit:failover --abort}",
        page="failover-target-away",
    ),
    "source_record_unwritable": refused(
        "the opening of the target cannot be recorded: the old primary does not answer",
        hint=(
            "when it answers: {drkit:failover --resume}; if it is gone: {drkit:failover --abort}, "
            "then a failover without --planned"
        ),
        page="failover-target-away",
    ),
    "suspended_in_abort": failed(
        "this process was suspended during the abort", hint="repeat it: {drkit:failover --abort}"
    ),
    "target_guard_not_lifted": failed(
        "the write guard on the target's topics could not be removed",
        hint="grant drkit's principal ALTER on the cluster, then: {drkit:failover --resume}",
    ),
}
