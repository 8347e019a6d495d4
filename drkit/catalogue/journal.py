"""Errors of failover runs and their journal."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong
from drkit.catalogue.flow import HOW_TO_ADOPT

ERRORS: Final[dict[str, Entry]] = {
    "adopt_flow_running": refused(
        "the flow is running: its new records would be overwritten",
        hint="stop that process (SIGTERM), then: {drkit:control adopt}",
        page="failover-control-key",
    ),
    "adopt_name_unknown": wrong(
        "no record without a valid MAC has this name", hint="{drkit:control check} lists the names: {known}"
    ),
    "adopt_nothing_signed": refused(
        "records without a valid MAC may be drkit's own: its state would be deleted",
        hint=(
            "sign them: {drkit:control adopt --again}; or name the key that signed them in previous_key_files"
        ),
        page="failover-control-key",
    ),
    "adopt_state_changing": refused(
        "another process changes the flow's state: its records would be overwritten",
        hint="stop drkit replicate, and let drkit failover end; then: {drkit:control adopt}",
        page="failover-control-key",
    ),
    "choice_of_other_topic": refused(
        "an option names a topic that does not fail back",
        hint="these do: {topics}; without that choice: {command}",
        page="reprotect-undecided",
    ),
    "control_key_mismatch": refused(
        "the control key of this host is not the key of the pair",
        hint=(
            "give this host the key file of a host where {drkit:status} works: {drkit:config check} names the"
            " fingerprint; if all hosts have this key, find out who writes there besides drkit, and deny it"
        ),
        page="failover-control-key",
    ),
    "decided_too_late": refused(
        "this choice is too late: topics of the failback are already in progress",
        hint=(
            "{command} --abort, then a return of the topics that had not begun may decide "
            "otherwise; or {command} --resume without these; what is discarded can be replayed "
            "later: {drkit:replay --from MANIFEST}"
        ),
        page="reprotect-undecided",
    ),
    "journal_copy_unreadable": failed(
        "this machine's copy of the failover journal cannot be read",
        hint="the target's journal decides: move this file away to continue",
    ),
    "journal_entry_lost": refused(
        "the failover journal on the target lacks an entry that this machine wrote",
        hint=(
            "was drkit-failover.*.internal deleted, or the target restored? compare both clusters"
            " by hand; remove the file to continue with what the target has"
        ),
        page="failover-journal-lost",
    ),
    "journal_entry_vanished": failed(
        "an acknowledged journal entry cannot be read back",
        hint="check the topic's in-sync replicas and unclean.leader.election.enable = false",
    ),
    "journal_fenced": failed("another process took over the journal"),
    "journal_foreign_run": refused(
        "the failover journal on the target has a run that drkit did not start",
        hint=("find out who writes to drkit-failover.*.internal; {drkit:explain failover-journal-lost}"),
        page="failover-journal-lost",
    ),
    "journal_not_understood": failed(
        "the failover journal has a record of a newer drkit",
        hint="use the drkit that wrote it, or a newer one",
    ),
    "journal_not_writable": failed(
        "drkit may not write the failover journal",
        hint="grant drkit's principal READ, WRITE and CREATE on topics with the prefix 'drkit-'",
    ),
    "journal_older": refused(
        "the failover journal on the target is older than the end of its run",
        hint=(
            "find out who restored it; check that clients and groups are on the new primary, then end the "
            'run: {drkit:failover --resume --accept-data-loss "REASON"}'
        ),
        page="failover-journal-lost",
    ),
    "journal_run_lost": refused(
        "the failover journal on the target lacks a run that drkit started",
        hint=(
            "find out who deleted the journal. What the run did is still done: see {drkit:status} "
            "and {drkit:fence show}; {drkit:explain failover-journal-lost} says when to begin again. "
            "When the run is over, move the file away"
        ),
        page="failover-journal-lost",
    ),
    "journal_unreachable": failed(
        "the failover journal does not answer",
        hint="check the target's brokers and in-sync replicas, then: {command} --resume, or --abort",
    ),
    "journal_unsigned": refused(
        "the failover journal has no valid MAC of the control key",
        hint=HOW_TO_ADOPT + "; where there never was a failover: {drkit:control adopt --discard TOPIC}",
        page="failover-control-key",
    ),
    "never_copied": refused(
        "this cluster has no copy of the flow's topics",
        hint=(
            "copy first: {drkit:replicate --flow '{flow}'}; if clients moved to its source, which is lost, "
            "this opens what they left: {drkit:failover --flow '{flow}' --all --accept-data-loss \"REASON\"}"
        ),
        page="failover-nothing-copied",
    ),
    "no_control_key": wrong(
        "no control key is configured",
        hint=("{drkit:control create PATH}, the same file on every host; then set key_file in [control]"),
    ),
    "no_reverse_flow": wrong(
        "no flow copies from {target} to {source}",
        hint='add it: [[flows]] source = "{target}", target = "{source}"',
    ),
    "no_run": wrong(
        "there is no failover to {verb}",
        hint=(
            "begin one: {drkit:failover --group G}, or --all; a return begins with drkit reprotect, "
            "and drkit failback moves clients back"
        ),
    ),
    "point_of_no_return": refused(
        "{last_abort} has passed: the run cannot be rolled back", page="failover-no-way-back"
    ),
    "run_held": refused(
        "a {table} is held", hint="clear the reason, then: {commands}", page="failover-another-orchestrator"
    ),
    "run_interrupted": failed("it was stopped by a signal before its point of no return"),
    "run_locked": refused("another process runs this {table}", page="failover-another-orchestrator"),
    "signing_failed": failed(
        "drkit's records could not be signed",
        hint=("check its in-sync replicas, and drkit's right to write there; then: {drkit:control adopt}"),
    ),
    "state_younger": refused(
        "the flow's state on {target} is younger than its failover journal, so roles are unknown",
        hint=(
            "find out who deleted it, and delete nothing more: {target} may have the only copy of what"
            " clients wrote since; {drkit:status} shows the roles in the journal"
        ),
        page="failover-journal-lost",
    ),
    "unstable_preconditions": refused(
        "the preconditions of the failover keep changing",
        hint="stop it or let it run, then: {drkit:failover --resume}; or {drkit:failover --abort}",
        page="failover-not-stable",
    ),
}
