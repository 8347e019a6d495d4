"""Errors of a failback."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused

ERRORS: Final[dict[str, Entry]] = {
    "compare_interrupted": failed("the old primary stopped answering", page="export-not-whole"),
    "copy_end_unrecorded": failed(
        "where the new primary begins is not on record",
        hint="this version cannot bring it home",
        page="reprotect-not-ready",
    ),
    "copy_end_unrecorded_role": refused(
        "where the new primary begins is not on record",
        hint=(
            "drkit divergence --flow '{flow}' says what only {source} has; this version cannot bring it home"
        ),
        page="reprotect-not-ready",
    ),
    "decision_missing": refused(
        "somebody has to decide before the old primary's partitions are emptied", page="reprotect-undecided"
    ),
    "deleted_keys_return": refused(
        "keys that clients have deleted since the failover could come back", page="replay-not-comparable"
    ),
    "delta_out_of_order": refused(
        ("the method delta would leave records in front of those of the new primary, or without them"),
        hint="{command}, or =trim",
        page="reprotect-method-not-sound",
    ),
    "dry_run_of_held_run": refused(
        "a run of this stage is under way: a dry run shows one that would begin",
        hint="drkit failback continues it",
        page="failover-another-orchestrator",
    ),
    "export_not_as_recorded": refused(
        "records of the old primary are not saved as the journal says: nothing is emptied",
        hint="drkit divergence verify MANIFEST; then {abort}",
        page="reprotect-changed-meanwhile",
    ),
    "export_place_missing": refused(
        "{records} only on the old primary, and where to save them was not said",
        hint="name a folder or a URL that is kept: {command}",
        page="reprotect-undecided",
    ),
    "export_short": refused(
        "the export has fewer records than only the old primary has: nothing may be emptied",
        hint=("its retention or its cleaner may have been at work: {again} compares and exports again"),
        page="reprotect-changed-meanwhile",
    ),
    "failover_under_way": refused("a failover is under way", page="failover-another-orchestrator"),
    "fewer_partitions": refused(
        "the old primary has partitions that the new one has not",
        hint=(
            "give the topic as many partitions on {target}, then: {command}; or save what is "
            "there: drkit divergence export --flow '{flow}' --to DIR; then delete the topic on "
            "the old primary"
        ),
        page="reprotect-not-ready",
    ),
    "given_up": refused(
        "the records of a topic were given up, and a return does not append them",
        hint="{left_out}; to append the records all the same, from their export: {commands}",
        page="reprotect-undecided",
    ),
    "group_committed_on_old": refused(
        "a group has committed on the old primary since its positions were marked",
        hint="stop this consumer, then {abort}",
        page="reprotect-changed-meanwhile",
    ),
    "group_positions_not_stored": failed(
        "the old primary does not store the positions of its groups",
        hint="stop consumers that still work there, then: drkit reprotect --resume",
    ),
    "groups_before_trim": refused(
        "{groups} would have no position on a trimmed partition",
        hint=(
            "let them read on, past the moment of the failover; or the method rebuild, which "
            "keeps every position: {command}"
        ),
        page="reprotect-method-not-sound",
    ),
    "keep_after_kept": refused(
        "the copy had not passed an earlier tail that a return has kept", page="reprotect-method-not-sound"
    ),
    "keep_compacted": refused(
        ("a tail of a compacted topic cannot be kept: each side would have another newest value of a key"),
        page="reprotect-method-not-sound",
    ),
    "keep_contradicts": refused(
        ("the method keep makes the tail a part of both logs, and another disposition was chosen"),
        hint="{command}; or: {command2}",
        page="reprotect-method-not-sound",
    ),
    "keep_lost_records": refused(
        "a tail of which the old primary has lost records cannot be kept", page="reprotect-method-not-sound"
    ),
    "keep_mixed": refused(
        "records of the new primary stand in a tail that is to be kept", page="reprotect-method-not-sound"
    ),
    "keep_not_appended": failed(
        "the tail that is to be kept was not appended as a whole", hint="{command} --resume"
    ),
    "keep_tail_lost": refused(
        "the old primary has lost records of a tail that is to be kept",
        hint="the export has them: {command} --abort; then {command2}",
        page="reprotect-changed-meanwhile",
    ),
    "keep_unproven": refused(
        ("the method keep needs a proven beginning, and records behind it that only the old primary has"),
        page="reprotect-method-not-sound",
    ),
    "kept_tail_missing": failed(
        "a tail that is to be kept is not on the new primary", hint="drkit reprotect --resume"
    ),
    "new_primary_lost_records": refused(
        ("the new primary has lost records that it had when it was promoted: nothing can be trimmed there"),
        hint="{command}, with --disposition TOPIC=replay for these",
        page="reprotect-method-not-sound",
    ),
    "new_primary_removed_first": refused(
        "the new primary has removed what clients wrote there first since the failover",
        hint="raise the retention of these topics there; give up by name what is gone: {command}",
        page="reprotect-method-not-sound",
    ),
    "new_start_unknown": failed("where a partition of the new primary begins is unknown"),
    "new_topic_unknown": failed("whether the new primary has the topic is unknown"),
    "no_flow_to_third": refused(
        "no flow leads from the new primary to that cluster", page="reprotect-third-cluster"
    ),
    "no_third_cluster": refused(
        "that is no third cluster: it is one of the two between which clients moved",
        page="reprotect-third-cluster",
    ),
    "not_comparable": refused(
        "{partitions} of the old primary cannot be compared",
        hint="check its brokers; a transaction that stays open: drkit fence pay; then: {command}",
        page="reprotect-cannot-compare",
    ),
    "not_in_step": failed(
        "{target} is not in step yet: clients stay on {source}",
        hint="drkit status --flow '{back}'; run it again: drkit failback --flow '{there}'{only}",
    ),
    "nothing_to_fail_back": refused(
        "there is nothing to fail back",
        hint="drkit status says who is active and what protects it",
        page="reprotect-wrong-pair",
    ),
    "nothing_to_protect": refused(
        "there is nothing to make a standby of",
        hint="drkit status says who is active and what protects it",
        page="reprotect-wrong-pair",
    ),
    "nothing_to_protect_in_topics": refused(
        "there is nothing to make a standby of in the topics that were named",
        hint="name one of them with --topic, or leave it out: {command}",
        page="reprotect-wrong-pair",
    ),
    "old_change_unknown": failed(
        "whether the old primary has changed since it was compared is unknown",
        hint="check its brokers, then: {command} --resume",
    ),
    "old_primary_changed": refused(
        "the old primary has changed since it was compared",
        hint="find out who writes there; then {abort}",
        page="reprotect-changed-meanwhile",
    ),
    "old_primary_still_written": refused(
        "the old primary does not stand still",
        hint="find out who writes there, or whose transaction it is, then: {command}",
        page="reprotect-cannot-compare",
    ),
    "old_primary_takes_writes": refused(
        "the old primary cannot be a standby: {partitions} writes",
        hint=(
            "find out who lifted its fence, or may pass it{next}; what it took since: drkit "
            "divergence --flow '{flow}'"
        ),
        page="reprotect-old-primary-open",
    ),
    "old_topic_unknown": failed(
        "the old primary does not know a topic that is to be begun", hint="check the cluster, then: {command}"
    ),
    "promoted_topic_recreated": refused(
        "a promoted topic was made anew on the new primary",
        hint=(
            "the old primary may have the only copy of its records: save them with drkit "
            "divergence export --flow '{flow}' --to DIR; then return the other topics, each by "
            "--topic; when the topic is deleted on {source}, too: {command} --flow '{flow}' "
            "--forget TOPIC; a return that is under way is rolled back first, by --abort"
        ),
        page="reprotect-new-primary",
    ),
    "rebuild_loses_history": refused(
        ("the old primary has earlier records than the new one: a rebuilt partition would lose them"),
        hint="give them up by name: {command}",
        page="reprotect-method-not-sound",
    ),
    "replay_recreated": refused(
        "records of a topic that was recreated on the old primary cannot be replayed",
        hint="keep them apart: {command}",
        page="replay-wrong-place",
    ),
    "replicas_out_of_sync": refused(
        "the new primary has replicas that are not in sync, and would have the only copy",
        hint="let its replicas catch up, then: {command}",
        page="reprotect-not-ready",
    ),
    "reverse_flow_blocked": failed("the reverse flow may not copy yet", hint="drkit reprotect --resume"),
    "reverse_flow_excludes": refused(
        "the reverse flow does not copy topics of the return",
        hint=(
            "let topics and topics_exclude of {back} choose them, then: {command}; or return the "
            "others alone: {abort}{command2}"
        ),
        page="reprotect-wrong-pair",
    ),
    "reverse_names_differ": refused(
        "the reverse flow gives topics other names than they have on the old primary",
        hint='set naming = "identity" in both flows of the pair',
        page="reprotect-wrong-pair",
    ),
    "still_primary": failed(
        "the old primary still has the role of a primary", hint="drkit reprotect --resume"
    ),
    "switchover_fence_refuses_drkit": refused(
        ("the fence of the {switchover} would refuse drkit, too, and nothing else would keep clients off"),
        hint=(
            "cut clients off by other means (listener, DNS, network), then say how: --clients-cut"
            ' "HOW"; or let an ACL fence {left}: drkit explain reprotect-fence-refuses-drkit'
        ),
        page="reprotect-fence-refuses-drkit",
    ),
    "third_incomplete": refused(
        "the third cluster would not get all that was promoted",
        hint=(
            "correct topics and topics_exclude of the flow; where the cluster has topics of these"
            " names with records of its own, delete or rename them there; all of it: {look}"
        ),
        page="reprotect-third-cluster",
    ),
    "third_not_promoted": refused(
        "no failover has promoted what was to be protected",
        hint="drkit status says who is active and what protects it",
        page="reprotect-third-cluster",
    ),
    "trim_compacted": refused(
        ("a compacted topic cannot be trimmed: the newest value of a key may be an early record"),
        page="reprotect-method-not-sound",
    ),
}
