"""Errors of exports."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "export_altered": refused(
        "the export was altered after it was written",
        hint=(
            "destroy nothing that only it holds; put back what was changed, from a copy of the "
            "export, and check it: {drkit:divergence verify MANIFEST}; or, while the old primary "
            "has the records, export again: {drkit:divergence export --to DIR}; where it was "
            "emptied, or has lost them, the export is the only copy: without another copy give "
            "them up: {drkit:status} shows the command"
        ),
        page="export-altered",
    ),
    "export_batch_damaged": failed(
        "a record batch cannot be read, so the export would be incomplete",
        hint="read the partition with `kafka-dump-log --deep-iteration` on its leader",
    ),
    "export_exists": refused(
        "an export of other offsets exists here and is not overwritten",
        hint="name another folder; delete the old one when you no longer need it",
        page="export-place",
    ),
    "export_folder_in_use": refused(
        "the export folder contains other files", hint="name another folder", page="export-place"
    ),
    "export_folder_missing": wrong(
        "name a folder for the export", hint="name one, or a URL such as s3://bucket/folder"
    ),
    "export_folder_not_shared": refused(
        "Spark's executors cannot see a folder of this machine",
        hint="name a place that all of them reach, such as s3://…, or leave --master out",
        page="export-place",
    ),
    "export_format_unknown": wrong("unknown export format '{format}'", hint="write one of {exportformat}"),
    "export_leader_silent": failed(
        "a partition cannot be exported: its leader does not answer",
        hint="check the cluster, then export again",
    ),
    "export_manifest_missing": wrong(
        "no export manifest was found",
        hint="name manifest.json in the folder of an export; without one an export is incomplete",
    ),
    "export_not_authorized": failed(
        "drkit may not read a topic to export", hint="allow READ on it, see {drkit:explain acls}"
    ),
    "export_not_written": failed(
        "the export cannot be written",
        hint=("choose a place with enough room that drkit may write to; nothing there counts as an export"),
    ),
    "export_range_short": refused(
        "a partition ends before the range to export",
        hint=("a transaction may be open, or a broker lost records: look again with {drkit:divergence}"),
        page="export-not-whole",
    ),
    "export_topic_recreated": refused(
        "the topic was recreated, so these offsets belong to its predecessor",
        hint="look at it again: {drkit:divergence}",
        page="export-not-whole",
    ),
    "export_unreadable": failed(
        "the export cannot be read", hint="check the path, its permissions and the disk"
    ),
    "export_url_has_secret": wrong(
        "the export URL contains a password or a key",
        hint=("leave it out: pyarrow finds credentials in the environment of the driver and the executors"),
    ),
    "export_url_not_absolute": wrong(
        "a file URL needs an absolute path", hint="write file:///folder, or /folder"
    ),
    "export_url_refused": wrong(
        "the export cannot be written to this place",
        hint="name a folder, or a URL that pyarrow knows: s3://, gs://, abfs://, hdfs://",
    ),
    "run_id_no_folder_name": wrong(
        "the run's id cannot be used as a folder name", hint="name the run with letters, digits and dashes"
    ),
}
