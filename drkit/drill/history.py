"""The history of drills: entries on the target of each flow and on this machine, reports on this machine.

An entry that the target could not take is written there when the next drill begins. The cleanup of a drill
deletes what its entry names and nothing else, topics by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
import shutil
from typing import Final
from uuid import UUID

from pydantic import ValidationError
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from drkit.atomic_file import replace_file
from drkit.clock import wall_ms
from drkit.config import ClusterSettings, FlowSettings, Settings
from drkit.config.tables.fields import did_you_mean
from drkit.drill.entry import SOURCE, TARGET, UNFINISHED, DrillEntry, MadeItem
from drkit.drill.judge import ABORTED
from drkit.drill.plan import drill_folder
from drkit.drill.report import DrillReport, read_report
from drkit.errors import DrkitError, Failed, Refused, Usage, error_text
from drkit.exercise.verdict import PASS
from drkit.flow_state.creation import ensure_compacted
from drkit.flow_state.names import drills_topic, sole_transactional_id
from drkit.flow_state.topic import Dropped
from drkit.kafka.access.acls import NoAuthorizer, delete_acls, list_acls
from drkit.kafka.admin import Cluster
from drkit.kafka.codes import error_name
from drkit.kafka.groups.requests import Groups
from drkit.kafka.raw import ask_once
from drkit.kafka.reading.signed_log import Overtaken, SignedLog
from drkit.kafka.requests import delete_topics_by_id
from drkit.kafka.topics import describe_topics
from drkit.local.file_lock import locked_alone
from drkit.topology.acls import ResourceKind
from drkit.wire import Record

REPORT: Final = "report.json"
_ENTRIES: Final = "entries"
_MEMBERS_SECONDS: Final = 60.0
"""Members of a killed client keep a group from being deleted until their session ends."""
_LOOK_SECONDS: Final = 0.5


class DrillTopic:
    """The compacted topic with the entries of a flow's drills on its target, so that any machine knows them.

    :param source: alias of production's source
    """

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = drills_topic(source, target.alias)
        self._transactional_id = sole_transactional_id(source, target.alias, "drill")
        self._target = target
        self._entries: dict[bytes, DrillEntry] = {}
        self._log = SignedLog(target, self.name, self._take, on_restart=self._entries.clear)
        self.dropped = Dropped(self._log.where)
        """Records that are no entries: they were passed over."""

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster.connect(self._target)

    def _take(self, record: Record, problem: str) -> None:
        key, entry = record.key or b"", None if problem else _entry(record.value or b"")
        if entry is not None and entry.key.encode() == key:
            self._entries[key] = entry
        else:  # drkit deletes no entries, so a tombstone is of another client
            reason = f"offset {record.offset}: {problem or 'it is no entry of a drill'}"
            self.dropped.add(key.decode(errors="backslashreplace"), reason)

    def load(self) -> list[DrillEntry]:
        """Return the entries; other records are passed over. Raises DrkitError: the topic cannot be read."""
        if not describe_topics(self._cluster, [self.name]):
            return []
        with closing(self._log):
            self._log.read()
        return list(self._entries.values())

    def put(self, *entries: DrillEntry) -> None:
        """Write entries, durably; the topic is created when it is missing. Raises DrkitError."""
        ensure_compacted(self._cluster, self.name)
        self._log.append(*map(_record, entries))

    def begin(self, entry: DrillEntry) -> list[DrillEntry]:
        """Write the entry of a drill that begins, if no other drill of the flow is under way.

        The transactional id fences another machine that begins one at the same time.

        :returns: the entries before it
        :raises Refused: another drill is under way, or the scheduled time has an entry
        :raises DrkitError: the topic cannot be read or written
        """
        ensure_compacted(self._cluster, self.name)
        try:
            with self._log.alone(self._transactional_id) as write:
                known = self.load()
                _refuse_beside(known, entry)
                write(*_record(entry))
        except Overtaken as error:
            raise Refused("drill_under_way", where=entry.flow, evidence=error.evidence) from error
        return known


def _record(entry: DrillEntry) -> tuple[bytes, bytes]:
    return entry.key.encode(), entry.model_dump_json().encode()


def _refuse_beside(entries: Iterable[DrillEntry], entry: DrillEntry) -> None:
    for other in entries:
        if other.id and other.id != entry.id and other.is_running(wall_ms()):
            evidence = f"drill {other.id} by {other.runs_as}"
            raise Refused("drill_under_way", where=entry.flow, evidence=evidence)
        if entry.due_ms is not None and (other.name, other.due_ms) == (entry.name, entry.due_ms):
            evidence = f"drill {other.key}: {other.verdict}"
            raise Refused("drill_due_time_taken", where=entry.name, evidence=evidence)


class DrillHistory:
    """The drills of a configuration.

    :param folder: of this machine, with entries and reports
    :param topics: by the name of the flow
    """

    def __init__(self, folder: Path, topics: Mapping[str, DrillTopic] | None = None) -> None:
        self.folder, self.topics = folder, topics or {}
        self.unread = dict.fromkeys(self.topics, "not read yet")
        """Flow → why its topic was not read at the last look."""

    @classmethod
    def of(cls, settings: Settings) -> DrillHistory:
        """Return the history of a configuration."""
        flows = settings.flows
        topics = {flow.name: DrillTopic(settings.sides(flow)[1], flow.source) for flow in flows}
        return cls(drill_folder(settings, "any").parent, topics)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the history: one drill runs at a time on this machine. Raises Refused: another one runs."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return locked_alone(self.folder / ".lock", "drill_lock_held")

    def entries(self, name: str | None = None, flows: Iterable[str] | None = None) -> list[DrillEntry]:
        """Return the drills and the due times without a drill, the oldest first.

        :param name: of the only drill to return, or None for all
        :param flows: whose topics are read, or None for all; a topic that cannot be read is in `unread`
        """
        entries = self.local_entries()
        for flow in self.topics if flows is None else flows:
            self.unread.pop(flow, None)
            try:
                entries += self._topic(flow).load()
            except DrkitError as error:
                self.unread[flow] = error.in_short
        return [entry for entry in newest_entries(entries) if name in {None, entry.name}]

    def owing(self, flow: str) -> list[DrillEntry]:
        """Return the drills of a flow with a pending cleanup. Raises DrkitError: its topic cannot be read."""
        entries = newest_entries([*self.local_entries(), *self._topic(flow).load()])
        return [entry for entry in entries if entry.cleanup_owed and entry.flow == flow]

    def last_due(self, name: str, flow: str, now: datetime) -> datetime | None:
        """Return the latest due time of a drill that has an entry, or None if no due time has one.

        A later one than now was written by a clock that was wrong.

        :param flow: of the drill: a target of others may be silent
        """
        times = (entry.due_ms for entry in self.entries(name, {flow}) if entry.due_ms is not None)
        due = [time for time in times if time <= now.timestamp() * 1000]
        return datetime.fromtimestamp(max(due) / 1000, UTC) if due else None

    def last_pass(self, entries: Sequence[DrillEntry]) -> DrillReport | None:
        """Return the report of the last drill that passed, or None if this machine has none."""
        for entry in reversed(entries):
            if entry.verdict == PASS and entry.id:
                with suppress(DrkitError):  # of another machine, or of another drkit
                    return self.report_of(entry)
        return None

    def report_path(self, drill_id: str) -> Path:
        """Return the file of a report."""
        return self.folder / drill_id / REPORT

    def entry(self, drill_id: str) -> DrillEntry:
        """Return the entry of a drill that was run. Raises Usage: no drill has this id."""
        by_id = {entry.id: entry for entry in self.entries() if entry.id}
        if drill_id not in by_id:
            known = did_you_mean(drill_id, by_id)
            raise Usage("drill_id_unknown", where=str(self.folder), drill_id=drill_id, suggestion=known)
        return by_id[drill_id]

    def report_of(self, entry: DrillEntry) -> DrillReport:
        """Return the report of a drill. Raises Failed: this machine has none, or its file is not one."""
        path = self.report_path(entry.id)
        if not path.exists():
            host = "" if entry.holder is None else f", it ran on {entry.holder.host}"
            evidence = f"its verdict is {entry.verdict}{host}"
            raise Failed("drill_report_elsewhere", where=entry.id, evidence=evidence)
        return read_report(path.read_bytes())

    def report_before(self, report: DrillReport) -> DrillReport | None:
        """Return the report whose hash a report has as `previous`, None if it is not in this folder."""
        of_hash = (e for e in self.local_entries() if e.hash and e.hash == report.previous)
        previous = next((e for e in of_hash if self.report_path(e.id).exists()), None)
        return None if previous is None else self.report_of(previous)

    def begin(self, entry: DrillEntry) -> list[DrillEntry]:
        """Write the entry of a drill that begins, and those that the target of its flow lacks.

        :returns: the entries before it, the oldest first
        :raises Refused: another drill of the flow is under way, or the due time has an entry
        """
        local, there, stamped = self.local_entries(), list[DrillEntry](), _stamped(entry)
        try:
            there = self._topic(entry.flow).begin(stamped)
        except DrkitError as error:  # it may be the target that is lost
            if isinstance(error, Refused):
                raise
        self._write_here(stamped)
        before, on_target = newest_entries([*there, *local]), {e.key: e for e in there}
        if lacking := [e for e in before if e.flow == entry.flow and on_target.get(e.key) != e]:
            with suppress(DrkitError):  # the next drill tries again
                self._topic(entry.flow).put(*lacking)
        return before

    def put(self, entry: DrillEntry, *, everywhere: bool = False) -> None:
        """Write an entry.

        :param everywhere: it must be on the target, too
        :raises Failed: it is not on this machine
        :raises DrkitError: it is not on the target
        """
        written = _stamped(entry)
        self._write_here(written)
        with suppress(*() if everywhere else (DrkitError,)):
            self._topic(written.flow).put(written)

    def _write_here(self, entry: DrillEntry) -> None:
        _write(self._entry_file(entry.key), entry.model_dump_json(), entry)

    def _entry_file(self, key: str) -> Path:
        return self.folder / _ENTRIES / f"{key}.json"

    def end(self, report: DrillReport, seconds: float) -> None:
        """Write the report of a drill, then the end of its entry; keep nothing else of one that passed."""
        entry = DrillEntry.model_validate_json(self._entry_file(report.id).read_bytes())
        path = self.report_path(report.id)
        _write(path, report.to_json(), entry)
        end = {"verdict": report.verdict, "seconds": round(seconds, 3), "hash": report.self_hash}
        self.put(entry.model_copy(update=end))
        for other in path.parent.iterdir() if report.verdict == PASS else ():
            if other != path:
                shutil.rmtree(other) if other.is_dir() else other.unlink()

    def local_entries(self) -> list[DrillEntry]:
        """Return the entries on this machine."""
        try:
            texts = [path.read_bytes() for path in (self.folder / _ENTRIES).glob("*.json")]
        except PermissionError:  # the folder of another user, whose entries are on the target
            return []
        return [entry for entry in map(_entry, texts) if entry is not None]

    def _topic(self, flow: str) -> DrillTopic:
        if flow not in self.topics:
            raise DrkitError("drill_flow_missing", where=flow)
        return self.topics[flow]


def newest_entries(entries: Iterable[DrillEntry]) -> list[DrillEntry]:
    """Return the newest version of each entry, in the order of their begins."""
    newest = {entry.key: entry for entry in sorted(entries, key=lambda entry: entry.written_ms)}
    return sorted(newest.values(), key=lambda entry: (entry.began_ms, entry.key))


def _stamped(entry: DrillEntry) -> DrillEntry:
    return entry.model_copy(update={"written_ms": wall_ms()})


def _entry(text: bytes) -> DrillEntry | None:
    try:
        return DrillEntry.model_validate_json(text)
    except ValidationError:
        return None  # another program may have written it


def _write(file: Path, text: str, entry: DrillEntry) -> None:
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(file, text.encode())
    except OSError as error:
        code = "drill_cleanup_unrecorded" if entry.cleanup_owed else "drill_history_unwritable"
        where = str(error.filename or entry.key)
        raise Failed(code, where=where, evidence=error_text(error), flow=entry.flow) from error


def clean_up(settings: Settings, flow: FlowSettings, history: DrillHistory) -> dict[str, list[str]]:
    """Delete what is left of drills that owe their cleanup, from their entries alone.

    :param settings: of production
    :param flow: of production
    :returns: drill id → what could not be deleted, with the reason; empty lists: nothing is left
    :raises Refused: a drill is running
    :raises DrkitError: the entries cannot be read or written
    """
    owing = history.owing(flow.name)
    for entry in owing:
        if entry.is_running(wall_ms()):
            raise Refused("drill_running", where=f"drill {entry.id}", evidence=entry.runs_as)
    cleaned = {}
    for entry in owing:
        cleaned[entry.id] = delete_made(settings, flow, entry)
        if not cleaned[entry.id]:
            is_dead = entry.verdict == UNFINISHED
            end = {"verdict": ABORTED, "reason": "its process was killed"} if is_dead else {}
            history.put(entry.model_copy(update={"cleanup_owed": False} | end), everywhere=True)
    return cleaned


def delete_made(settings: Settings, flow: FlowSettings, entry: DrillEntry) -> list[str]:
    """Delete what a drill made, and return what could not be deleted, with the reasons."""
    problems: list[str] = []
    for side, cluster in zip((SOURCE, TARGET), settings.sides(flow), strict=True):
        topics = entry.on(side, "topic")
        try:
            problems += _delete_groups(cluster, [item.name for item in entry.on(side, "group")])
            problems += _delete_acls(cluster, topics)
            problems += _delete_topics(cluster, topics)
        except DrkitError as error:
            problems.append(f"{cluster.alias}: {error.in_short}")
    return problems


def topic_ids(settings: ClusterSettings, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of the topics that exist."""
    topics = describe_topics(Cluster.connect(settings), names)
    return {name: str(topic.topic_id) for name, topic in topics.items()}


def _delete_topics(cluster: ClusterSettings, items: list[MadeItem]) -> list[str]:
    # A topic that was never seen had not existed when the entry named it. Names of drills are reserved, so
    # the one that has the name now is the drill's.
    present = topic_ids(cluster, [item.name for item in items])
    owned = {
        UUID(present[item.name]): item.name
        for item in items
        if item.name in present and item.topic_id in {"", present[item.name]}
    }
    if not owned:
        return []
    what = "delete the topics of a drill"
    answers = ask_once(cluster, "drill", lambda raw: delete_topics_by_id(raw, owned), what=what)
    return [f"topic {owned[i]} on {cluster.alias}: {error_name(code)}" for i, code in answers.items() if code]


def _delete_groups(cluster: ClusterSettings, names: list[str]) -> list[str]:
    def delete() -> dict[str, int]:
        answers = ask_once(cluster, "drill", lambda raw: Groups(raw).delete(names), what="delete groups")
        return {name: code for name, code in answers.items() if code}

    patient = Retrying(
        retry=retry_if_result(bool),
        stop=stop_after_delay(_MEMBERS_SECONDS),
        wait=wait_fixed(_LOOK_SECONDS),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else {},
    )
    return [f"group {name} on {cluster.alias}: {error_name(code)}" for name, code in patient(delete).items()]


def _delete_acls(cluster: ClusterSettings, items: list[MadeItem]) -> list[str]:
    # A fence has made them: those on exactly a topic of the entry.
    names = {item.name for item in items}
    try:
        acls = [a for a in list_acls(cluster).acls if a.resource is ResourceKind.TOPIC and a.name in names]
    except NoAuthorizer:
        return []
    refused = delete_acls(cluster, acls) if acls else {}
    return [f"ACL {acl} on {cluster.alias}: {error.in_short}" for acl, error in refused.items()]
