"""``drkit divergence``: what the old primary has and the new one has not; its export, and a check of one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
from shlex import quote
from typing import Any, Final, TextIO
from uuid import uuid4

from drkit.cli.configuration import configuration
from drkit.cli.layout import with_times
from drkit.cli.render import emit
from drkit.cli.session import to_type
from drkit.cli.talk import say
from drkit.cli.waiting_flow import flow_that_waits
from drkit.counted import first_of
from drkit.errors import Failed, Refused
from drkit.export.manifest import Manifest
from drkit.export.run import Exported, ExportRequest, export_tails, read_back
from drkit.failover.loss.divergence import copied_back, divergence, tails_of, terms_of
from drkit.failover.loss.findings import CommitKind, CopyFate, Divergence, PartitionDivergence
from drkit.failover.loss.partition_check import Take
from drkit.failover.service import FailoverService
from drkit.flow_state.pending_fence import paid_with
from drkit.model import TopicPartition
from drkit.spark.conf import given_conf
from drkit.wire import Record

_RARE: Final = ("removed", "emptied", "only on the new")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def diverged(flow: str | None, records: Path | None) -> int:
    """Run ``drkit divergence``."""
    settings = configuration().settings
    with FailoverService(settings, flow_that_waits(settings, flow)) as service, _written(records) as take:
        found = divergence(service.context_outside_run(), take)
    emit(found.to_json(), shown=[_shown(found, records)])
    if not found.is_known:
        return Refused.exit_code
    return 0 if found.is_clean else Failed.exit_code


def export(
    flow: str | None,
    to: str,
    how: str,
    topics: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    spark_properties: Path | None,
) -> int:
    """Run ``drkit divergence export``."""
    spark, settings = given_conf(conf, spark_properties), configuration().settings
    chosen = flow_that_waits(settings, flow)
    with FailoverService(settings, chosen) as service:
        context = service.context_outside_run()
        say(f"{chosen.name}: looking at the old primary")
        found = divergence(context)
        tails, skip = tails_of(context, found, topics), copied_back(context, found.tails)
        terms = terms_of(context, {tail.topic for tail in tails})
    if not tails:
        emit({"exported": "nothing", "divergence": found.statement()})
        return 0
    request = ExportRequest(to, f"export-{uuid4().hex[:12]}", how, master, spark, terms)
    done = export_tails(settings, chosen, request, tails, skip, lambda line: say(f"{chosen.name}: {line}"))
    _emit_export(_answer(done, found))
    return 0


def verify_export(
    manifest: str,
    sha256: str | None,
    master: str | None,
    conf: tuple[str, ...],
    spark_properties: Path | None,
) -> int:
    """Run ``drkit divergence verify``."""
    found = read_back(manifest, sha256, master=master, conf=given_conf(conf, spark_properties), progress=say)
    _emit_export({"verified": manifest, "sha256": found.sha256, **_about(found)})
    return 0


def _emit_export(answer: dict[str, Any]) -> None:
    filled = {name: value for name, value in answer.items() if value not in ({}, None)}
    emit(answer, shown=[with_times(filled)])


def _answer(done: Exported, found: Divergence) -> dict[str, Any]:
    answer = {"exported": done.path, "sha256": done.sha256, **_about(done.manifest)}
    held = sum(tail.held_back for tail in found.tails)
    more = [f"open transactions hold back up to {held} more records"] if held else []
    more += [f"records that it accepts until it is fenced: {paid_with(found.flow)}"] if found.owed else []
    if uncopied := sorted({each.topic for each in found.uncopied}):
        more.append(f"topics that were never copied: {first_of(uncopied)}")
    if more:
        answer["not_exported"] = more
    answer["next"] = to_type(
        f"keep the SHA-256 apart from the files; check them any time:"
        f" drkit divergence verify {quote(done.path)} --sha256 {done.sha256}"
    )
    return answer


def _about(manifest: Manifest) -> dict[str, Any]:
    totals = manifest.totals()
    return {
        "run": manifest.run, "flow": manifest.flow, "cluster_id": manifest.cluster_id, "term": manifest.term,
        "format": manifest.format, "partitions": len(manifest.partitions), "records": totals.records,
        "bytes": totals.content_bytes, "holes": {kind.value: n for kind, n in totals.holes.items()},
        "files": totals.files, "file_bytes": totals.file_bytes,
        "first_time_ms": totals.first_time, "last_time_ms": totals.last_time,
    }  # fmt: skip


@contextmanager
def _written(path: Path | None) -> Iterator[Take]:
    if path is None:
        yield lambda _at, _record: None
        return
    try:
        # The file holds the records themselves: only its owner may read it.
        with os.fdopen(os.open(path, _NEW, 0o600), "w", encoding="utf-8") as out:
            yield lambda at, record: _write(out, at, record)
    except OSError as error:
        raise Failed("records_not_writable", where=str(path), evidence=str(error)) from error


def _write(out: TextIO, at: TopicPartition, record: Record) -> None:
    line = {
        "topic": at.topic, "partition": at.partition, "offset": record.offset,
        "timestamp_ms": record.timestamp, "key": _text(record.key), "value": _text(record.value),
        "headers": [[name.decode(errors="replace"), _text(value)] for name, value in record.headers],
    }  # fmt: skip
    out.write(json.dumps(line, ensure_ascii=False) + "\n")


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")


def _shown(found: Divergence, records: Path | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"divergence": found.statement()}
    if found.tails:
        shown["partitions"] = _rows(found.tails)
    if found.uncopied:
        shown["never copied"] = _rows(found.uncopied)
    if found.returned:
        shown["copied back"] = ", ".join(found.returned)
    if late := [c for c in found.commits if c.kind is not CommitKind.SUPERSEDED]:
        shown["groups"] = [
            {
                "group": c.group, "partition": f"{c.topic}-{c.partition}", "offset": c.offset,
                "found": c.kind.value, "translated": c.translated, "processed": c.beyond,
            }
            for c in late
        ]  # fmt: skip
    if found.commits_unknown:
        shown["groups unknown"] = found.commits_unknown
    if records is not None:
        shown["records"] = str(records)
    if found.owed:
        when = "when it answers, fence it" if found.unanswered else "fence it first"
        shown["next"] = to_type(f"{when}: drkit fence pay")
    return shown


def _rows(tails: Iterable[PartitionDivergence]) -> list[dict[str, Any]]:
    rows = [_row(tail) for tail in tails]
    empty = {name for name in _RARE if not any(row[name] for row in rows)}
    return [{name: value for name, value in row.items() if name not in empty} for row in rows]


def _row(tail: PartitionDivergence) -> dict[str, Any]:
    copy = "" if tail.copy is CopyFate.KEPT else f"its copy is {tail.copy}"
    is_open = "a transaction is open" if tail.open_transaction else ""
    return {
        "partition": f"{tail.topic}-{tail.partition}", "found": tail.found.value, "from": tail.lost_from,
        "end": tail.end, "records": tail.records, "bytes": tail.bytes, "removed": tail.removed,
        "emptied": tail.emptied,
        "only on the new": tail.only_new, "proven": tail.proven,
        "why": "; ".join(filter(None, (is_open, copy, tail.why, tail.outlived_in_words))),
    }  # fmt: skip
