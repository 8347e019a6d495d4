"""Checkpoint folders read and copied: what must not change, what must not stay, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drkit.errors import ConfigError, Failed, Refused
from drkit.model import TopicPartition
from drkit.offsets.spark_query import NewLog
from drkit.translate.spark_checkpoint import check_out, local_path, read_folder, write_folder
from tests.support.errors import coded

AT = TopicPartition("orders", 0)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as Spark leaves it on a local disk, with its checksum files and what a kill left."""
    path = tmp_path / "checkpoint"
    for name, data in {
        "metadata": b'{"id":"7c8e"}',
        ".metadata.crc": b"crc of metadata",
        "offsets/0": b'v1\n{}\n{"orders":{"0":10}}\n{"logOffset":0}',
        "offsets/.0.crc": b"crc",
        "offsets/1": b'v1\n{}\n{"orders":{"0":20}}\n{"logOffset":0}',
        "offsets/.1.crc": b"crc",
        "offsets/1.crc": b"crc of Spark",
        "offsets/.1.crc.crc": b"crc of that",
        "offsets/.2.3f-5a.tmp": b"half of",
        "offsets/..2.3f-5a.tmp.crc": b"crc",
        "commits/0": b'v1\n{"nextBatchWatermarkMs":0}',
        "commits/.0.crc": b"crc of commit",
        "sources/0/0": b'\0v1\n{"orders":{"0":5}}',
        "sources/0/.0.crc": b"crc",
        "sources/1/0": b'v1\n{"path":"file:///in/a","timestamp":1,"batchId":0}',
        "sources/1/.0.crc": b"crc of files",
        "state/0/0/1.delta": b"state",
        "state/0/0/.1.delta.crc": b"crc of state",
        "state/0/0/1.delta.crc": b"Spark's crc of state",
    }.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    (path / "state" / "0" / "1").mkdir()
    return path


def files(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_a_folder_is_read(checkpoint: Path) -> None:
    folder = read_folder(local_path(f"file://{checkpoint}"))
    assert folder.query_id == "7c8e"
    assert folder.log.open
    assert (folder.log.newest, folder.log.previous, folder.log.committed) == (1, 0, 0)
    assert folder.log.kafka_sources() == {"0"}
    assert folder.log.first["0"].offsets == {AT: 5}


@pytest.mark.parametrize("there", [False, True])
def test_only_what_is_translated_changes(checkpoint: Path, tmp_path: Path, *, there: bool) -> None:
    before, out = files(checkpoint), tmp_path / "deep" / "new"
    if there:
        out.mkdir(parents=True)
    folder = read_folder(checkpoint)
    check_out(folder.path, out)
    write_folder(folder, out, NewLog({0: b"new 0", 1: b"new 1"}, {"0": b"new first"}))
    assert files(checkpoint) == before
    gone = {n for n in before if n.startswith("offsets/") or n == "sources/0/.0.crc"}
    expected = {n: data for n, data in before.items() if n not in gone}
    expected |= {"offsets/0": b"new 0", "offsets/1": b"new 1", "sources/0/0": b"new first"}
    assert files(out) == expected
    assert (out / "state" / "0" / "1").is_dir()
    assert [p.name for p in out.parent.iterdir()] == ["new"]


def operator(place: str) -> str:
    """What an operator notes of its state in the newer kind of checkpoint."""
    schemas = [f"{place}/state/0/_stateSchema/n/0_5f"]
    store = {"storeName": "n", "numPartitions": 2, "stateSchemaFilePaths": schemas}
    body = {"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [store], "operatorPropertiesJson": "{}"}
    return "v2\n" + json.dumps(body, separators=(",", ":"))


@pytest.mark.parametrize(
    ("place", "location", "now"),
    [
        ("file:{path}", "", "file:{out}"),
        ("/was/moved/since/state/1", "", "file:{out}"),
        ("hdfs://nn/c", "hdfs://other/c/", "hdfs://other/c"),
    ],
)
def test_paths_of_schemas_lead_into_the_copy(
    checkpoint: Path, tmp_path: Path, place: str, location: str, now: str
) -> None:
    out, name = tmp_path / "new", "state/0/_metadata/v2/0"
    (checkpoint / name).parent.mkdir(parents=True)
    (checkpoint / name).write_text(operator(place.format(path=checkpoint)))
    (checkpoint / "state/0/_metadata/v2/.0.crc").write_bytes(b"crc")
    write_folder(read_folder(checkpoint), out, NewLog(), location)
    assert (out / name).read_text() == operator(now.format(out=out))
    assert not (out / "state/0/_metadata/v2/.0.crc").exists()


def test_where_a_copy_for_another_file_system_will_lie_must_be_said(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "state/0/_metadata/v2").mkdir(parents=True)
    (checkpoint / "state/0/_metadata/v2/0").write_text(operator("s3a://b/c"))
    with pytest.raises(Refused, check=coded("checkpoint_location_unknown")) as seen:
        write_folder(read_folder(checkpoint), tmp_path / "new", NewLog())
    assert "--location" in seen.value.hint
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_history_that_is_left_out_takes_its_commits_with_it(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    write_folder(read_folder(checkpoint), out, NewLog({1: b"new 1"}, left_out=[0], first_left_out=["0"]))
    new = files(out)
    assert {n for n in new if n.startswith(("offsets/", "commits/", "sources/0"))} == {"offsets/1"}
    assert (out / "sources" / "0").is_dir()


def test_a_query_that_runs_is_noticed(checkpoint: Path, tmp_path: Path) -> None:
    folder = read_folder(checkpoint)
    (checkpoint / "commits" / "1").write_bytes(b"v1\n{}")
    with pytest.raises(Refused, check=coded("query_running")) as seen:
        write_folder(folder, tmp_path / "new", NewLog({0: b"", 1: b""}))
    assert seen.value.evidence == "commits/1"
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


def test_nothing_is_left_of_what_the_disk_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = read_folder(checkpoint)
    (checkpoint / "commits" / "0").unlink()
    with pytest.raises(Failed, check=coded("checkpoint_not_written")):
        write_folder(folder, tmp_path / "new", NewLog({0: b"", 1: b""}))
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("where", ["hdfs://nn:8020/c", "s3a://bucket/c", "abfss://c@a.dfs/c"])
def test_other_file_systems_are_refused(where: str) -> None:
    with pytest.raises(Refused, check=coded("checkpoint_not_local")) as seen:
        local_path(where)
    assert "hadoop fs -get" in seen.value.hint


def test_a_folder_in_use_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    for out in (checkpoint, checkpoint / "new", tmp_path):
        with pytest.raises(Refused, check=coded("checkpoint_nested")):
            check_out(checkpoint, out)
    other = tmp_path / "other"
    other.mkdir()
    check_out(checkpoint, other)
    (other / "mine").touch()
    for out in (other, other / "mine"):
        with pytest.raises(Refused, check=coded("checkpoint_folder_in_use")) as seen:
            check_out(checkpoint, out)
        assert seen.value.evidence == "mine"


def test_no_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, check=coded("checkpoint_folder_missing")):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(ConfigError, check=coded("no_checkpoint")) as seen:
        read_folder(tmp_path)
    assert seen.value.hint == "one checkpoint at a time: checkpoint"
    with pytest.raises(ConfigError, check=coded("no_checkpoint")):
        read_folder(checkpoint / "state")


def test_a_checkpoint_that_is_not_whole(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "1").write_bytes(b"v9\n{}")
    with pytest.raises(Refused, check=coded("offset_log_malformed")) as seen:
        read_folder(checkpoint)
    assert seen.value.where.endswith("offsets/1")
    (checkpoint / "offsets" / "1").unlink()
    (checkpoint / "commits" / "1").write_bytes(b"v1\n{}")
    with pytest.raises(Refused, check=coded("checkpoint_incomplete")):
        read_folder(checkpoint)
