"""All records of a flow's state, by their keys; the others are imported for those who import this. Pure."""

from __future__ import annotations

from typing import Final

from drkit.flow_state.codec.fields import Malformed
from drkit.flow_state.codec.record import StateRecord
from drkit.flow_state.kinds.failover import (
    AclsRecord,
    FenceAclsRecord,
    FenceSizesRecord,
    GuardAclsRecord,
    OpenedRecord,
    PendingFence,
    PendingLift,
    PromotionRecord,
)
from drkit.flow_state.kinds.run import (
    BulkProducerRecord,
    CheckpointsRecord,
    ClustersRecord,
    ConfigurationRecord,
    ControlKeyRecord,
    ControlRecord,
    Ends,
    FormerSourcesRecord,
    HeldBack,
    LeaseRecord,
    NotSynchronised,
    OffsetMapRecord,
    Process,
    ProducerIdsRecord,
    SkipsRecord,
    SourceSeenRecord,
    SpeedRecord,
    StandbyRecord,
)
from drkit.flow_state.kinds.topics import (
    ConfigsRecord,
    DelayedSetting,
    EventRecord,
    GenerationRecord,
    Role,
    RoleRecord,
    TakenOverPartition,
    TakeoverRecord,
    VerifiedRecord,
)
from drkit.flow_state.kinds.turns import (
    CutRecord,
    HeldSettingsRecord,
    IncompleteRecord,
    OppositePromotionRecord,
    ReturnRecord,
    SavedTailRecord,
    TailRecord,
    UnreplayedRecord,
    WrittenRecord,
)

KINDS: Final[tuple[type[StateRecord], ...]] = (
    ControlRecord, LeaseRecord, ProducerIdsRecord, BulkProducerRecord, OffsetMapRecord, ClustersRecord,
    FormerSourcesRecord, SkipsRecord, SpeedRecord, SourceSeenRecord, CheckpointsRecord, GenerationRecord,
    RoleRecord, ConfigsRecord, TakeoverRecord, CutRecord, ReturnRecord, TailRecord, IncompleteRecord,
    HeldSettingsRecord, UnreplayedRecord, SavedTailRecord, WrittenRecord, VerifiedRecord, EventRecord,
    PromotionRecord, PendingFence, FenceSizesRecord, FenceAclsRecord, GuardAclsRecord, AclsRecord,
    PendingLift, ControlKeyRecord, StandbyRecord, OppositePromotionRecord, ConfigurationRecord,
    OpenedRecord,
)  # fmt: skip
_SINGLE: Final = {k.KEY: k for k in KINDS if not k.KEY.endswith("/")}
_NAMED: Final = tuple(k for k in KINDS if k.KEY.endswith("/"))


def kind_of(key: str) -> tuple[type[StateRecord], str] | None:
    """The kind of the record under a key, and the name in the key; None for a key that is not drkit's."""
    if key in _SINGLE:
        return _SINGLE[key], ""
    for kind in _NAMED:
        if key.startswith(kind.KEY):
            return kind, key.removeprefix(kind.KEY)
    return None


def decoded(kind: type[StateRecord], name: str, value: bytes) -> StateRecord:
    """Return the record of a kind in these bytes. Raises Malformed if drkit did not write it so."""
    try:
        kind.check_name(name)
    except Malformed as error:
        raise Malformed(f"its key: {error}") from None
    return kind.decode(value)
