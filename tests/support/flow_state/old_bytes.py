"""Records as bytes that drkit wrote before its state had types: they are read, and written the same."""

from __future__ import annotations

from typing import Final

RECORDS: Final[dict[str, bytes]] = {
    "control-key": (b'{"at_ms": 1763826448123, "fingerprint": "4c27f033"}'),
    "control": (b'{"run_id": "7d1f0a2b.1234.567", "plan": 3, "action": "run"}'),
    "lease": (
        b'{"run_id": "7d1f0a2b", "host": "a-host", "pid": 4711, "space": "8c1b/pid:[4026531836]", "born":'
        b' 123456, "renewed_ms": 1763826448123, "ttl_ms": 15000}'
    ),
    "standby/5ab0c3d9": (
        b'{"process": {"host": "b-host", "pid": 815, "space": "8c1b/pid:[4026531836]", "born": 654321}, "sinc'
        b'e_ms": 1763826440000, "renewed_ms": 1763826448123, "ttl_ms": 15000, "ready": false, "reason": "Spar'
        b'k is starting"}'
    ),
    "producer-ids": (b'{"current": [4001, 0], "all": [4001]}'),
    "producer-ids/bulk/4002": (b'{"bucket": 0}'),
    "offset-map": (b'{"topic_id": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"}'),
    "flow": (b'{"source": "kVt6uFmYSI2ZJqO4Rk0FSg", "target": "MkU3OEVBNTcwNTJENDM2Qg"}'),
    "former-sources": (b'{"ids": ["kVt6uFmYSI2ZJqO4Rk0FSg", "6IgYSGP8Qw2KBXU0bPeqNA"]}'),
    "skips": (b'{"ids": [11, 12], "writes_for_ms": 315000}'),
    "speed": (b'{"at_ms": 1763826448123, "bytes": 734003200, "seconds": 12.5}'),
    "takeover/orders": (
        b'{"source_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a", "target_id": "0a1b2c3d-4e5f-6071-8293-a4b'
        b'5c6d7e8f9", "partitions": {"0": {"mm2_offset": null, "resumed_at": 120, "target_end": 100, "fou'
        b'nd_behind": 3, "committed": true}, "1": {"mm2_offset": 99, "resumed_at": 120, "target_end": 100'
        b', "found_behind": 3, "committed": true}}}'
    ),
    "cut/orders": (
        b'{"source_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a", "target_id": "0a1b2c3d-4e5f-6071-8293-a4b'
        b'5c6d7e8f9", "skip_from": {"0": 1003, "1": 0}}'
    ),
    "cut/payments": (
        b'{"source_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a", "target_id": "0a1b2c3d-4e5f-6071-8293-a4b'
        b'5c6d7e8f9", "skip_from": {"0": 1003, "1": 0}, "emptied": {"0": 1200}, "rebuilt": {"0": 17}}'
    ),
    "tail/orders": (
        b'{"run_id": "f00d00000001", "at_ms": 1763826448123, "records": 7, "spans": {"0": [100, 104], "1": '
        b'[90, 95]}, "manifest": "/backup/f00d/manifest.json", "sha256": "ab12cd34", "disposition": "replay"'
        b', "methods": {"0": "rebuild", "1": "rebuild"}, "reason": "ticket 4711", "by": "ops@host"}'
    ),
    "tail/payments": (
        b'{"run_id": "f00d00000001", "at_ms": 1763826448123, "records": 0, "spans": {}, "methods": {}}'
    ),
    "incomplete/orders": (
        b'{"run_id": "f00d00000001", "since_ms": 1763826448123, "emptied": {"0": 104, "1": 95}}'
    ),
    "held-settings/orders": (
        b'{"at_ms": 1763826448123, "by": "ada on desk", "before": {"retention.ms": "3600000", "retention.'
        b'bytes": null}, "held": {"retention.ms": "-1", "retention.bytes": "-1"}, "ended_ms": 1763826449000}'
    ),
    "unreplayed/orders/f00d00000001-5a5a5a5a": (
        b'{"run_id": "f00d00000001", "at_ms": 1763826448123, "records": 7, "manifest": "/backup/f00d/manifest'
        b'.json", "sha256": "ab12cd34", "disposition": "replay"}'
    ),
    "unreplayed/payments/f00d00000001-5a5a5a5a": (
        b'{"run_id": "f00d00000001", "at_ms": 1763826448123, "records": 7, "manifest": "/backup/f00d/manifest'
        b'.json", "sha256": "ab12cd34", "disposition": "quarantine", "ended": "given up", "ended_ms": 1763826'
        b'449123, "reason": "ticket 4711", "by": "op@a-host"}'
    ),
    "saved-tail/orders/f00d00000001-5a5a5a5a": (
        b'{"run_id": "f00d00000001", "at_ms": 1763826448123, "term": 3, "topic_id": "5f0c1f6e-6d0b-4f8a-9d1'
        b'a-1f2e3d4c5b6a", "spans": {"0": [100, 107]}, "records": {"0": 7}, "manifest": "/backup/f00d/manife'
        b'st.json", "sha256": "ab12cd34"}'
    ),
    "written/orders/0": (
        b'{"source_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a", "target_id": "0a1b2c3d-4e5f-6071-8293-a4b'
        b'5c6d7e8f9", "offset": 1204, "producer_id": 17, "at_ms": 1763826448123, "began_at": 1003}'
    ),
    "written/orders/2": (
        b'{"source_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a", "target_id": "0a1b2c3d-4e5f-6071-8293-a4b'
        b'5c6d7e8f9", "offset": 0, "producer_id": -1, "at_ms": 1763826448123}'
    ),
    "return/orders": (b'{"promoted_by": "7d1f0a2b", "run_id": "9a8b7c6d", "at_ms": 1763826448123}'),
    "configuration": b'{"parts": {"topics": "0123456789abcdef"}}',
    "opposite/orders": (
        b'{"term": 4, "run_id": "7d1f0a2b", "at_ms": 1763826448123, "ends": "5c6d7e8f", "planned": true}'
    ),
    "return/payments": (
        b'{"promoted_by": "7d1f0a2b", "run_id": "9a8b7c6d", "at_ms": 1763826448123, "clients_cut": "the'
        b' listener is closed"}'
    ),
    "role/planned": (
        b'{"role": "promoted", "term": 2, "run_id": "7d1f0a2b", "at_ms": 1763826448123, "frontiers": {"0": 1'
        b'000}, "ends": {"0": 1003}, "planned": true, "clients_cut": "the listener is closed"}'
    ),
    "topic/orders": (
        b'{"source_cluster": "kVt6uFmYSI2ZJqO4Rk0FSg", "source_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a'
        b'", "target": "primary.orders", "target_id": "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "generation'
        b'": 1}'
    ),
    "role/frozen": (b'{"role": "frozen", "term": 2, "run_id": "7d1f0a2b", "at_ms": 1763826448123}'),
    "role/orders": (
        b'{"role": "promoted", "term": 2, "run_id": "7d1f0a2b", "at_ms": 1763826448123, "frontiers": {"0"'
        b': 1000, "1": null}, "ends": {"0": 1003, "1": 0}}'
    ),
    "opened": (b'{"term": 3}'),
    "promotion": (b'{"term": 2, "run_id": "7d1f0a2b", "at_ms": 1763826448123}'),
    "configs/orders": (b'{"set": {"retention.ms": "604800000", "cleanup.policy": "delete"}}'),
    "fence-sizes": (b'{"topics": {"orders": null, "payments": "1048588"}}'),
    "fence-acls": (
        b'{"acls": [{"acl": ["TOPIC", "LITERAL", "", "User:*", "*", "WRITE", "DENY"], "names": ["orders"]}]}'
    ),
    "guard-acls": (
        b'{"acls": [{"acl": ["TOPIC", "LITERAL", "", "User:app", "*", "WRITE", "DENY"], "names": ["or'
        b'ders"]}]}'
    ),
    "acls": (
        b'{"made": [{"acl": ["TOPIC", "LITERAL", "", "User:*", "*", "WRITE", "DENY"], "names": ["orders"]'
        b'}, {"acl": ["TOPIC", "LITERAL", "", "User:app", "*", "READ", "ALLOW"], "names": ["orders"]}], "'
        b'held": [{"acl": ["TOPIC", "LITERAL", "", "User:app", "*", "WRITE", "ALLOW"], "names": ["orders"'
        b']}], "left_out": [{"acl": ["TOPIC", "LITERAL", "", "User:*", "*", "WRITE", "DENY"], "names": ["'
        b'other"]}], "guard": [{"acl": ["TOPIC", "LITERAL", "", "User:*", "*", "WRITE", "DENY"], "names":'
        b' ["orders"]}]}'
    ),
    "checkpoints": (
        b'{"at_ms": 1763826448123, "ok_ms": 1763826448123, "groups": 3, "looked_at": 2, "positions": 4, "'
        b'emitted": 0, "verdicts": {"WRITE": 3, "NOT_STORED": 1}, "refused": [["billing", "orders-0", "NO'
        b'T_STORED", "code 12"]], "unread": {}, "seconds": 0.25, "error": ""}'
    ),
    "source-seen": (b'{"at_ms": 1763826448123, "topics": {"orders": {"0": [0, 1000], "1": [5, 5]}}}'),
    "fence-lift": (
        b'{"run_id": "f00d00000001", "since_ms": 1763826440000, "why": "the old primary does not answer", "t'
        b'opics": ["orders", "payments"]}'
    ),
    "fence-debt": (
        b'{"run_id": "7d1f0a2b", "term": 2, "since_ms": 1763826448123, "why": "it does not answer", "topi'
        b'cs": ["orders", "payments"]}'
    ),
    "verified/orders/0": (
        b'{"source_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a", "target_id": "0a1b2c3d-4e5f-6071-8293-a4b'
        b'5c6d7e8f9", "source_offset": 1000, "target_offset": 1003, "at_ms": 1763826448123}'
    ),
    "event/source_recreated/orders/-1": (
        b'{"kind": "source_recreated", "topic": "orders", "partition": -1, "at_ms": 1763826448123, "flow"'
        b': "primary->standby", "identity": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a>0a1b2c3d-4e5f-6071-8293'
        b'-a4b5c6d7e8f9", "old_id": "5f0c1f6e-6d0b-4f8a-9d1a-1f2e3d4c5b6a", "new_id": "0a1b2c3d-4e5f-6071'
        b'-8293-a4b5c6d7e8f9", "stopped": true, "hint": "\\u2026"}'
    ),
    "event/resync/orders/0": (
        b'{"kind": "resync", "flow": "primary->standby", "topic": "orders", "partition": 0, "at_ms": 1763'
        b'826448123, "reason": "no answer", "attempts": 1}'
    ),
}
SEEN_WITH_HELD: Final = (
    b'{"at_ms": 1763826448123, "topics": {"orders": {"0": [0, 1000, 1030, [30, 10, 1763826440000, 4096]], '
    b'"1": [5, 5, 5], "2": [5, 5, 9, [4, 4, null, null]], "3": [0, 10, 20, [10, 10, -1, 900]]}}}'
)
"""Under the key ``source-seen`` since high watermarks and what transactions hold back are noted too."""
CHECKPOINTS_WITH_OTHERS: Final = (
    b'{"at_ms": 1763826448123, "ok_ms": 1763826448123, "groups": 3, "looked_at": 2, "positions": 4, '
    b'"emitted": 0, "verdicts": {"WRITE": 3}, "refused": [], "unread": {}, "not_synchronised": '
    b'{"total": 2, "shown": {"a-share": "share", "a-streams": "streams"}}, "seconds": 0.25, "error": ""}'
)
"""Under the key ``checkpoints`` since groups that are not consumer groups are named."""
CHECKPOINTS_UNREAD: Final = CHECKPOINTS_WITH_OTHERS.replace(
    b'"unread": {}', b'"unread": {"billing": -1, "cash": 30}'
)
"""Under the key ``checkpoints`` when the source died in the middle of a round: -1 is a client's code."""
FIRST_CHECKPOINTS: Final = b'{"at_ms": 0}'
"""Under the key ``checkpoints`` before the first round has ended."""
MORE: Final = (
    ("source-seen", SEEN_WITH_HELD),
    ("checkpoints", CHECKPOINTS_WITH_OTHERS),
    ("checkpoints", CHECKPOINTS_UNREAD),
    ("checkpoints", FIRST_CHECKPOINTS),
)
"""Other shapes of records in :data:`RECORDS`."""
FENCE_ENTRIES: Final = (
    (
        b'{"mark": "raised", "run_id": "7d1f0a2b", "token": "5ab0c3d9", "flow": "primary->standby", "term"'
        b': 2, "at_ms": 1763826448123, "topics": ["orders", "payments"], "method": "max.message.bytes", "s'
        b'izes": {"orders": null, "payments": "1048588"}, "acls": [], "why": ""}'
    ),
    (
        b'{"mark": "raised", "run_id": "7d1f0a2c", "token": "5ab0c3da", "flow": "primary->standby", "term"'
        b': 3, "at_ms": 1763826448123, "topics": ["orders"], "method": "acl", "sizes": {}, "acls": [{"acl"'
        b': ["TOPIC", "LITERAL", "", "User:*", "*", "WRITE", "DENY"], "names": ["orders"]}], "why": ""}'
    ),
    (
        b'{"mark": "aborted", "run_id": "7d1f0a2c", "token": "5ab0c3db", "flow": "primary->standby", "term'
        b'": 3, "at_ms": 1763826448123, "topics": [], "method": "", "sizes": {}, "acls": [], "why": "it bu'
        b'rnt down"}'
    ),
)
"""Entries of a fence's record on the source."""
