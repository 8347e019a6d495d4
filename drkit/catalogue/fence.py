"""Errors of fences."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "aborted_at_source": refused(
        "the run was aborted at its source while the target was away",
        hint=(
            "end it here as well: drkit failover --abort; where OPEN has begun: drkit failover "
            '--resume --accept-data-loss "REASON"'
        ),
        page="failover-target-away",
    ),
    "acl_fence_opens": refused(
        "a fence by ACL could open topics to readers without any right",
        hint=(
            "set allow_everyone_if_no_acl_found in [clusters.{settings}] as its brokers have it, "
            'or means = "max.message.bytes" in [failover.fence]'
        ),
        page="failover-readers-unknown",
    ),
    "acl_fence_principal_unknown": refused(
        "a fence by ACL could refuse drkit itself: its principal is not known",
        hint='set own_principal = "User:…" in [clusters.{alias}]',
        page="failover-refuses-drkit",
    ),
    "acl_fence_refuses_drkit": refused(
        "a fence by ACL would refuse drkit itself",
        hint=(
            "let writers write by their own principals instead of User:* or drkit's; or remove "
            "canary from [failover.fence]: then drkit is fenced like every client, and proves it "
            "itself"
        ),
        page="failover-refuses-drkit",
    ),
    "acls_not_listable": refused(
        (
            "drkit may not list the ACLs of the old primary: which fence keeps clients off, and "
            "lets drkit in, is unknown"
        ),
        hint=(
            "grant drkit's principal DESCRIBE and ALTER on the cluster, then: {again}; or set "
            'means = "max.message.bytes" in [failover.fence], with which a return needs '
            "--clients-cut"
        ),
        page="reprotect-fence-refuses-drkit",
    ),
    "canary_not_authorized": refused(
        "the canary may not write, fence or not: that it is refused proves nothing",
        hint=(
            "give {who} WRITE on them, or name an ordinary producer as canary in "
            "[failover.fence], then: drkit failover --resume; or continue unfenced: drkit "
            'failover --resume --accept-data-loss "REASON"'
        ),
        page="failover-canary-proves-nothing",
    ),
    "fence_failed": failed(
        "the fence could not be {done}",
        hint="grant drkit's principal ALTER on the cluster and ALTER_CONFIGS on the topics",
    ),
    "fence_leaks": refused(
        "the old primary still takes writes in {partitions}",
        hint="see means and canary in [failover.fence] (super users pass every ACL), then: {then}",
        page="failover-still-takes-writes",
    ),
    "fence_owned": refused(
        "a {table} that is under way owns the fence",
        hint="{command} --resume{then}",
        page="failover-fence-owned",
    ),
    "fence_unproven": failed(
        "the old primary {in_words}",
        hint="bring these brokers back, or stop them, so that others lead, then: {then}",
    ),
    "later_failover": refused(
        "a later failover of these topics has opened the target",
        hint=(
            "bring the target back, then: drkit status --flow '{flow}'; if it is lost: drkit "
            'failover --abort --target-lost "HOW YOU KNOW"'
        ),
        page="failover-target-away",
    ),
    "lift_opens_both": refused(
        "the new primary owns these topics: lifted, both clusters would take writes",
        hint=(
            "keep them fenced; or, if no client writes there any more: drkit fence lift "
            '--accept-divergence "REASON"'
        ),
        page="failover-fence-owned",
    ),
    "no_fence_of_drkit": wrong("drkit has put up no fence for {unknown}", hint="drkit fence show names them"),
    "no_planned_fence": refused(
        "the target does not answer, and the source has no fence of a planned run on record",
        hint="bring the target back, then: drkit failover --abort",
        page="failover-target-away",
    ),
    "not_authorized_to_fence": failed(
        "drkit may not fence its writers on the target",
        hint="grant drkit's principal ALTER on the cluster (ACL), then: drkit failover --resume",
    ),
    "old_primary_not_stopped": failed(
        "the old primary was not stopped", hint="stop its brokers by hand, then: drkit failover --resume"
    ),
    "old_primary_unreachable": failed("the old primary does not answer"),
    "open_transactions": refused(
        "{count} fenced partitions have an open transaction",
        hint=(
            'let their producers end them, or set open_transactions = "abort" in '
            "[failover.fence]; then: drkit failover --resume"
        ),
        page="failover-open-transactions",
    ),
    "open_unknown": refused(
        ("the run was about to open its target: whether it did cannot be known without the target"),
        hint=(
            "bring the target back, then: drkit failover --resume, or --abort; if the target is "
            'lost and stays away from all clients: drkit failover --abort --target-lost "HOW YOU '
            'KNOW"'
        ),
        page="failover-target-away",
    ),
    "opened_meanwhile": refused(
        "the run has opened its target meanwhile",
        hint="see drkit status; to move back, protect the new primary first: drkit reprotect",
        page="failover-target-away",
    ),
    "source_record_untrusted": refused(
        "the record of the fence on the source cannot be trusted",
        hint="find out who writes there besides drkit; with the target: drkit failover --abort",
        page="failover-target-away",
    ),
    "source_record_unwritable": refused(
        "the old primary does not answer: that the target opens cannot be written down there",
        hint=(
            "when it answers: drkit failover --resume; if it is gone: drkit failover --abort, "
            "then a failover without --planned"
        ),
        page="failover-target-away",
    ),
    "suspended_in_abort": failed(
        "this process was suspended in the middle of the abort", hint="repeat it: drkit failover --abort"
    ),
    "target_guard_not_lifted": failed(
        "the guard of the target's topics could not be lifted",
        hint="grant drkit's principal ALTER on the cluster, then: drkit failover --resume",
    ),
}
