"""Errors about the old primary, its lost records, and topics that were emptied."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "can_still_fail_back": refused(
        "{topics} can still come home",
        hint=(
            "{source} may have the only copy of its records: save them with drkit divergence "
            "export --flow '{flow}' --to DIR; if nothing of it is wanted there, delete the topic "
            "on {source} yourself, then type it again; what {target} has as it was promoted comes"
            " home: {command} --flow '{flow}' --topic TOPIC"
        ),
        page="reprotect-forget",
    ),
    "deleted_records_back": failed(
        "records that were deleted on the old primary are back", hint="{command} --resume deletes them again"
    ),
    "emptied_not_copied_again": refused(
        "topics that were emptied are not copied again",
        hint="let {copy} run; then {command} --resume, with another --copy-limit if it is too low",
        page="reprotect-emptying",
    ),
    "emptied_records_back": failed(
        "partitions that were emptied begin with records from before the turn again",
        hint="drkit failover --resume empties them again",
    ),
    "emptied_starts_unknown": failed(
        "where emptied partitions begin is unknown", hint="check the cluster, then try again"
    ),
    "empty_refused": refused("a cluster refuses to empty partitions", page="reprotect-emptying"),
    "fence_refuses_drkit": refused(
        "the fence of the old primary would refuse drkit itself",
        hint=(
            'set own_principal = "User:…" in [clusters.{settings}]; let writers write by own '
            "principals instead of User:* or drkit's"
        ),
        page="reprotect-fence-refuses-drkit",
    ),
    "forget_run_under_way": refused(
        "a run is under way that may be about these topics", page="reprotect-forget"
    ),
    "forget_unreplayed": refused(
        "an export alone has records that were to be appended",
        hint="{command}; or give them up: {to_give_up}",
        page="reprotect-forget",
    ),
    "guard_failed": failed(
        "the fence of the old primary could not become its guard",
        hint=(
            "grant drkit's principal ALTER on the cluster; then the same command again, with "
            "--resume or --abort"
        ),
    ),
    "guard_not_authorized": refused(
        ("the fence of the old primary cannot become its guard: drkit may not list or change its ACLs"),
        hint=("grant drkit's principal DESCRIBE and ALTER on the cluster, then: drkit reprotect --resume"),
        page="reprotect-fence-refuses-drkit",
    ),
    "hold_not_promoted": refused(
        "only what a failover has promoted can be held",
        hint="drkit status says who is active and what protects it",
        page="reprotect-not-ready",
    ),
    "late_fence_refuses_drkit": refused(
        "the fence of the old primary refuses drkit, too, and nothing else keeps clients off",
        hint="{cut}: {command}",
        page="reprotect-fence-refuses-drkit",
    ),
    "members_on_old_primary": refused(
        "{groups} members on the old primary: they would read there what comes back",
        hint=(
            "stop or repoint these consumers, then: {command}; members that have ended leave "
            "within session.timeout.ms (45 s by default); those that are not reached by anybody: "
            "{command2}"
        ),
        page="reprotect-members",
    ),
    "new_retention_failed": failed(
        "the retention of {topics} of the new primary could not be {done}",
        hint="grant drkit's principal ALTER_CONFIGS on topics there, then type it again",
    ),
    "not_emptied": failed(
        "partitions could not be emptied",
        hint="check its brokers: each replica on a live one must delete; then continue",
    ),
    "not_promoted": refused(
        "only the promotion of a topic can be forgotten",
        hint="drkit status names the promoted topics",
        page="reprotect-forget",
    ),
    "nothing_promoted": wrong(
        "no failover of this flow has promoted a topic",
        hint="drkit divergence is for the time after drkit failover",
    ),
    "old_primary_replaced": refused(
        "the old primary is another cluster than the one that was copied",
        hint=(
            "correct bootstrap_servers of [clusters.{source}]; where another cluster takes its "
            "place: {command}"
        ),
        page="reprotect-wrong-pair",
    ),
    "old_primary_stopped_answering": refused(
        "the old primary stopped answering", hint="bring it back, then export again", page="export-not-whole"
    ),
    "old_retention_failed": failed(
        "the retention of {topics} of the old primary could not be {done}",
        hint=("grant drkit's principal ALTER_CONFIGS on topics there, then: drkit reprotect --resume"),
    ),
    "partition_unreadable": failed("a partition cannot be read"),
    "tail_unknown": refused(
        "what some partitions have is not known, so the export would not be whole",
        hint="bring the brokers of the old primary back, or name other topics with --topic",
        page="export-not-whole",
    ),
    "tail_unreachable": refused(
        "the old primary does not answer: what only it has cannot be exported",
        hint="bring it back with its disks, then export again",
        page="export-not-whole",
    ),
    "topics_not_promoted": wrong(
        "no failover has promoted {lacking}",
        hint="name topics as the old primary does; drkit divergence lists them",
    ),
    "topics_unknown": failed(
        "whether {topics} exist is unknown",
        hint="grant drkit's principal DESCRIBE on them, then type it again",
    ),
}
