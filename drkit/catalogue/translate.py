"""Errors of offset translation."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "checkpoint_folder_in_use": refused(
        "the folder for the new checkpoint is not empty",
        hint="name another folder with --out, or remove this one",
    ),
    "checkpoint_folder_missing": wrong("the folder does not exist", hint="name a checkpointLocation"),
    "checkpoint_incomplete": refused(
        "the checkpoint is incomplete", hint="translate the folder that the query itself wrote, complete"
    ),
    "checkpoint_location_unknown": refused(
        "the checkpoint contains its own path, and the path of its copy is unknown",
        hint="name the place that you will copy it to: {drkit:--location URL}",
    ),
    "checkpoint_nested": refused(
        "one checkpoint folder would be inside the other", hint="name a folder beside it with --out"
    ),
    "checkpoint_not_local": refused(
        "only local checkpoint folders can be translated",
        hint=(
            "copy it to this machine: hadoop fs -get URL DIR; translate DIR; then copy the "
            "result back: hadoop fs -put DIR2 URL2"
        ),
    ),
    "checkpoint_not_written": failed(
        "the new checkpoint could not be written",
        hint="nothing was left there; check the disk and its permissions, then try again",
    ),
    "flow_not_known": failed(
        "the target has no state of this flow", hint="copy first: {drkit:replicate --flow '{flow}'}"
    ),
    "group_without_offsets": wrong(
        "group {group} has no committed offsets",
        hint=("name another --group, or one offset: {drkit:translate --topic T --partition P --offset N}"),
    ),
    "no_checkpoint": wrong("this is not a checkpoint of Structured Streaming"),
    "offset_log_malformed": refused(
        "an offset log of the checkpoint is malformed",
        hint="translate the folder that the query itself wrote, complete",
    ),
    "offsets_not_exact": refused("{count} of {total} offsets have no exact translation; nothing was written"),
    "query_running": refused(
        "the query is running: its checkpoint changed during the translation",
        hint="stop the Spark application, then translate again",
    ),
    "query_source_unknown": wrong(
        "the query has no Kafka source {names}",
        hint="name one of these with --keep-source; sources of other kinds are kept anyway",
    ),
    "query_without_offsets": wrong(
        "the query has no Kafka offsets to translate", hint="use the checkpoint as it is"
    ),
    "source_silent_no_checkpoint": failed(
        "the source does not answer, and no checkpoint has this group's offsets",
        hint="if it has offsets on the target: add --reverse",
    ),
}
