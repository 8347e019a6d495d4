"""Exports of real topics by Spark: record by record what a consumer sees, and every other offset named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
import json
from pathlib import Path
import shlex
import shutil
import subprocess
from typing import Any
from uuid import UUID

import pytest

from drkit.errors import ConfigError, Failed, Refused
from drkit.export.check import check_files, exported_records
from drkit.export.manifest import partition_export
from drkit.export.reading import TailReader
from drkit.export.record import HoleKind
from drkit.export.run import CopiedBack, Exported, read_back
from drkit.flow_state.records import RoleRecord
from drkit.flow_state.topic import StateTopic
from tests.support.cli.json_fields import pin
from tests.support.errors import coded
from tests.support.export.by_spark import MASTER, export
from tests.support.export.holes import holes_of
from tests.support.export.topics import Topics, kinds_at, seen_as
from tests.support.flows.known_flow import remember, write_settings
from tests.support.spark.here import drkit_here
from tests.support.stored import put as put_record

FIRST = 17


@pytest.fixture(scope="module")
def whole(topics: Topics, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """All of them, exported once."""
    to = tmp_path_factory.mktemp("whole")
    return export(topics, to, "run-1", skip=CopiedBack(frozenset({topics.copied_back})))


KINDS = ("codecs", "transactions", "broker-time", "old", "empties", "trimmed", "compacted")


@pytest.mark.wide
@pytest.mark.parametrize("kind", KINDS)
def test_every_record_is_there_and_every_other_offset_is_named(topics: Topics, whole: Exported, kind: str):
    name = topics.names[kind]
    for partition, truth in topics.truth(kind).items():
        found = [seen_as(r) for r in exported_records(whole.path, name, partition, whole.manifest)]
        assert found == [truth.visible[offset] for offset in sorted(truth.visible)]
        assert all(type(record.offset) is int for record in found)
        holes = holes_of(whole.path, whole.manifest, name, partition)
        assert sorted([*holes, *truth.visible]) == list(range(truth.end))
        assert not [at for at, hole in holes.items() if hole not in kinds_at(truth, at)]


@pytest.mark.wide
def test_what_the_holes_are(topics: Topics, whole: Exported):
    found = {
        kind: Counter(
            hole
            for partition in topics.truth(kind)
            for hole in holes_of(whole.path, whole.manifest, topics.names[kind], partition).values()
        )
        for kind in KINDS
    }
    assert found["trimmed"] == {HoleKind.REMOVED: 30}
    assert set(found["transactions"]) == {HoleKind.MARKER, HoleKind.ABORTED}
    assert set(found["compacted"]) >= {HoleKind.MARKER, HoleKind.COMPACTED}
    assert not found["codecs"] | found["old"] | found["empties"] | found["broker-time"]
    assert whole.manifest.cluster_id == topics.flow.ask(topics.cluster, cluster_id)
    assert whole.peak_memory_bytes < 400 << 20


async def cluster_id(raw: Any) -> str:
    return str(raw.cluster_id)


@pytest.fixture(scope="module")
def lines(topics: Topics, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Some of them in lines of JSON, from an offset on, in small parts; an interrupted export was there."""
    tails = topics.tails("codecs", "transactions", "empties", first=FIRST)
    to, said = tmp_path_factory.mktemp("lines"), list[str]()
    left = to / "run-2/records" / tails[0].topic / "0"
    left.mkdir(parents=True)
    for remains in (left / "00000000000000000017-0a0b.jsonl", to / "run-2/manifest.json.part"):
        remains.write_bytes(b"{")
    with pytest.raises(ConfigError, check=coded("export_manifest_missing")):
        check_files(str(to / "run-2/manifest.json"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drkit.export.jobs.PART_BYTES", 5000)
        more = {"tails": tails, "request": {"format": "jsonl"}, "progress": said.append}
        done = export(topics, to, "run-2", **more)
    assert "an interrupted export is replaced" in said[0]
    return done


@pytest.mark.wide
def test_parts_of_a_partition_in_lines_of_json_from_an_offset_on(whole: Exported, lines: Exported):
    assert check_files(lines.path, lines.sha256) == lines.manifest
    assert max(len(each.parts) for each in lines.manifest.partitions) > 3
    for tail in lines.manifest.ranges:
        of = tail.topic, tail.partition
        assert [*exported_records(lines.path, *of)] == [
            record for record in exported_records(whole.path, *of) if record.offset >= FIRST
        ]


@pytest.mark.wide
def test_what_drkit_copied_there_is_named_and_not_exported(topics: Topics, whole: Exported):
    name = topics.names["copied-back"]
    assert holes_of(whole.path, whole.manifest, name, 0) == dict.fromkeys(range(20), HoleKind.COPIED_BACK)
    found = [*exported_records(whole.path, name, 0)]
    assert [record.offset for record in found] == list(range(20, 30))
    assert {record.producer_id for record in found}.isdisjoint({topics.copied_back, -1})


@pytest.mark.wide
def test_a_complete_one_is_kept_and_never_written_over(topics: Topics, whole: Exported):
    to, before = Path(whole.path).parent.parent, Path(whole.path).stat()
    said: list[str] = []
    again = export(topics, to, "run-1", progress=said.append)
    assert again == whole._replace(is_reused=True, peak_memory_bytes=0)
    assert Path(whole.path).stat() == before
    assert "a complete export is there and is kept" in said[0]
    with pytest.raises(Refused, check=coded("export_exists")):
        export(topics, to, "run-1", "codecs")
    assert check_files(whole.path, whole.sha256)


@pytest.mark.wide
def test_spark_finds_what_the_hashes_of_files_do_not_show(lines: Exported, tmp_path: Path):
    """A record was changed by someone who also made the file's hash and the manifest's fit."""
    folder = Path(shutil.copytree(Path(lines.path).parent, tmp_path / "copy"))
    partition = lines.manifest.partitions[0]
    part = partition.parts[1]
    assert part.records_file is not None
    file = folder / partition.folder / part.records_file.name
    rows = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*rows[:-1], rows[-1].replace(b'"timestamp":1', b'"timestamp":2')]))
    renewed = replace(part, records_file=replace(part.records_file, sha256=hash_of(file)))
    parts = [renewed if each is part else each for each in partition.parts]
    partitions = partition_export(partition.range, parts), *lines.manifest.partitions[1:]
    (folder / "manifest.json").write_bytes(replace(lines.manifest, partitions=partitions).to_bytes())
    path = str(folder / "manifest.json")
    check_files(path)
    with pytest.raises(Refused, check=coded("export_altered")) as refused:
        read_back(path, master=MASTER)
    wrong = f"{partition.topic}-0: offsets {part.first} to {part.end - 1} do not hold"
    assert wrong in refused.value.evidence
    with pytest.raises(Refused, check=coded("export_altered")):
        check_files(path, lines.sha256)


def hash_of(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


@pytest.mark.wide
def test_a_range_that_cannot_be_read_whole_is_refused(topics: Topics):
    (tail,) = topics.tails("old")
    reader = TailReader(topics.cluster)
    with pytest.raises(Refused, check=coded("export_range_short")) as refused:
        list(reader.read(tail._replace(end=tail.end + 1), frozenset()))
    assert f"its last stable offset is {tail.end}" in refused.value.evidence
    with pytest.raises(Refused, check=coded("export_topic_recreated")):
        list(reader.read(tail._replace(topic_id=UUID(int=1)), frozenset()))
    reader.close()


@pytest.mark.wide
def test_a_local_folder_is_refused_where_executors_are_elsewhere(topics: Topics, tmp_path: Path):
    for to in (str(tmp_path), f"file://{tmp_path}"):
        with pytest.raises(Refused, check=coded("export_folder_not_shared")):
            export(topics, tmp_path, "run-6", "old", request={"to": to, "master": "spark://127.0.0.1:1"})
    assert not [*tmp_path.iterdir()]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["/bin/umount", str(folder)], check=True)


@pytest.mark.wide
def test_a_full_disk_is_an_error_and_nothing_stays(topics: Topics, small_disk: Path):
    with pytest.raises(Failed, check=coded("export_not_written")) as failed:
        export(topics, small_disk, "run-7", "codecs", "transactions", request={"format": "jsonl"})
    assert failed.value.evidence == "No space left on device"
    assert not [*small_disk.iterdir()]


@pytest.mark.wide
def test_another_folder_is_never_removed(topics: Topics, tmp_path: Path):
    (tmp_path / "run-9").mkdir()
    (tmp_path / "run-9/mine").write_text("")
    with pytest.raises(Refused, check=coded("export_folder_in_use")):
        export(topics, tmp_path, "run-9", "old")
    assert (tmp_path / "run-9/mine").exists()


def test_the_commands(topics: Topics, tmp_path: Path):
    flow, name = topics.flow, topics.names["transactions"]
    flow.create(flow.target, name, 2, {})
    remember(flow, name)
    role = {
        "role": "promoted", "term": 4, "run_id": "r-4", "at_ms": 1, "frontiers": {"0": 5, "1": None},
        "ends": {"0": 5, "1": 0},
    }  # fmt: skip
    with StateTopic(flow.target, flow.source.alias) as state:
        put_record(state, RoleRecord.key(name), role)
    config = str(write_settings(flow, tmp_path))

    def run(*words: str) -> tuple[int, dict[str, Any], str]:
        done = drkit_here("divergence", *words, "--config", config, "--json")
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    code, bare, _ = run()
    assert code == 1
    code, answer, said = run("export", "--to", str(tmp_path / "to"), "--master", MASTER)
    assert code == 0, said
    pin("divergence export", answer)
    records = sum(each["records"] for each in bare["partitions"])
    assert (answer["records"], answer["term"], answer["partitions"]) == (records, 4, 2)
    assert "topics that were never copied: " in answer["not_exported"][0]
    assert sorted(answer["holes"]) == ["aborted", "marker"]
    manifest = check_files(answer["exported"], answer["sha256"])
    found = [(each["partition"], each["lost_from"], each["end"]) for each in bare["partitions"]]
    assert [(r.partition, r.first, r.end) for r in manifest.ranges] == found
    _, *verify = shlex.split(answer["next"].partition("any time: ")[2])
    assert verify[-3:] == [answer["exported"], "--sha256", answer["sha256"]]
    done = drkit_here(*verify, "--master", MASTER, "--json")
    code, verified, said = done.returncode, json.loads(done.stdout or "{}"), done.stderr
    assert (code, verified["records"]) == (0, answer["records"]), said
    pin("divergence verify", verified)
    assert run("verify", answer["exported"], "--sha256", "0" * 64)[0] == 3
    assert run("verify", str(tmp_path / "to"))[0] == 2
    assert run("export", "--to", str(tmp_path / "to"), "--topic", "other")[0] == 2
    assert run("--records", str(tmp_path / "x"), "export", "--to", str(tmp_path / "to"))[0] == 2
    (tmp_path / "file").write_text("")
    code, _, said = run("export", "--to", str(tmp_path / "file"))
    assert (code, json.loads(said.split("\n", 1)[1])["code"]) == (1, "export_not_written")
    assert len([*(tmp_path / "to").iterdir()]) == 1
