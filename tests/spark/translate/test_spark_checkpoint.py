"""Real Spark queries that begin on the source and continue on the target, with translated checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
import json
from pathlib import Path
from typing import Any

import pytest

from drkit.cli.main import run
from drkit.config import ClusterSettings
from drkit.local.cluster import LocalCluster
from tests.support.cli.json_fields import pin
from tests.support.flows.compare import read
from tests.support.flows.flow import DAY_MS, Flow
from tests.support.flows.known_flow import remember, write_settings
from tests.support.flows.produce import aged, fill_transactions, producer, put
from tests.support.spark.spark_run import run_spark

PARTITIONS = 2
MOST = 70
"""Offsets in a batch: so few that batches end anywhere, also within an aborted transaction."""
Row = tuple[str, int, str, str]


Translate = Callable[..., tuple[int, Any]]


@pytest.fixture
def translate(flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Translate:
    """``drkit translate spark-checkpoint``: its exit code and its answer."""
    config = write_settings(flow, tmp_path)

    def ask(checkpoint: Path, *arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        words = ["translate", "spark-checkpoint", str(checkpoint), *arguments]
        code = run([*words, "--config", str(config), "--json"])
        said = capsys.readouterr()
        return code, json.loads(said.out or said.err)

    return ask


def rows_of(files: list[Path]) -> list[Row]:
    found = []
    for file in files:
        text = file.read_text()
        rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
        found += [(r["topic"], r["partition"], r["key"], r["value"]) for r in rows]
    return found


def all_rows(cluster: ClusterSettings, topic: str) -> Counter[Row]:
    """Every committed record of a topic, as the queries write them."""
    return Counter(
        (topic, p, (s.key or b"").decode(), (s.value or b"").decode())
        for p, records in read(cluster, topic).items()
        for s in records
    )


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(p.relative_to(folder)): (p.stat().st_mtime_ns, p.read_bytes())
        for p in folder.rglob("*")
        if p.is_file()
    }


def write_some(flow: Flow, topics: list[str], seed: int) -> None:
    """Transactions of which some abort, then single records, new ones and some of two days ago."""
    fill_transactions(flow.source, topics, 150, aborts=0.4, most=20, seed=seed)
    out = producer(flow.source)
    for i in range(40):
        more = {"timestamp": aged(2 * DAY_MS)(i)} if i < 10 else {}
        put(out, topics[i % len(topics)], b"single %d of %d" % (i, seed), b"s%d" % i, **more)
    assert out.flush(30) == 0


def queries(tmp_path: Path, topics: list[str], suffix: str) -> list[dict[str, Any]]:
    some = []
    for kind, names in (("records", topics[:1]), ("totals", topics), ("killed", topics[1:])):
        place = {"folder": str(tmp_path / kind), "checkpoint": str(tmp_path / f"{kind}{suffix}")}
        some.append({"kind": kind, "topics": names, "most": MOST, "files": str(tmp_path / "files"), **place})
    return some


def moved(query: dict[str, Any], tmp_path: Path, translate: Translate) -> None:
    """Translate a query's checkpoint; check the answer, and that the old one is untouched."""
    before = Path(query["checkpoint"])
    first = b"v2\n" if query["kind"] == "records" else b"v1\n"
    assert (before / "offsets" / "0").read_bytes().startswith(first)
    found = snapshot(before)
    code, told = translate(before, "--out", str(tmp_path / f"{query['kind']}-after"))
    assert code == 0, told
    pin("translate spark-checkpoint", told)
    assert snapshot(before) == found
    runs_again = query["kind"] == "killed"
    assert ("runs again" in told["batch"]) == runs_again
    uses = {"batch start", "batch end"} if runs_again else {"reads on"}
    assert {p["use"] for p in told["positions"]} == uses
    # There would be nothing to show if offsets were the same on both sides.
    assert any(p["offset"] != p["to_offset"] for p in told["positions"])


def each_record_once(folder: Path, files: str, flow: Flow, topic: str) -> None:
    assert Counter(rows_of(list(folder.glob(files)))) == all_rows(flow.source, topic)


@pytest.mark.wide
def test_queries_continue_at_the_next_record(
    flow: Flow,
    source: LocalCluster,
    target: LocalCluster,
    topic_name: str,
    tmp_path: Path,
    translate: Translate,
) -> None:
    """P31: each record once, also in a batch that was cut off; state and other sources stay."""
    topics = [flow.create_both(f"{topic_name}-{i}", PARTITIONS) for i in range(2)]
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "before").write_text("from a file\n" * 3)
    write_some(flow, topics, seed=1)
    begun = queries(tmp_path, topics, "-before")
    begun[-1]["dies_in"] = 1
    assert run_spark(source.bootstrap(), begun, tmp_path / "spark-before") == -9
    write_some(flow, topics, seed=2)
    (tmp_path / "files" / "after").write_text("from a file\n" * 2)
    flow.copy(*topics)
    remember(flow, *topics)

    for query in begun:
        moved(query, tmp_path, translate)
    assert run_spark(target.bootstrap(), queries(tmp_path, topics, "-after"), tmp_path / "spark-after") == 0

    each_record_once(tmp_path / "records" / "out", "*.json", flow, topics[0])
    each_record_once(tmp_path / "killed", "batch-*.json", flow, topics[1])
    planned = rows_of([tmp_path / "killed" / "planned.json"])
    assert planned
    assert sorted(rows_of([tmp_path / "killed" / "batch-1.json"])) == sorted(planned)
    totals: Counter[str] = Counter({"from a file": 5})
    for topic in topics:
        for row, count in all_rows(flow.source, topic).items():
            totals[row[2]] += count
    assert json.loads((tmp_path / "totals" / "totals.json").read_text()) == totals
