"""The journal's entries, and the state that follows from their order. Pure.

The log decides, not clocks: of two runs that began at once, the one with the first entry is under way, and
the newest HOLD names its holder. Every reader of the log gets the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
import json
import re
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field, TypeAdapter

from drkit.flow_state.codec.fields import Integer, Object, Prose, checked
from drkit.flow_state.codec.record import Body, read_as
from drkit.flow_state.records import OffsetMapRecord, Role, RoleRecord
from drkit.flow_state.state import FlowState
from drkit.journal.machine import FAILOVER, TABLES, RunState, StepName, Table
from drkit.pair.promotions import opened_term

_PART_BYTES: Final = 1_000_000
"""Largest part of an entry in one record, as JSON: brokers take batches of 1,048,588 bytes by default."""
_VERSION: Final = 1
RUN_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""Valid run ids; drkit uses hexadecimal digits. Local files are named after them."""


class EntryKind(StrEnum):
    """The kind of an entry."""

    RUN = "run"
    """A run begins: its scope, request, term and holder."""
    HOLD = "hold"
    """Another process continues the run: its holder and request."""
    INTENT = "intent"
    """A step, or an effect of it, is about to begin."""
    RESULT = "result"
    """A step, or an effect of it, ended; with its evidence."""
    HELD = "held"
    """A step refused or failed; a person has to decide."""
    ABORT = "abort"
    """The run is about to be rolled back."""
    UNDO = "undo"
    """A step is about to be undone."""
    UNDONE = "undone"
    """A step was undone."""
    END = "end"
    """The run is over; with its last state."""


def _run_id(value: Any) -> str:
    if not isinstance(value, str) or not RUN_ID.fullmatch(value):
        raise ValueError("a run id that drkit does not give")
    return value


class JournalEntry(NamedTuple):
    """One entry."""

    run_id: Annotated[str, checked(_run_id)]
    number: Integer
    """Counts up from 0 in a run."""
    by: Prose
    """Token of the process that wrote the entry."""
    term: Integer
    kind: EntryKind
    step: Annotated[StepName | Prose | None, Field(union_mode="left_to_right")]
    """A text is the name of a step of a later drkit; only tolerant readers get one."""
    effect: Prose
    """Name of an effect in the step, or empty for the step itself."""
    at_ms: Integer
    body: Object

    def to_json(self) -> str:
        """Return the entry as one line of JSON."""
        return json.dumps({"v": _VERSION, **self._asdict()}, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> JournalEntry:
        """Return the entry from the text of :meth:`to_json`. Raises ValueError for any other text."""
        return cls.of(_loaded(text))

    @classmethod
    def of(cls, raw: dict[str, Any], *, tolerant: bool = False) -> JournalEntry:
        """Return the entry in JSON data.

        :param tolerant: also accept tables, steps and fields of a later drkit
        :raises ValueError: it is no entry
        """
        version = raw.pop("v", None)
        fields = {name: raw.get(name) for name in cls._fields} if tolerant else raw
        entry: JournalEntry = read_as(_ENTRY, fields)
        kind, body = entry.kind, entry.body
        if kind in {EntryKind.RUN, EntryKind.HOLD} and not isinstance(body.get("holder"), dict):
            raise ValueError("no holder of the run")
        if kind in {EntryKind.INTENT, EntryKind.RESULT} and entry.step is None:
            raise ValueError("no step")
        if kind is EntryKind.END:
            RunState(str(body.get("state")))
        is_known = version == _VERSION and isinstance(entry.step, StepName | None)
        if kind is EntryKind.RUN:
            is_known = is_known and str(body.get("table", FAILOVER.name)) in TABLES
        if not (is_known or tolerant):
            raise ValueError("an entry of another version of drkit")
        return entry


_ENTRY: Final = TypeAdapter(JournalEntry)


def _loaded(text: str | bytes) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(raw, dict):
        raise ValueError("not an object")  # noqa: TRY004  one kind of error for what is no record
    return raw


def parts_of(entry: JournalEntry) -> list[bytes]:
    """Return the values of the records that hold an entry; a large entry takes several."""
    text = entry.to_json()
    if len(whole := text.encode()) <= _PART_BYTES:
        return [whole]
    pieces = list(_pieces(text))
    head = {"part_of": f"{entry.run_id}/{entry.number}/{entry.by}", "of": len(pieces)}
    return [
        json.dumps({**head, "part": i, "text": piece}, ensure_ascii=False).encode()
        for i, piece in enumerate(pieces)
    ]


def _pieces(text: str) -> Iterator[str]:
    """Split a text into pieces that fit into a record as JSON, where a character takes 1 to 6 bytes."""
    begin = 0
    while begin < len(text):
        end = min(len(text), begin + _PART_BYTES)
        while (size := len(json.dumps(text[begin:end], ensure_ascii=False).encode())) > _PART_BYTES:
            end = begin + (end - begin) * _PART_BYTES // size
        yield text[begin:end]
        begin = end


@dataclass(frozen=True, slots=True)
class _Part(Body):
    part_of: Prose
    part: Integer
    number: Annotated[Integer, Field(alias="of")]
    text: Prose


class Assembly:
    """Makes entries from records, in the order of the log; parts of an incomplete entry are dropped.

    :param tolerant: read entries of a later drkit as far as they are understood, and pass over other records
    """

    def __init__(self, *, tolerant: bool = False) -> None:
        self._tolerant = tolerant
        self._texts: list[str] = []
        self._of = ""

    def take(self, value: bytes) -> JournalEntry | None:
        """Return the entry that a record completes, or None if parts are missing.

        :raises ValueError: not a record of the journal
        """
        try:
            raw = _loaded(value)
            if "part_of" in raw:
                text = self._joined(_Part.of(raw))
                if text is None:
                    return None
                raw = _loaded(text)
            return JournalEntry.of(raw, tolerant=self._tolerant)
        except ValueError:
            if self._tolerant:
                return None
            raise

    def _joined(self, part: _Part) -> str | None:
        """Return the text that a part completes, or None if parts are missing."""
        if part.part == 0:
            self._texts, self._of = [], part.part_of
        if self._of != part.part_of or len(self._texts) != part.part:
            return None
        self._texts.append(part.text)
        if len(self._texts) < part.number:
            return None
        text, self._texts, self._of = "".join(self._texts), [], ""
        return text


@dataclass
class RunLog:
    """One run, as recorded in its entries."""

    run_id: str
    term: int
    entries: list[JournalEntry] = field(default_factory=list)
    holder: dict[str, Any] = field(default_factory=dict)
    """Host, process and token of the holder."""
    results: dict[StepName, dict[str, Any]] = field(default_factory=dict)
    effects: dict[StepName, dict[str, dict[str, Any]]] = field(default_factory=dict)
    begun: set[StepName] = field(default_factory=set)
    undone: set[StepName] = field(default_factory=set)
    state: RunState = RunState.RUNNING
    held: dict[str, Any] = field(default_factory=dict)
    """The newest reason why the run was held, with the step."""

    @property
    def opening(self) -> dict[str, Any]:
        """Scope, request and decision at the beginning of the run."""
        return self.entries[0].body

    @property
    def table_name(self) -> str:
        """The name of the table of steps; a tolerant reader also gets names that only a later drkit has."""
        return str(self.opening.get("table", FAILOVER.name))

    @property
    def table(self) -> Table:
        """The steps of the run."""
        return TABLES[self.table_name]

    @property
    def request(self) -> dict[str, Any]:
        """The request, with the additions of processes that continued the run."""
        request: dict[str, Any] = dict(self.opening.get("request", {}))
        for entry in self.entries:
            if entry.kind is EntryKind.HOLD:
                for name, value in entry.body.get("request", {}).items():
                    # A choice of one topic leaves those of others as they are.
                    request[name] = {**request.get(name, {}), **value} if isinstance(value, dict) else value
        return request

    @property
    def scope(self) -> dict[str, Any]:
        """The scope of the run: as it began, or a smaller one with which it was continued."""
        scopes = (entry.body["scope"] for entry in reversed(self.entries) if "scope" in entry.body)
        return next(scopes, {})

    @property
    def last_step(self) -> StepName | None:
        """The furthest step that began."""
        return next((step for step in reversed(self.table.order) if step in self.begun), None)

    @property
    def is_left(self) -> bool:
        """Return whether its process has recorded that it stopped working: a person has to continue."""
        return self.entries[-1].kind is EntryKind.HELD

    @property
    def abortable(self) -> bool:
        """Return whether the run may still be rolled back."""
        last = self.last_step
        return last is None or self.table.row[last].abortable or not self.is_final

    @property
    def is_final(self) -> bool:
        """Return whether the point of no return is passed: no earlier step is repeated or undone."""
        point = self.table.point_of_no_return
        row = self.table.row[point]
        if not row.until_effect or self.last_step is not point:
            return point in self.begun
        return bool(self.effects.get(point)) or point in self.results

    def lacks_opening(self, opened_term: int) -> bool:
        """Return whether it opened topics, by the term of the newest promotion, and its entries lack that."""
        return self.table is FAILOVER and not self.is_final and self.term <= opened_term

    def take(self, entry: JournalEntry) -> None:
        """Add the next entry of this run."""
        self.entries.append(entry)
        match entry.kind:
            case EntryKind.RUN | EntryKind.HOLD:
                self.holder = entry.body["holder"]
                self.term = max(self.term, entry.term)  # a person may have raised it
                if self.state is RunState.HELD:
                    self.state = RunState.RUNNING
            case EntryKind.INTENT | EntryKind.RESULT if isinstance(entry.step, StepName):
                self._step(entry, entry.step)
            case EntryKind.HELD:
                self.state = RunState.ABORTING if self.state is RunState.ABORTING else RunState.HELD
                self.held = {"step": entry.step, **entry.body}
            case EntryKind.ABORT:
                self.state = RunState.ABORTING
            case EntryKind.UNDO if isinstance(entry.step, StepName) and self.state is not RunState.ABORTING:
                self.results.pop(entry.step, None)  # the step will run again
            case EntryKind.UNDONE if isinstance(entry.step, StepName):
                self.undone.add(entry.step)
            case EntryKind.END:
                self.state = RunState(entry.body["state"])

    def _step(self, entry: JournalEntry, step: StepName) -> None:
        if entry.effect:
            known = self.effects.setdefault(step, {})
            if entry.kind is EntryKind.INTENT:
                known[entry.effect] = {"intent": entry.body, "result": None}
            else:
                known.setdefault(entry.effect, {"intent": {}})["result"] = entry.body
        elif entry.kind is EntryKind.INTENT:
            self.begun.add(step)
            self.undone.discard(step)
        else:
            self.results[step] = entry.body


@dataclass
class JournalHistory:
    """All runs of a flow, oldest first."""

    runs: dict[str, RunLog] = field(default_factory=dict)
    open: RunLog | None = None
    """The run that is under way, or None."""
    opened: dict[str, RoleRecord] = field(default_factory=dict)
    """Source topic → the newest promotion, by the evidence of OPEN."""
    recorded_term: int = 0
    """Term of the newest run that opened topics and recorded that in the flow's state, or 0 without one."""
    state_id: str = ""
    """Id of the state topic at the newest run's beginning, or empty if it is not on record."""

    @property
    def term(self) -> int:
        """The largest term so far; 0 when there was none."""
        return max((r.term for r in self.runs.values()), default=0)

    @property
    def last(self) -> RunLog | None:
        """The newest run."""
        return next(reversed(self.runs.values()), None)

    def lost_state(self, state: FlowState, state_id: object = None) -> str:
        """Return why a flow's state is younger than this journal, or an empty text if it is not known to be.

        A missing record of such a state is unknown, not its default.

        :param state_id: id of its topic, or None if that is not compared
        """
        is_missing = state.get(OffsetMapRecord) is None
        is_another = state_id is not None and self.state_id not in {"", str(state_id)}
        if not self.opened or not (is_missing or is_another or self.recorded_term > opened_term(state)):
            return ""
        lack = "has no record of its offset map" if is_missing else "is another or an older one"
        return f"its state {lack}; its journal has run {min(role.run_id for role in self.opened.values())}"

    def take(self, entry: JournalEntry) -> None:
        """Add the next entry; an invalid one is skipped."""
        if entry.kind is EntryKind.RUN:
            if self.open is not None or entry.run_id in self.runs:
                return  # another run began first, or the entry is a duplicate
            self.open = self.runs[entry.run_id] = RunLog(entry.run_id, entry.term)
            self.state_id = str(entry.body.get("state_id", ""))
        run = self.open
        if run is None or run.run_id != entry.run_id:
            return  # no run of this id is open
        if run.entries and entry.number <= run.entries[-1].number and entry in run.entries:
            return  # a duplicate
        if entry.kind not in {EntryKind.RUN, EntryKind.HOLD} and entry.by != run.holder.get("token"):
            return  # from an overtaken process
        table = TABLES.get(run.table_name) if run.entries else None
        if isinstance(entry.step, StepName) and table is not None and entry.step not in table.row:
            return  # no run of this kind has that step
        run.take(entry)
        if entry.kind is EntryKind.RESULT and entry.step is StepName.OPEN and not entry.effect:
            self._opened(run, entry)
        if run.state.is_over:
            self.open = None

    def _opened(self, run: RunLog, entry: JournalEntry) -> None:
        request, body = run.opening.get("request"), entry.body.get("evidence")
        planned = isinstance(request, dict) and bool(request.get("planned"))
        evidence: dict[str, Any] = body if isinstance(body, dict) else {}
        self.recorded_term = run.term if evidence.get("on_record") else self.recorded_term
        role = RoleRecord(Role.PROMOTED, run.term, run.run_id, entry.at_ms, planned=planned or None)
        topics = evidence.get("topics")
        self.opened |= dict.fromkeys(topics if isinstance(topics, dict) else (), role)

    def forget_ended(self, steps: Collection[str]) -> None:
        """Keep of each run that is over only its id, term, state and the results of some steps."""
        for run in self.runs.values():
            if run is not self.open:
                run.entries, run.effects = [], {}
                run.results = {step: result for step, result in run.results.items() if step in steps}


def read_history(entries: Iterable[JournalEntry]) -> JournalHistory:
    """Return the history of a whole journal."""
    history = JournalHistory()
    for entry in entries:
        history.take(entry)
    return history
