"""Errors of a flow's state, its leases and its offset map."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused

HOW_TO_ADOPT: Final = (
    "if it was written before this pair had a control key: {drkit:control adopt}; if another process of drkit"
    " has another key, or none: give it this one; if you restored the topic: {drkit:control adopt --again};"
    " else find out who writes there besides drkit, and deny it"
)
ERRORS: Final[dict[str, Entry]] = {
    "copy_not_empty": refused(
        "a copy is not empty up to where its seed begins",
        hint=("its brokers have brought back what was deleted: {drkit:reprotect --resume} empties it again"),
    ),
    "copy_start_unknown": failed(
        "where a copy begins is unknown", hint="check the cluster, then: {drkit:reprotect --resume}"
    ),
    "copy_unreadable": failed(
        "the copy of a partition cannot be looked at",
        hint="check the target cluster, then: {drkit:reprotect --resume}",
    ),
    "flow_without_producer_id": failed(
        "the flow has no producer id",
        hint="give the flow a new live producer id, then begin the direction again",
    ),
    "internal_topic_refuses": failed(
        "an internal topic on the target does not accept records",
        hint="check brokers and in-sync replicas of the target cluster",
    ),
    "lease_expired": failed(
        "the lease of {flow} was not renewed in time",
        hint="check the target cluster, and whether this machine was suspended",
    ),
    "lease_held": refused(
        "another run replicates {flow}",
        hint=(
            "stop that process (SIGTERM); its lease ends {ttl_ms:.0f} s after its last renewal; "
            "{drkit:replicate --standby} waits for that and takes over"
        ),
    ),
    "lease_lost": failed("{reason}"),
    "lease_not_renewed": failed(
        "the lease of {flow} could not be renewed",
        hint="check the target cluster, and drkit's permission on its transactional ids",
    ),
    "lease_taken": refused("another run of {flow} took over", hint="see who: {drkit:status}"),
    "lease_unknown": failed(
        "the holder of the lease of {flow} is unknown",
        hint="list and abort hanging transactions on the target",
    ),
    "lease_wait_cancelled": failed("cancelled while waiting for the lease"),
    "map_buckets_differ": failed(
        "the offset map was created with another number of buckets",
        hint="set buckets = {count} in the flow {flow}",
    ),
    "map_deleted": refused("the offset map was deleted, so the copied offsets are unknown"),
    "map_missing": failed(
        "the offset map topic does not exist",
        hint="was it deleted? drkit replicate recreates it and copies from the start",
    ),
    "map_recreated": failed(
        "the offset map was deleted and recreated", hint="start drkit again: it reports what is left to do"
    ),
    "map_refuses": failed(
        "the offset map does not accept records",
        hint="check brokers and in-sync replicas of the target cluster",
    ),
    "map_taken": failed("another task took over this part of the flow"),
    "map_unreadable": failed(
        "the offset map cannot be read to its end",
        hint="start drkit replicate or drkit failover, which end drkit's own transactions; abort others",
    ),
    "opposite_flow_unnamed": refused(
        "an opposite flow that opposite_flows does not list copies into this topic",
        hint=(
            "if that flow is yours: opposite_flows = {listed} leaves out what it wrote; if there "
            "is no such flow: opposite_flows = [] copies everything"
        ),
    ),
    "producer_id_not_new": refused(
        "producer id {producer_id} was used by this flow before",
        hint="give the flow a new live producer id, then begin the direction again",
    ),
    "producer_replaced": failed(
        "a failover or failback replaced this flow's producer",
        hint="nothing: the flow starts again with the new one",
    ),
    "promoted_by_failover": refused(
        "the topic was promoted by failover {run_id} and has not failed back",
        hint="{to_reprotect} saves these, then makes {target} its standby",
    ),
    "promoted_by_switchover": refused(
        "the topic was promoted by switchover {run_id} and has not failed back",
        hint="{to_reprotect} makes {target} its standby",
    ),
    "reverse_flow_not_acknowledged": failed(
        "the running opposite flow does not exclude what this flow would write",
        hint=(
            "see whether its configuration names this flow (opposite_flows) and what that run "
            'does, stop it (SIGTERM) or set naming = "prefix" in one of the two flows'
        ),
    ),
    "reverse_state_unreadable": failed(
        "the state of the opposite flow cannot be read to its end",
        hint="list and abort hanging transactions on the source",
    ),
    "seed_end_differs": refused(
        "a copy does not end at the offset of its seed",
        hint=(
            "find out who writes there, and stop it; only a new return compares and saves what it"
            " wrote: {drkit:reprotect --abort}, then begin again"
        ),
    ),
    "source_replaced": refused(
        "the source is another cluster than the one before the failover",
        hint=(
            "correct bootstrap_servers of {source}; if this cluster replaces the old primary: "
            "{reprotect} {source_id}"
        ),
    ),
    "state_foreign_record": refused(
        "another writer replaced a record of the flow's state",
        hint=(
            "find out who writes there besides drkit, and deny it; write the record that was "
            "there under this key again; or, to copy from the start where no failover has promoted "
            "them, delete the copied topics and the flow's state topic on the target"
        ),
    ),
    "state_unsigned": refused("the flow's state has no valid MAC of the control key", hint=HOW_TO_ADOPT),
    "target_renamed": refused(
        "the flow's target has another alias in the file of its replicator",
        hint="call it {named} in this file",
    ),
    "transaction_left_open": failed(
        "drkit may not end a transaction that an earlier task left open",
        hint="grant ALTER on the target cluster to drkit's principal",
    ),
    "write_time_over": failed("this task's right to write has expired"),
}
