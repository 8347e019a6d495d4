"""What a return would copy, keep and give up, topic by topic; also while the old primary is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from drkit.errors import DrkitError
from drkit.failover.core.choices import Method
from drkit.failover.core.context import Context
from drkit.failover.returning.compare import compared, cuts_of, unsound
from drkit.failover.returning.contact import ends_now
from drkit.failover.returning.deciding import methods_of
from drkit.failover.returning.gates import early_groups, late_groups
from drkit.failover.returning.tails import Unsound
from drkit.flow_state.records import RoleRecord
from drkit.kafka.raw import RawError
from drkit.model import TopicPartition
from drkit.status.lag.source import Ends


@dataclass(frozen=True)
class TopicOutlook:
    """One topic of the old primary. Numbers of offsets are upper bounds of records."""

    topic: str
    promoted_ms: int
    planned: bool
    partitions: int
    delta: int
    """Offsets that clients wrote on the new primary since: what every method copies."""
    whole: int
    """Offsets that the new primary has: what a rebuilt topic copies."""
    found: Mapping[str, int] = field(default_factory=dict)
    """Class → partitions; empty: the old primary does not answer."""
    only_old: int | None = None
    """Records that only the old primary has; None: unknown until it answers."""
    only_old_bytes: int | None = None
    removed: int | None = None
    """Offsets of such records that its retention has removed."""
    methods: Mapping[str, int] = field(default_factory=dict)
    """Method → partitions, as chosen or by default."""
    copies: int | None = None
    """Offsets that these methods copy."""
    emptied: int = 0
    """Partitions that are emptied."""
    gives_up: str = ""
    """What the old primary loses with these methods."""
    early_groups: tuple[str, ...] = ()
    """Groups that the method trim would leave without a position."""
    appended: int = 0
    """Records of kept tails that are appended to the new primary."""
    late_groups: tuple[str, ...] = ()
    """Groups that the method keep leaves without a position until they have read the appended tail."""
    unknown: str = ""
    """Why the old primary could not be compared; empty: it was."""

    def to_json(self) -> dict[str, Any]:
        """The outlook as plain data."""
        return asdict(self)


def outlook(context: Context) -> list[TopicOutlook]:
    """What a return of the scope would do, by what is chosen. Changes nothing.

    :raises DrkitError: the new primary does not answer
    """
    context.state.load()
    names = list(context.scope.topics.values())
    ends: dict[TopicPartition, Ends] = context.run(ends_now, context.target, names)[0]
    wrong, why = _looked_at(context)
    return [_of(context, name, ends, wrong, why) for name in sorted(context.scope.topics)]


def _looked_at(context: Context) -> tuple[list[Unsound] | None, str]:
    """What is unsound on the old primary; None, and why: it could not be compared."""
    if context.source() is None:
        return None, f"{context.flow.source} does not answer: {context.source_error}"
    try:
        return unsound(context, compared(context, undecided=True)), ""
    except RawError as error:
        return None, f"{context.flow.source} stopped answering: {error!r}"
    except DrkitError as error:
        return None, f"{error.what}: {error.evidence}"


def _of(
    context: Context, name: str, ends: Mapping[TopicPartition, Ends], wrong: list[Unsound] | None, why: str
) -> TopicOutlook:
    role, cuts = context.state.all(RoleRecord)[name], cuts_of(context)
    target = context.scope.topics[name]
    mine = {at.partition: e for at, e in ends.items() if at.topic == target}
    delta = {p: max(0, e.end - cuts.get(TopicPartition(name, p), e.start)) for p, e in mine.items()}
    whole = {p: e.end - e.start for p, e in mine.items()}
    base = TopicOutlook(
        name, role.at_ms, bool(role.planned), len(mine), sum(delta.values()), sum(whole.values()), unknown=why
    )
    if wrong is None:
        return base
    tails = [u for u in wrong if u.at.topic == name]
    methods = {at.partition: m for at, m in methods_of(context, wrong).items() if at.topic == name}
    kinds = Counter(u.tail.found.value for u in tails) + Counter(clean=len(mine) - len(tails))
    copies = sum(whole[p] if methods.get(p) is Method.REBUILD else n for p, n in delta.items())
    trimmed = {TopicPartition(name, p) for p, m in methods.items() if m is Method.TRIM}
    kept = {TopicPartition(name, p) for p, m in methods.items() if m is Method.KEEP}
    by_method = Counter(methods.get(p, Method.DELTA).value for p in mine)
    return TopicOutlook(
        **{f: getattr(base, f) for f in ("topic", "promoted_ms", "planned", "partitions", "delta", "whole")},
        found=dict(kinds),
        only_old=sum(u.tail.records for u in tails),
        only_old_bytes=sum(u.tail.bytes for u in tails),
        removed=sum(u.tail.removed for u in tails),
        methods=dict(by_method),
        copies=copies,
        emptied=sum(m.empties for m in methods.values()),
        gives_up=_given_up([u for u in tails if u.at not in kept], trimmed),
        early_groups=tuple(early_groups(context, trimmed)) if trimmed else (),
        appended=sum(u.tail.records for u in tails if u.at in kept),
        late_groups=tuple(late_groups(context, kept)) if kept else (),
    )


def _given_up(tails: Iterable[Unsound], trimmed: Iterable[TopicPartition]) -> str:
    said = []
    if sum(u.tail.records for u in tails):
        said.append("the records that only it has, unless they are replayed; they are exported first")
    if any(True for _ in trimmed):
        said.append("what is older than the failover, in trimmed partitions")
    return "; ".join(said)
