"""Errors about the old primary, its lost records, and topics that were emptied."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "can_still_fail_back": refused(
        "{topics} can still fail back",
        hint=(
            "{source} may have the only copy of its records: save them with {drkit:divergence "
            "export --flow '{flow}' --to DIR}; if nothing of it is wanted there, delete the "
            "topic on {source} yourself, then repeat the command; to return what {target} "
            "still has: {command} --flow '{flow}' --topic TOPIC"
        ),
        page="reprotect-forget",
    ),
    "deleted_records_back": failed(
        "deleted records are back on the old primary", hint="{command} --resume deletes them again"
    ),
    "emptied_not_copied_again": refused(
        "emptied topics are not copied back yet",
        hint="let {copy} run; then {command} --resume, with another --copy-limit if it is too low",
        page="reprotect-emptying",
    ),
    "emptied_records_back": failed(
        "emptied partitions have records from before the switchover again",
        hint="{drkit:failover --resume} empties them again",
    ),
    "emptied_starts_unknown": failed(
        "the start offsets of emptied partitions are unknown", hint="check the cluster, then try again"
    ),
    "empty_refused": refused("a cluster refuses to delete records", page="reprotect-emptying"),
    "fence_refuses_drkit": refused(
        "the fence on the old primary would block drkit itself",
        hint=(
            'set own_principal = "User:…" in [clusters.{alias}]; let writers write by own '
            "principals instead of User:* or drkit's"
        ),
        page="reprotect-fence-refuses-drkit",
    ),
    "forget_run_under_way": refused("a run in progress may include these topics", page="reprotect-forget"),
    "forget_unreplayed": refused(
        "records to replay exist only in an export",
        hint="{command}; or give them up: {to_give_up}",
        page="reprotect-forget",
    ),
    "guard_failed": failed(
        "the fence on the old primary could not be converted to a write guard",
        hint=(
            "grant drkit's principal ALTER on the cluster; then the same command again, with "
            "--resume or --abort"
        ),
    ),
    "guard_not_authorized": refused(
        "the fence cannot be converted to a write guard: drkit may not list or change ACLs",
        hint=("grant drkit's principal DESCRIBE and ALTER on the cluster, then: {drkit:reprotect --resume}"),
        page="reprotect-fence-refuses-drkit",
    ),
    "hold_not_promoted": refused(
        "only promoted topics can be held",
        hint="{drkit:status} shows which cluster is active and what protects it",
        page="reprotect-not-ready",
    ),
    "late_fence_refuses_drkit": refused(
        "the fence on the old primary blocks drkit too, and nothing else blocks clients",
        hint="{cut}: {command}",
        page="reprotect-fence-refuses-drkit",
    ),
    "members_on_old_primary": refused(
        "{groups} members on the old primary: they would read the copied records there",
        hint=(
            "stop or repoint these consumers, then: {command}; members that have ended leave "
            "within session.timeout.ms (45 s by default); those that are not reached by anybody: "
            "{evict_command}"
        ),
        page="reprotect-members",
    ),
    "new_retention_failed": failed(
        "the retention of {topics} on the new primary could not be {done}",
        hint="grant drkit's principal ALTER_CONFIGS on topics there, then type it again",
    ),
    "not_emptied": failed(
        "records of some partitions could not be deleted",
        hint="check its brokers: each replica on a live one must delete; then continue",
    ),
    "not_promoted": refused(
        "only promoted topics can be forgotten",
        hint="{drkit:status} names the promoted topics",
        page="reprotect-forget",
    ),
    "nothing_promoted": wrong(
        "no failover of this flow has promoted a topic",
        hint="{drkit:divergence} is for the time after drkit failover",
    ),
    "old_primary_replaced": refused(
        "this is not the old primary: its cluster id differs",
        hint=("correct bootstrap_servers of [clusters.{source}]; if another cluster replaces it: {command}"),
        page="reprotect-wrong-pair",
    ),
    "old_primary_stopped_answering": refused(
        "the old primary stopped answering", hint="bring it back, then export again", page="export-not-whole"
    ),
    "old_retention_failed": failed(
        "the retention of {topics} on the old primary could not be {done}",
        hint=("grant drkit's principal ALTER_CONFIGS on topics there, then: {drkit:reprotect --resume}"),
    ),
    "partition_unreadable": failed("a partition cannot be read"),
    "tail_unknown": refused(
        ("the unreplicated records of some partitions are unknown, so the export would be incomplete"),
        hint="bring the brokers of the old primary back, or name other topics with --topic",
        page="export-not-whole",
    ),
    "tail_unreachable": refused(
        "the old primary does not answer, so its unreplicated records cannot be exported",
        hint="bring it back with its disks, then export again",
        page="export-not-whole",
    ),
    "topics_not_promoted": wrong(
        "no failover has promoted {topics}",
        hint="name topics as the old primary does; {drkit:divergence} lists them",
    ),
    "topics_unknown": failed(
        "drkit cannot tell whether {topics} exist",
        hint="grant drkit's principal DESCRIBE on them, then type it again",
    ),
}
