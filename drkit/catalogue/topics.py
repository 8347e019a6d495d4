"""Errors of topic synchronisation and replication."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "acl_on_open_cluster": refused(
        "any ACL on an open cluster could refuse drkit itself, whose principal is not known"
    ),
    "copy_name_clash": refused(
        ("the copy's name differs only in '.' and '_' from another topic's: brokers refuse that"),
        hint=(
            "rename one of them, set another naming or separator, or add it to topics_exclude of "
            "the flow (in MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_cycle": refused(
        "the name says that it is a copy from {source}, but it is on {source} itself",
        hint=(
            "set another separator or another alias for {source}, rename the topic, or add it to "
            "topics_exclude of the flow (in MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_invalid": refused(
        "the copy's name is no name for a topic", hint="correct downstream() of the naming policy"
    ),
    "copy_name_long": refused(
        "the copy's name would be too long for Kafka",
        hint=(
            'set naming = "identity", give {source} a shorter alias, or add it to topics_exclude '
            "of the flow (in MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_one_way": refused(
        "the copy's name does not lead back to the topic",
        hint=(
            "correct upstream() of the naming policy, or add it to topics_exclude of the flow (in"
            " MirrorMaker 2's file: topics.exclude)"
        ),
    ),
    "copy_name_reserved": refused(
        ("the copy would have the name of a topic in which Kafka, MirrorMaker 2 or drkit keep state"),
        hint="add it to topics_exclude of the flow (in MirrorMaker 2's file: topics.exclude)",
    ),
    "epochs_ended": failed("the epochs ended by themselves"),
    "foreign_records_in_copy": refused("its copy on the target holds records that drkit did not copy"),
    "internal_topic_deleted": refused("{what} was deleted while the flow ran"),
    "mm2_running": refused(
        "MirrorMaker 2 still copies {flow}",
        hint=("stop its workers, then start again; takeover_from_mm2 takes over from a stopped one only"),
    ),
    "mm2_topic_not_writable": failed(
        "{what} cannot be written",
        hint="check in-sync replicas of the cluster and drkit's permission to write there",
    ),
    "no_topic_matches": wrong(
        "there is nothing to copy: no topic of the source matches",
        hint="see what there is: drkit replicate --dry-run",
    ),
    "permissions_missing": failed("drkit's principal lacks {count} permission{value}"),
    "replicas_impossible": refused(
        "the target cannot hold {wanted} replicas",
        hint=(
            "set replication_factor = {target_brokers} in the flow (in MirrorMaker 2's file: "
            "replication.factor), or add brokers"
        ),
    ),
    "state_deleted": refused(
        "the flow's state was deleted: what was copied, and with which producers, is unknown"
    ),
    "takeover_refused": refused(
        "{flow} cannot be taken over from MirrorMaker 2: nothing was changed in its topics",
        hint=(
            "leave it out (topics_exclude), or delete its copy on the target to copy it from the "
            "start; without takeover_from_mm2 all is copied again after what is there"
        ),
    ),
    "target_promoted": refused(
        "{target} was promoted: {flow} would copy from the old primary over the new one",
        page="failover-already-promoted",
    ),
    "target_stopped_answering": failed("the target stopped answering"),
    "target_topic_fenced": refused(
        "the target topic is fenced",
        hint="lift the fence: take max.message.bytes of the topic back to its default",
    ),
    "target_topic_missing": failed("the target topic is not there yet"),
    "too_many_acls": refused(
        "there are more ACLs than one record of the flow's state can hold",
        hint="grant by prefixes instead of single topics, or set sync_topic_acls = false",
    ),
    "topic_claimed": refused("{reason}"),
    "topic_claimed_twice": refused(
        "two flows would both write topic {topic}", hint='choose disjoint topics, or set naming = "prefix"'
    ),
}
