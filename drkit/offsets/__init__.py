"""The offset map: which target offset holds which source offset, exactly. Pure."""

from drkit.offsets.map_record import (
    Decoded,
    History,
    Intent,
    MapKey,
    MapRecord,
    Mark,
    Pack,
    Reign,
    Turn,
    decode_record,
    encode_intent,
    encode_map_record,
    encode_mark,
)
from drkit.offsets.partition_map import PartitionMap
from drkit.offsets.segments import SegmentMap, Unavailable

__all__ = [
    "Decoded",
    "History",
    "Intent",
    "MapKey",
    "MapRecord",
    "Mark",
    "Pack",
    "PartitionMap",
    "Reign",
    "SegmentMap",
    "Turn",
    "Unavailable",
    "decode_record",
    "encode_intent",
    "encode_map_record",
    "encode_mark",
]
