"""Errors of topic synchronisation and replication."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "acl_on_open_cluster": refused(
        "on a cluster that is open to all, a first ACL could block drkit: its principal is unknown"
    ),
    "copy_name_clash": refused(
        ("the copy's name differs from another topic's only in '.' and '_', which Kafka refuses"),
        hint=(
            "rename one of them, set another naming or separator, or add it to topics_exclude of "
            "the flow (in MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_cycle": refused(
        "the topic's name marks it as a copy from {source}, but it is on {source}",
        hint=(
            "set another separator or another alias for {source}, rename the topic, or add it to "
            "topics_exclude of the flow (in MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_invalid": refused(
        "the copy's name is not a valid topic name", hint="correct downstream() of the naming policy"
    ),
    "copy_name_long": refused(
        "the copy's name would be too long for Kafka",
        hint=(
            'set naming = "identity", give {source} a shorter alias, or add it to topics_exclude '
            "of the flow (in MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_one_way": refused(
        "the copy's name cannot be translated back to the topic",
        hint=(
            "correct upstream() of the naming policy, or add it to topics_exclude of the flow (in"
            " MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_reserved": refused(
        "the copy's name is reserved for internal topics",
        hint="add it to topics_exclude of the flow (in MirrorMaker 2's file: topics.exclude)",
    ),
    "epochs_ended": failed("the replication epochs ended unexpectedly"),
    "foreign_records_in_copy": refused("the topic on the target has records that drkit did not copy"),
    "internal_topic_deleted": refused("{what} was deleted while the flow ran"),
    "mm2_running": refused(
        "MirrorMaker 2 is still copying {flow}",
        hint=("stop its workers, then start again; takeover_from_mm2 takes over from a stopped one only"),
    ),
    "mm2_topic_not_writable": failed(
        "{what} cannot be written",
        hint="check in-sync replicas of the cluster and drkit's permission to write there",
    ),
    "no_topic_matches": wrong(
        "no topic of the source matches this flow", hint="see what there is: {drkit:replicate --dry-run}"
    ),
    "permissions_missing": failed("drkit's principal lacks {count} permission{plural}"),
    "replicas_impossible": refused(
        "the target has too few brokers for {wanted} replicas",
        hint=(
            "set replication_factor = {target_brokers} in the flow (in MirrorMaker 2's file: "
            "replication.factor), or add brokers"
        ),
    ),
    "state_deleted": refused("the flow's state was deleted, so copied offsets and producers are unknown"),
    "takeover_refused": refused(
        "{flow} cannot be taken over from MirrorMaker 2; its topics were not changed",
        hint=(
            "leave it out (topics_exclude), or delete its copy on the target to copy it from the "
            "start; without takeover_from_mm2 all is copied again after what is there"
        ),
    ),
    "target_promoted": refused(
        "{target} was promoted: {flow} would overwrite the new primary", page="failover-already-promoted"
    ),
    "target_topic_fenced": refused(
        "the target topic is fenced",
        hint="lift the fence: reset max.message.bytes of the topic to its default",
    ),
    "target_topic_missing": failed("the target topic does not exist yet"),
    "too_many_acls": refused(
        "the flow's state cannot hold this many ACLs in one record",
        hint="grant by prefixes instead of single topics, or set sync_topic_acls = false",
    ),
    "topic_claimed": refused("{reason}"),
    "topic_claimed_twice": refused(
        "two flows would write topic {topic}", hint='choose disjoint topics, or set naming = "prefix"'
    ),
}
