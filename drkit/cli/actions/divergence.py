"""``drkit divergence``: what the old primary has and the new one has not, record by record."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
from typing import Any, Final, TextIO

from drkit.cli.configuration import configuration
from drkit.cli.render import emit
from drkit.cli.session import session, to_type
from drkit.errors import Failed, Refused
from drkit.failover.loss.divergence import divergence
from drkit.failover.loss.findings import CommitKind, CopyFate, Divergence, PartitionDivergence
from drkit.failover.loss.tail import Take
from drkit.failover.service import FailoverService
from drkit.model import TopicPartition
from drkit.wire import Record

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def diverged(flow: str | None, records: Path | None) -> int:
    """Run ``drkit divergence``."""
    settings = configuration().settings
    with FailoverService(settings, settings.one_flow(flow)) as service, _written(records) as take:
        found = divergence(service.context_outside_run(), take)
    emit(found.to_json() if session().as_json else _shown(found, records))
    if not found.is_known:
        return Refused.exit_code
    return 0 if found.is_clean else Failed.exit_code


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
        raise Failed("the records cannot be written", where=str(path), evidence=str(error)) from error


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
    told: dict[str, Any] = {"divergence": found.statement()}
    if found.tails:
        told["partitions"] = [_row(t) for t in found.tails]
    if found.uncopied:
        told["never copied"] = [_row(t) for t in found.uncopied]
    if found.returned:
        told["copied back"] = ", ".join(found.returned)
    if late := [c for c in found.commits if c.kind is not CommitKind.SUPERSEDED]:
        told["groups"] = [
            {
                "group": c.group, "partition": f"{c.topic}-{c.partition}", "offset": c.offset,
                "found": c.kind.value, "translated": c.translated, "processed": c.beyond,
            }
            for c in late
        ]  # fmt: skip
    if found.commits_unknown:
        told["groups unknown"] = found.commits_unknown
    if records is not None:
        told["records"] = str(records)
    if found.owed:
        told["next"] = to_type("fence it first: drkit fence pay")
    return told


def _row(tail: PartitionDivergence) -> dict[str, Any]:
    copy = "" if tail.copy is CopyFate.KEPT else f"its copy is {tail.copy}"
    is_open = "a transaction is open" if tail.open_transaction else ""
    return {
        "partition": f"{tail.topic}-{tail.partition}", "found": tail.found.value, "from": tail.lost_from,
        "end": tail.end, "records": tail.records, "bytes": tail.bytes, "removed": tail.removed,
        "only on the new": tail.only_new, "proven": tail.proven,
        "why": "; ".join(filter(None, (is_open, copy, tail.why))),
    }  # fmt: skip
