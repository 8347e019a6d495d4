"""Errors of exports."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "export_altered": refused(
        "the export is not what was written",
        hint=(
            "destroy nothing that only it holds; put back what was changed, from a copy of the "
            "export, and check it: drkit divergence verify MANIFEST; or, while the old primary "
            "has the records, export again: drkit divergence export --to DIR; where it was "
            "emptied, or has lost them, the export is the only copy: without another one give "
            "them up by name, drkit status says how"
        ),
        page="export-altered",
    ),
    "export_batch_damaged": failed(
        "a record batch cannot be read, so the range cannot be exported whole",
        hint="read the partition with `kafka-dump-log --deep-iteration` on its leader",
    ),
    "export_exists": refused(
        "an export of other offsets is there, and exports are never written over",
        hint="name another folder; delete the old one when you need it no more",
        page="export-place",
    ),
    "export_folder_in_use": refused(
        "the folder of the export holds something else", hint="name another folder", page="export-place"
    ),
    "export_folder_missing": wrong(
        "a folder is needed", hint="name one, or a URL such as s3://bucket/folder"
    ),
    "export_folder_not_shared": refused(
        "a folder of this machine is none of Spark's executors",
        hint="name a place that all of them reach, such as s3://…, or leave --master out",
        page="export-place",
    ),
    "export_format_unknown": wrong(
        "no format of exports is called '{format}'", hint="write one of {exportformat}"
    ),
    "export_leader_silent": failed(
        "a partition cannot be exported: its leader does not answer",
        hint="check the cluster, then export again",
    ),
    "export_manifest_missing": wrong(
        "there is no manifest of an export",
        hint="name manifest.json in the folder of an export; without one an export is incomplete",
    ),
    "export_not_authorized": failed(
        "drkit may not read a topic that is to be exported", hint="allow READ on it, see drkit explain acls"
    ),
    "export_not_written": failed(
        "the export cannot be written",
        hint=("choose a place with enough room that drkit may write to; nothing there counts as an export"),
    ),
    "export_range_short": refused(
        "a partition ends before the range that is to be exported",
        hint=("a transaction may be open, or a broker lost records: look again with drkit divergence"),
        page="export-not-whole",
    ),
    "export_topic_recreated": refused(
        "the topic was recreated under the same name: the range is of another log",
        hint="look at it again: drkit divergence",
        page="export-not-whole",
    ),
    "export_unreadable": failed(
        "the export cannot be read", hint="check the path, its permissions and the disk"
    ),
    "export_url_has_secret": wrong(
        "the place of an export has a password or a key in it",
        hint=("leave it out: pyarrow finds credentials in the environment of the driver and the executors"),
    ),
    "export_url_not_absolute": wrong("a file URL needs a full path", hint="write file:///folder, or /folder"),
    "export_url_refused": wrong(
        "an export cannot be written there",
        hint="name a folder, or a URL that pyarrow knows: s3://, gs://, abfs://, hdfs://",
    ),
    "no_cluster_id": failed("a cluster does not say who it is"),
    "run_id_no_folder_name": wrong(
        "the run's id cannot be the name of a folder", hint="name the run with letters, digits and dashes"
    ),
}
