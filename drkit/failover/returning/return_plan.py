"""The plan of a failback, topic by topic: copied, kept and given up. Also while the old primary is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from drkit.errors import DrkitError, Refused
from drkit.failover.core.context import Context
from drkit.failover.core.request import Method
from drkit.failover.loss.findings import DivergenceState
from drkit.failover.new_primary.costs import (
    CopyRate,
    MethodCost,
    PartitionSize,
    chosen_cost,
    costs_of,
    rate_of,
)
from drkit.failover.old_primary.lost_tail import Gone, gone_of, is_given_up
from drkit.failover.returning.compare import CompareStep, NeedsMethod, cuts_of
from drkit.failover.returning.contact import clients_cut, ends_now, fenced_by_size
from drkit.failover.returning.deciding import allowed, methods_of, undecided, unsound_of
from drkit.failover.returning.gates import Methods, early_groups, late_groups, refuse_lagging_replicas
from drkit.failover.returning.replays import left_notes
from drkit.flow_state.records import HeldSettingsRecord, RoleRecord
from drkit.kafka.requests import metadata, volumes
from drkit.model import TopicPartition
from drkit.status.lag.source import Ends
from drkit.status.pair.delta import PartitionDelta, bound_of
from drkit.status.pair.model import DeltaBound
from drkit.status.pair.reading import DeltaLook, retention_of


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
    """Class → partitions; empty while the old primary does not answer."""
    only_old: int | None = None
    """Records that only the old primary has, or None while it does not answer."""
    only_old_bytes: int | None = None
    removed: int | None = None
    """Offsets of such records that its retention has removed."""
    exported: int = 0
    """Records that only an earlier export has, and that are not decided about."""
    gone: str = ""
    """Records that the old primary has lost, and where they are; empty without any."""
    left: tuple[str, ...] = ()
    """Records that earlier returns have left in exports, and those given up."""
    methods: Mapping[str, int] = field(default_factory=dict)
    """Method → partitions, as chosen or by default."""
    copies: int | None = None
    """Offsets that these methods copy."""
    emptied: int = 0
    gives_up: str = ""
    """Records that the old primary loses with these methods."""
    early_groups: tuple[str, ...] = ()
    """Groups that the method trim would leave without a position."""
    appended: int = 0
    """Records of kept tails that are appended to the new primary."""
    late_groups: tuple[str, ...] = ()
    """Groups that the method keep leaves without a position until they have read the appended tail."""
    unknown: str = ""
    """The reason why the old primary could not be compared; empty if it was."""
    costs: Mapping[str, MethodCost] = field(default_factory=dict)
    """Method → what it would send if it were used for all partitions."""
    chosen: MethodCost | None = None
    """What these methods send, or None while the old primary does not answer."""
    bound: DeltaBound | None = None
    """Time until which the new primary keeps the whole delta, or None if it has none of the topic."""

    def to_json(self) -> dict[str, Any]:
        """Return the outlook as plain data."""
        fields = asdict(replace(self, costs={}, chosen=None, bound=None))
        fields["costs"] = {name: cost._asdict() for name, cost in self.costs.items()}
        fields["chosen"] = None if self.chosen is None else self.chosen._asdict()
        fields["bound"] = None if self.bound is None else self.bound._asdict()
        return fields


class Missing(NamedTuple):
    """Options that a person has to add before the return can be completed."""

    dispositions: tuple[str, ...] = ()
    histories: tuple[str, ...] = ()
    """Topics with records that are gone and in no export: they are given up by name."""
    export_to: bool = False
    """Whether there are records to export, and no folder to export them to."""
    reason: bool = False
    clients_cut: str = ""
    """The reason why clients have to be cut off by other means; empty if they need not."""
    undecided: str = ""
    """The evidence with which the return would be refused; empty if nothing is undecided."""


class Outlook(NamedTuple):
    """The plan of a return."""

    topics: list[TopicOutlook]
    rate: CopyRate
    """The rate for the computed seconds."""
    missing: Missing = Missing()
    refused: tuple[str, ...] = ()
    """The reasons why the return would not begin with this request."""
    saves: bool = True
    """Whether a return that is decided later would begin all the same."""


def outlook(context: Context) -> Outlook:
    """Return the plan of a failback of the scope. Raises DrkitError if the new primary is silent."""
    context.state.load()
    names = list(context.scope.topics.values())
    ends: dict[TopicPartition, Ends] = context.run(ends_now, context.target, names)[0]
    sizes, bounds, rate = _sizes(context, ends), _bounds(context), rate_of(context)
    wrong, reason = _compare(context)
    lost = gone_of(context, (u.tail for u in wrong)) if wrong is not None else {}
    methods = methods_of(context, wrong) if wrong is not None else {}
    topics = []
    for name in sorted(context.scope.topics):
        chosen = {tp.partition: m for tp, m in methods.items() if tp.topic == name}
        topic = _of(context, name, ends, wrong, reason, lost=lost.get(name), methods=chosen)
        own = {tp.partition: size for tp, size in sizes.items() if tp.topic == name}
        topic = replace(topic, costs=costs_of(own.values(), rate), bound=bounds.get(name))
        if wrong is not None:
            topic = replace(topic, chosen=chosen_cost(own, chosen, rate))
        topics.append(topic)
    if wrong is None:
        return Outlook(topics, rate)
    return Outlook(topics, rate, *_find_missing(context, wrong, lost, methods))


def _find_missing(
    context: Context, wrong: Sequence[NeedsMethod], lost: Mapping[str, Gone], methods: Methods
) -> tuple[Missing, tuple[str, ...], bool]:
    """Return missing options, reasons to refuse, and whether a return decided later would begin."""
    refused: list[str] = []
    by_size: list[str] = []
    cut = ""
    with _collected(refused):
        by_size = fenced_by_size(context)
    try:
        clients_cut(context, by_size)
    except Refused as error:
        cut = f"{error.what}: {error.evidence}"
    with _collected(refused):
        allowed(context, wrong)
    saves = not refused
    with _collected(refused):
        refuse_lagging_replicas(context, {tp.topic for tp, m in methods.items() if m.empties})
    request, open_ = context.request, undecided(context, wrong, methods)
    missing = Missing(
        tuple(sorted(open_.topics)) if open_ is not None else (),
        tuple(t for t, g in sorted(lost.items()) if g.lost and not is_given_up(request, t)),
        export_to=any(u.has_tail for u in wrong) and not request.export_to,
        reason=open_ is not None and open_.needs_reason,
        clients_cut=cut,
        undecided=open_.evidence if open_ is not None else "",
    )
    return missing, tuple(refused), saves


@contextmanager
def _collected(refused: list[str]) -> Iterator[None]:
    """Collect the error of a check in a list: the plan shows what it can."""
    try:
        yield
    except DrkitError as error:
        refused.append("; ".join(filter(None, (error.in_full, error.hint))))


def _sizes(context: Context, ends: Mapping[TopicPartition, Ends]) -> dict[TopicPartition, PartitionSize]:
    topics = context.run(metadata, context.target, sorted({tp.topic for tp in ends}))
    bytes_of: dict[TopicPartition, int] = context.run(volumes, context.target, topics)
    names, cuts = {target: name for name, target in context.scope.topics.items()}, cuts_of(context)
    sizes = {}
    for tp, e in ends.items():
        old_tp = TopicPartition(names[tp.topic], tp.partition)
        delta = PartitionDelta(cuts.get(old_tp, e.start), e.start, e.end, size=bytes_of.get(tp))
        sizes[old_tp] = PartitionSize(delta.size, delta.bytes)
    return sizes


def _bounds(context: Context) -> dict[str, DeltaBound]:
    roles, held = context.state.all(RoleRecord), context.state.all(HeldSettingsRecord)
    by_target = {target: roles[name] for name, target in context.scope.topics.items()}
    settings = retention_of(context.target_settings, by_target)
    look = partial(DeltaLook().partitions, sizes=True)
    parts: dict[str, list[PartitionDelta]] = context.run(look, context.target, by_target)
    return {
        name: bound_of(settings[target], parts[target], roles[name].at_ms, context.wall(), held.get(name))
        for name, target in context.scope.topics.items()
        if target in settings and target in parts
    }


def _compare(context: Context) -> tuple[list[NeedsMethod] | None, str]:
    if context.source() is None:
        return None, f"{context.flow.source} does not answer: {context.source_error}"
    try:
        CompareStep().plan(context)
        return unsound_of(context), ""
    except DrkitError as error:
        return None, error.in_full


def _of(
    context: Context, name: str, ends: Mapping[TopicPartition, Ends], wrong: list[NeedsMethod] | None,
    reason: str, lost: Gone | None, methods: Mapping[int, Method],
) -> TopicOutlook:  # fmt: skip
    role, cuts = context.state.all(RoleRecord)[name], cuts_of(context)
    target = context.scope.topics[name]
    own = {tp.partition: e for tp, e in ends.items() if tp.topic == target}
    delta = {p: max(0, e.end - cuts.get(TopicPartition(name, p), e.start)) for p, e in own.items()}
    whole = {p: e.end - e.start for p, e in own.items()}
    base = TopicOutlook(
        name, role.at_ms, bool(role.planned), len(own), sum(delta.values()), sum(whole.values())
    )
    if wrong is None:
        return replace(base, unknown=reason)
    tails = [u for u in wrong if u.at.topic == name]
    refuses = {u.at.partition for u in tails if u.tail.found is DivergenceState.MORE}
    clean = len(own.keys() - {u.at.partition for u in tails})
    kinds = Counter(u.tail.found.value for u in tails) + Counter(clean=clean)
    copies = sum(whole[p] if methods.get(p) is Method.REBUILD else n for p, n in delta.items())
    trimmed = {TopicPartition(name, p) for p, m in methods.items() if m is Method.TRIM}
    kept = {TopicPartition(name, p) for p, m in methods.items() if m is Method.KEEP}
    by_method = Counter(methods.get(p, Method.DELTA).value for p in own)
    return replace(
        base,
        found=dict(kinds),
        only_old=sum(u.tail.records for u in tails),
        only_old_bytes=sum(u.tail.bytes for u in tails),
        removed=sum(u.tail.removed for u in tails),
        exported=lost.records if lost is not None else 0,
        gone=lost.in_words if lost is not None else "",
        left=tuple(left_notes(context, [name])) if lost is None or not lost.exported else (),
        methods=dict(by_method),
        copies=copies,
        emptied=sum(m.empties for p, m in methods.items() if p not in refuses),
        gives_up=_given_up(
            [u for u in tails if u.at not in kept and u.at.partition not in refuses], lost, trimmed
        ),
        early_groups=tuple(early_groups(context, trimmed)) if trimmed else (),
        appended=sum(u.tail.records for u in tails if u.at in kept),
        late_groups=tuple(late_groups(context, kept)) if kept else (),
    )


def _given_up(tails: Iterable[NeedsMethod], lost: Gone | None, trimmed: Iterable[TopicPartition]) -> str:
    losses = []
    if sum(u.tail.records for u in tails):
        losses.append("the records that only it has, unless they are replayed; they are exported first")
    if lost is not None and lost.lost:
        losses.append(f"up to {lost.offsets_lost} more that it has no more, and that no export has")
    if any(True for _ in trimmed):
        losses.append("what is older than the failover, in trimmed partitions")
    return "; ".join(losses)
