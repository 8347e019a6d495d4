"""The end of a replay that a return had left: carried out, or given up by name. Both is on record."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from drkit.clock import Millis, wall_ms
from drkit.counted import first_of
from drkit.errors import Refused
from drkit.flow_state.records import UnreplayedRecord
from drkit.flow_state.topic import StateTopic
from drkit.flow_state.unreplayed import Unreplayed, UnreplayedEnd, unreplayed
from drkit.replay.tail import Export
from drkit.replay.writer import Results


def note_replayed(
    state: StateTopic, export: Export, results: Results, how: UnreplayedEnd, by: str, wall: Millis = wall_ms
) -> list[Unreplayed]:
    """Note of topics whose tails a replay has appended to their ends that nothing is left of them.

    :param state: of the flow, loaded
    :param how: what was done
    :param by: who did it
    :returns: what was noted; nothing where no return had left it
    :raises DrkitError: the state cannot be written
    """
    done = {t.source.topic for t in export.tails if t.source in results and results[t.source].is_done}
    done -= {t.source.topic for t in export.tails if t.source not in results or not results[t.source].is_done}
    found = [each for each in unreplayed(state.records, done) if each.record.sha256 == export.sha256]
    _end(state, found, how, by, wall)
    return found


def give_up(
    state: StateTopic, manifest: str, topics: Collection[str], reason: str, by: str, wall: Millis = wall_ms
) -> list[Unreplayed]:
    """Note that records of an export are not replayed. The export's files may be gone.

    :param state: of the flow, loaded
    :param manifest: its path or URL, as it is on record
    :param topics: by their names on the old primary; empty: all of the export
    :returns: what was given up
    :raises Refused: nothing of this export waits for a replay
    :raises DrkitError: the state cannot be written
    """
    there = unreplayed(state.records)
    found = [e for e in there if e.record.manifest == manifest and (not topics or e.topic in topics)]
    if not found:
        raise Refused(
            "nothing_to_replay",
            where=state.name,
            evidence=f"{manifest}; what waits: {first_of(_names(there)) or 'nothing'}",
        )
    _end(state, found, UnreplayedEnd.GIVEN_UP, by, wall, reason)
    return found


def _names(found: Iterable[Unreplayed]) -> list[str]:
    return [f"{each.topic} of {each.record.manifest}" for each in found]


def _end(
    state: StateTopic, found: Iterable[Unreplayed], how: UnreplayedEnd, by: str, wall: Millis,
    reason: str = "",
) -> None:  # fmt: skip
    ended: list[tuple[str, UnreplayedRecord]] = [(e.name, e.ended(how, wall(), by, reason)) for e in found]
    state.put_all(ended)
