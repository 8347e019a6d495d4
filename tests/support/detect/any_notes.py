"""Arbitrary records for the topic of the observers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from drkit.detect.agents import AgentNote, Hold
from drkit.detect.note_kinds import LOOK, Automatic, KnownBrokers, Pause
from drkit.detect.seen import Address, Sight
from drkit.detect.votes import Vote

NOW_MS = 1_700_000_000_000
VOTE = Vote("b", "r1", 1, NOW_MS, Sight.GONE, ("x",), 9.0, 1.5, 3.0, NOW_MS, {"dc1": 7}, "auto")
AGENT = AgentNote("dc9", "r1", 4, Hold.LEASED, NOW_MS, fenced=False, evidence=("y",))
PAUSE = Pause("me", "rack move", NOW_MS)
AUTOMATIC = Automatic("o1", "r1", NOW_MS, ("z",), "done")
KNOWN = KnownBrokers("abc", (Address("elsewhere", "broker-1.example:9092", 1),))
GOOD = {
    Vote.key("b"): VOTE, AgentNote.key("dc9"): AGENT, Pause.KEY: PAUSE, Automatic.KEY: AUTOMATIC,
    KnownBrokers.KEY: KNOWN, LOOK: VOTE,
}  # fmt: skip
"""A good note for each key."""

DEEP = b'{"evidence": ' + b"[" * 200_000
HARD: tuple[bytes, ...] = (
    b"", b"null", b"[]", b"\xff\xfe", b"\x00", DEEP, DEEP + b"]" * 200_000 + b"}", b'{"a": ' * 50_000,
    b'{"sequence": 1e999}', b'{"sequence": NaN}', b'{"sequence": ' + b"9" * 5000 + b"}",
    b'{"observer": "\\ud800", "agent": "\\ud800"}', b'{"brokers": [1]}', b'{"evidence": 5}', b"x" * (2 << 20),
)  # fmt: skip
"""What broke parsers before."""

_NUMBERS = st.one_of(
    st.integers(), st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([-1, 2**53, 2**63, 10**400, -(10**400), 1e308, True]),
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(["\x1b]0;x\x07", "\ud800", "", "x" * 300, "a\nb"]))
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def _changed(draw: st.DrawFn, key: str) -> bytes:
    """A good note with some fields replaced or taken out."""
    raw: dict[str, Any] = GOOD[key].to_json()
    for field in draw(st.sets(st.sampled_from(sorted(raw)), min_size=1, max_size=3)):
        if draw(st.booleans()):
            raw[field] = draw(ANYTHING)
        else:
            raw.pop(field)
    return json.dumps(raw).encode()


def values(key: str) -> st.SearchStrategy[bytes]:
    """Values that a foreign writer may put under a key."""
    return st.one_of(
        st.sampled_from(HARD), st.binary(max_size=200), ANYTHING.map(lambda v: json.dumps(v).encode()),
        _changed(key), st.just(GOOD[key].encode()),
    )  # fmt: skip


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """A record under a key of drkit's, or any other."""
    key = draw(st.sampled_from(sorted(GOOD)))
    value = draw(st.one_of(values(key), st.none()))
    if draw(st.booleans()):
        return key.encode(), value
    return draw(st.one_of(st.binary(max_size=20), st.sampled_from([b"vote/", b"agent/x", b"\xff"]))), value
