"""A flow's state as read: the newest record of every key, by type. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self, TypeVar, cast

from drkit.control_key import MOST_REFUSED, NO_KEY, NOT_NAMED
from drkit.errors import Refused
from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.codec.record import parsed
from drkit.flow_state.records import StateRecord, decoded, kind_of

R = TypeVar("R", bound=StateRecord)


class Damaged(Refused):
    """A record that drkit needs was replaced by one that drkit has not written."""


class StateChange(NamedTuple):
    """The change that a record of the topic made."""

    key: str
    record: StateRecord | None
    """None: the key was deleted."""


class FlowState:
    """The newest readable record of every key.

    Where the newest record is damaged, the one before it still counts. Without one before it a required
    record is refused, and one that drkit writes all the time counts as missing.

    :param where: the topic and its cluster, for errors
    """

    def __init__(self, where: str = "") -> None:
        self._where = where
        self._records: dict[type[StateRecord], dict[str, StateRecord]] = {}
        self._values: dict[str, bytes] = {}
        self.unreadable: dict[str, str] = {}
        """Keys whose newest record is damaged, and how; they include keys that are not drkit's."""
        self.refused: dict[str, str] = {}
        """Those of them whose newest record has no valid MAC, and why."""
        self.forged: dict[str, str] = {}
        """Keys without a record, under which one without a valid MAC was written while this was read."""
        self._hidden = ""
        """Why a batch was not read, which may hold the newest record of any key but those that follow it."""
        self._since: set[str] = set()

    @classmethod
    def of(
        cls,
        records: Mapping[bytes, bytes],
        where: str = "",
        refused: Mapping[bytes, str] | None = None,
        passed_over: Iterable[str] = (),
    ) -> Self:
        """The state in the newest records of a topic.

        :param refused: keys whose newest record has no valid MAC, and why
        :param passed_over: why batches were not read
        """
        found = cls(where)
        for key, value in records.items():
            found.take(key, value)
        for key, why in (refused or {}).items():
            found.refuse(key, why)
        for why in passed_over:
            found.pass_over(why)
        return found

    def take(self, key: bytes, value: bytes | None, offset: int | None = None) -> StateChange | None:
        """Read on by one record; returns what it changed, None where it is not drkit's.

        :param value: None deletes the key
        """
        name = key.decode("utf-8", errors="replace")
        self.unreadable.pop(name, None)
        self.refused.pop(name, None)
        self.forged.pop(name, None)
        if self._hidden:
            self._since.add(name)
        if value is None:
            self._forget(name)
            return StateChange(name, None)
        try:
            record = _read(name, value)
        except Malformed as error:
            self._doubt(name, str(error) if offset is None else f"offset {offset}: {error}")
            return None
        if record is None:
            return None
        self.keep(name, record, value)
        return StateChange(name, record)

    def refuse(self, key: bytes, why: str, offset: int | None = None, *, live: bool = False) -> None:
        """Pass over a record, or a tombstone, that has no valid MAC: the one before it counts.

        :param live: the topic was read to its end before: what this one hides was read, or never existed
        """
        name = key.decode("utf-8", errors="replace")
        reason = why if offset is None else f"offset {offset}: {why}"
        if why == NO_KEY:
            self._forget(name)  # this process has no key: drkit's newer records are those it cannot read
        elif live and name not in self._values and name not in self.unreadable:
            if kind_of(name) is not None and len(self.forged) < MOST_REFUSED:
                self.forged[name] = reason
            return
        if self._doubt(name, reason):
            self.refused[name] = why

    def _doubt(self, name: str, reason: str) -> bool:
        """Note that the newest record of a key is damaged; returns False when there are too many of them."""
        is_noted = name in self.unreadable or len(self.unreadable) < MOST_REFUSED
        if is_noted:
            self.unreadable[name] = reason
        elif kind_of(name) is not None and name not in self._values:
            self.pass_over(f"more than {MOST_REFUSED:,} records that are not drkit's")
        return is_noted

    def pass_over(self, why: str, *, live: bool = False) -> None:
        """A batch of unknown keys was not read.

        :param live: the topic was read to its end before: what this one hides was read, or never existed
        """
        if not live:
            self._hidden, self._since = why, set()

    def keep(self, key: str, record: StateRecord, value: bytes) -> None:
        """Enter a record that was read, or written just now."""
        self.unreadable.pop(key, None)
        self.refused.pop(key, None)
        self.forged.pop(key, None)
        self._records.setdefault(type(record), {})[key.removeprefix(record.KEY)] = record
        self._values[key] = value

    def _forget(self, key: str) -> None:
        self._values.pop(key, None)
        if (found := kind_of(key)) is not None:
            self._records.get(found[0], {}).pop(found[1], None)

    def get(self, kind: type[R], name: str = "") -> R | None:
        """The record of a kind, or None.

        :param name: the name in the key, for kinds with many records
        :raises Damaged: a required record was replaced
        """
        found = self._records.get(kind, {}).get(name)
        if found is None and kind.REQUIRED:
            key = kind.key(name)
            if key in self.unreadable or (self._hidden and key not in self._since):
                raise self._damaged([key])
        return cast("R | None", found)

    def all(self, kind: type[R]) -> dict[str, R]:
        """All records of a kind, by the names in their keys.

        :raises Damaged: one of a required kind was replaced
        """
        found = self.readable(kind)
        if kind.REQUIRED and self._hidden:
            raise self._damaged([kind.KEY])
        if kind.REQUIRED and self.unreadable:
            lost = [k for k in self._lost() if k.startswith(kind.KEY)]
            if lost:
                raise self._damaged(lost)
        return found

    def readable(self, kind: type[R]) -> dict[str, R]:
        """All readable records of a kind; for the state of another flow."""
        return cast("dict[str, R]", dict(self._records.get(kind, {})))

    def is_damaged(self, kind: type[StateRecord], name: str = "") -> bool:
        """Whether a record was replaced, and the one before it is gone."""
        key = kind.key(name)
        return key in self.unreadable and key not in self._values

    def value(self, key: str) -> bytes | None:
        """The bytes of the newest readable record under a key."""
        return self._values.get(key)

    def refuse_damaged(self) -> None:
        """Refuse a state of which a required part is lost.

        :raises Damaged: a required record was replaced, and the one before it is gone
        """
        if lost := self._lost():
            raise self._damaged(lost)

    def _lost(self) -> list[str]:
        keys = ((key, kind_of(key)) for key in list(self.unreadable) if key not in self._values)
        return [key for key, found in keys if found is not None and found[0].REQUIRED]

    def _damaged(self, keys: list[str]) -> Damaged:
        more = f"; and {len(keys) - 1} more" if len(keys) > 1 else ""
        if unsigned := [key for key in keys if key in self.refused]:
            reason = self.refused[unsigned[0]]
            code = "control_key_mismatch" if reason.endswith(NOT_NAMED) else "state_unsigned"
            return Damaged(code, where=self._where, evidence=f"key {unsigned[0]}, {reason}{more}")
        why = self.unreadable.get(keys[0]) or self._hidden or "it changed just now"
        return Damaged("state_foreign_record", where=self._where, evidence=f"key {keys[0]}, {why}{more}")

    def copy(self) -> FlowState:
        """A copy of the current state, which no longer changes."""
        found = FlowState(self._where)
        found._records = {kind: dict(some) for kind, some in list(self._records.items())}
        found._values, found.unreadable = dict(self._values), dict(self.unreadable)
        found.refused, found.forged = dict(self.refused), dict(self.forged)
        found._hidden, found._since = self._hidden, set(self._since)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlowState) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]


def _read(key: str, value: bytes) -> StateRecord | None:
    """The record under a key; None under a key of a later drkit."""
    found = kind_of(key)
    if found is None:
        parsed(value)
        return None
    return decoded(*found, value)
