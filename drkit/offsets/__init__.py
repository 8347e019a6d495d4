"""The offset map: which target offset holds which source offset, exactly.

Segments, the records of the map topic in both formats, their settlement against a log, translation of
positions, and the formats of MirrorMaker 2's and Spark's offsets. Pure: no cluster, no clock, no file.
"""

from drkit.offsets.map_codec import Decoded, decode_record, encode_intent, encode_map_record, encode_mark
from drkit.offsets.map_record import History, Intent, MapKey, MapRecord, Mark, Pack, Reign, Turn
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
