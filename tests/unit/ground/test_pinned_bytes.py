"""Bytes that another version of drkit, another program or an operator's script reads, as they were recorded.

Recorded elsewhere: the flow's state (``flow_state/test_records.py``) and the offset map
(``offsets/test_old_map.py``). The exit code of each error is on the page of errors.
"""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from drkit.cli.loading import INTERRUPTED
from drkit.detect.notes import read_note
from drkit.endpoint import Endpoint, parse_endpoint
from drkit.errors import ClusterUnreachable, ConfigError, Failed, Refused, Usage
from drkit.export.hole import HoleKind
from drkit.export.manifest import (
    ExportedFile,
    ExportFormat,
    ExportPart,
    Manifest,
    TailRange,
    partition_export,
)
from drkit.failover.core.machine import StepName
from drkit.failover.journal.entries import Assembly, EntryKind, JournalEntry, parts_of

ENTRY = JournalEntry(
    "9d2baf91d395", 3, "t1", 2, EntryKind.RESULT, StepName.FENCE, "orders", 1764390000000,
    {"proven": True, "topics": ["größe"]},
)  # fmt: skip
JOURNAL = (
    '{"v":1,"run_id":"9d2baf91d395","number":3,"by":"t1","term":2,"kind":"result","step":"FENCE",'
    '"effect":"orders","at_ms":1764390000000,"body":{"proven":true,"topics":["größe"]}}'
).encode()
ENDPOINT = """\
{
  "drkit_endpoint": 1,
  "term": 5,
  "cluster": "standby",
  "cluster_id": "4L6g3nShT-eMCtK--X86sw",
  "bootstrap_servers": "s1:9092,s2:9092",
  "client": {
    "security.protocol": "SASL_SSL"
  },
  "topics": {
    "orders": "primary.orders"
  }
}
"""
HASH = "5a" * 32
MANIFEST = (
    b'{"drkit_export":1,"cluster_id":"c-id","flow":"a->b","run":"r-1","term":3,"format":"parquet",'
    b'"written_at_ms":1,"partitions":[{"topic":"orders","topic_id":"00000000-0000-0000-0000-000000000007",'
    b'"partition":0,"first":2147,"end":2150,"parts":[{"first":2147,"end":2150,"records":2,"content_bytes":20,'
    b'"holes":{"marker":1},"first_time":5,"last_time":9,"chain":"' + HASH.encode() + b'",'
    b'"records_file":{"name":"0.parquet","bytes":5,"sha256":"' + HASH.encode() + b'"},'
    b'"holes_file":{"name":"0.holes.jsonl","bytes":6,"sha256":"' + HASH.encode() + b'"}}],'
    b'"chain":"29b4985cfd06cbd8df148bdfda5719db9d6e8549155535c44a2daaaaebd336cf","term":3}],'
    b'"sha256":"1c86dfb06e0f3e17c306a4a25d22eb331a65150342c51e996ba0d4879f1f3e8e"}'
)
"""Without its line breaks; its last field is the hash over the file's very bytes before it."""
NOTES = {
    "vote/b": (
        b'{"observer": "b", "run": "r1", "sequence": 1, "at_ms": 1700000000000, "sight": "gone", '
        b'"evidence": ["x"], "phi": 9.0, "quiet_seconds": 1.5, "abstained_seconds": 3.0, '
        b'"alive_ms": 1700000000000, "renews": {"dc1": 7}, "mode": "auto"}'
    ),
    "agent/dc9": (
        b'{"agent": "dc9", "run": "r1", "number": 4, "hold": "leased", "at_ms": 1700000000000, '
        b'"fenced": false, "evidence": ["y"], "sequence": 0}'
    ),
    "pause": b'{"by": "me", "why": "rack move", "at_ms": 1700000000000}',
    "automatic": (
        b'{"by": "o1", "run": "r1", "at_ms": 1700000000000, "evidence": ["z"], "outcome": "done", '
        b'"acknowledged_by": "", "acknowledged_ms": null}'
    ),
    "known": b'{"cluster_id": "abc", "brokers": [["elsewhere", "broker-1.example:9092", 1]]}',
}


def test_an_entry_of_the_journal_is_written_and_read_as_recorded() -> None:
    assert parts_of(ENTRY) == [JOURNAL]
    assert Assembly().take(JOURNAL) == ENTRY


def test_the_endpoint_file_is_written_and_read_as_recorded() -> None:
    endpoint = Endpoint(
        5, "standby", "4L6g3nShT-eMCtK--X86sw", "s1:9092,s2:9092", {"security.protocol": "SASL_SSL"},
        {"orders": "primary.orders"},
    )  # fmt: skip
    assert endpoint.to_json() == ENDPOINT
    assert parse_endpoint(ENDPOINT) == endpoint


def test_the_manifest_of_an_export_is_written_and_read_as_recorded() -> None:
    part = ExportPart(
        first=2147, end=2150, records=2, content_bytes=20, holes={HoleKind.MARKER: 1}, first_time=5,
        last_time=9, chain=HASH, records_file=ExportedFile("0.parquet", 5, HASH),
        holes_file=ExportedFile("0.holes.jsonl", 6, HASH),
    )  # fmt: skip
    tail = TailRange("orders", UUID(int=7), 0, 2147, 2150)
    manifest = Manifest(
        version=1, cluster_id="c-id", flow="a->b", run="r-1", term=3, format=ExportFormat.PARQUET,
        written_at_ms=1, partitions=(partition_export(tail, [part], term=3),),
    )  # fmt: skip
    data = manifest.to_bytes()
    assert json.dumps(json.loads(data), separators=(",", ":")).encode() == MANIFEST
    assert Manifest.parse(data) == manifest


@pytest.mark.parametrize(("key", "value"), NOTES.items())
def test_a_note_of_the_observers_is_read_and_written_again_as_recorded(key: str, value: bytes) -> None:
    assert read_note(key, value).encode() == value


def test_exit_codes() -> None:
    codes = {each: each.exit_code for each in (Failed, ClusterUnreachable, Usage, ConfigError, Refused)}
    assert codes == {Failed: 1, ClusterUnreachable: 1, Usage: 2, ConfigError: 2, Refused: 3}
    assert INTERRUPTED == 130
