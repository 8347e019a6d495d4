"""Asking group coordinators: each about its own groups, many at a time, again while coordinators move."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from drkit.clock import monotonic
from drkit.kafka import codes
from drkit.kafka.raw import RawCluster, RawError
from drkit.kafka.requests import TopicMetadata, describe_cluster, metadata

T = TypeVar("T")
CALL_MS: Final = 10_000
NO_ANSWER: Final = -1
"""As an error: no broker answered in time."""
TOO_LATE: Final = -2
"""As an error: nothing was sent, because the request's basis is too old."""
PASSES: Final = codes.COORDINATOR_MOVES | {NO_ANSWER, codes.REBALANCE_IN_PROGRESS}
"""Errors that are over soon; the first commit on a new cluster always meets one."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
_GROUP: Final = 0
_KEYS_PER_REQUEST: Final = 500
_IN_FLIGHT: Final = 5
"""Maximum number of in-flight requests to one broker."""
_PATIENCE_SECONDS: Final = 15.0
_LISTS: Final = 6
"""So often groups are listed until no coordinator is away: another broker takes over in seconds."""
_PAUSE_SECONDS: Final = 0.05
_PAUSE_LIMIT_SECONDS: Final = 0.5


class Answered(NamedTuple, Generic[T]):
    """A group's answer, or Kafka's error code and no value."""

    error: int
    value: T | None = None


AskNode = Callable[[int, list[str]], Awaitable[Mapping[str, Answered[T]]]]
"""Asks one broker about some groups."""


class Coordinators:
    """Caches the coordinators of groups; looks them up again after NOT_COORDINATOR."""

    def __init__(self, cluster: RawCluster) -> None:
        self._cluster = cluster
        self._of: dict[str, int] = {}

    async def ask(
        self, groups: Iterable[str], ask: AskNode[T], *, per_request: int
    ) -> dict[str, Answered[T]]:
        """Ask about every group at its coordinator.

        An error of one group, or of one broker, does not affect the answers of others. Groups whose
        coordinator was away in all the time of the last question are not waited for again.

        :param per_request: how many groups go into one request
        """
        pending, away = dict.fromkeys(groups), self._cluster.away_groups
        answered: dict[str, Answered[T]] = {}
        deadline, pause = monotonic() + _PATIENCE_SECONDS, _PAUSE_SECONDS
        while pending:
            errors = await self._find(pending)
            answered |= {g: Answered(e) for g, e in errors.items()}
            known_groups = [g for g in pending if not errors.get(g)]
            by_node = self._batches(known_groups, per_request)
            for answers in await self._cluster.loop.together(partial(self._ask_node, ask), by_node):
                answered |= answers
            pending = {g: None for g in pending if answered[g].error in PASSES}
            for group in pending:
                self._of.pop(group, None)
            gone = {g for g in pending if answered[g].error == codes.COORDINATOR_NOT_AVAILABLE}
            if not pending or monotonic() > deadline or pending.keys() <= gone & away:
                self._cluster.away_groups = (away - answered.keys()) | gone
                break
            await self._cluster.loop.sleep(pause)
            pause = min(2 * pause, _PAUSE_LIMIT_SECONDS)
        return answered

    def keep(self, most: int) -> None:
        """Forget the coordinators that were found first, beyond a number: that of the groups that exist."""
        for group in list(self._of)[: max(0, len(self._of) - most)]:
            del self._of[group]

    def _batches(self, groups: list[str], size: int) -> Iterator[tuple[int, list[list[str]]]]:
        by_node: dict[int, list[str]] = {}
        for group in groups:
            by_node.setdefault(self._of[group], []).append(group)
        for node, names in by_node.items():
            yield node, [names[i : i + size] for i in range(0, len(names), size)]

    async def _ask_node(
        self, ask: AskNode[T], batches: tuple[int, list[list[str]]]
    ) -> dict[str, Answered[T]]:
        async def one(names: list[str]) -> Mapping[str, Answered[T]]:
            try:
                return await ask(batches[0], names)
            except RawError:
                return {g: Answered(NO_ANSWER) for g in names}

        answers = await self._cluster.loop.some_at_once(one, batches[1], _IN_FLIGHT)
        return {group: answer for some in answers for group, answer in some.items()}

    async def _find(self, groups: Iterable[str]) -> dict[str, int]:
        """Find the unknown coordinators (KIP-699); returns only the errors."""
        unknown = [g for g in groups if g not in self._of]
        failed: dict[str, int] = {}
        for i in range(0, len(unknown), _KEYS_PER_REQUEST):
            keys = unknown[i : i + _KEYS_PER_REQUEST]
            request = FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=keys, min_version=4)
            try:
                answer = await self._cluster.send(request, timeout_ms=CALL_MS)
            except RawError:
                failed |= dict.fromkeys(keys, NO_ANSWER)
                continue
            for found in answer.coordinators:
                if found.error_code:
                    failed[found.key] = found.error_code
                else:
                    self._of[found.key] = found.node_id
        return failed


async def list_everywhere(cluster: RawCluster, patience: float = _PATIENCE_SECONDS) -> tuple[list[Any], int]:
    """The groups of all brokers, as they answer, and an error where some may be missing.

    A broker did not answer; or a coordinator is away, or moved meanwhile: its groups may be in no answer.
    """
    groups, error = list[Any](), 0
    for _ in range(_LISTS):
        leaders, nodes = await _coordinators(cluster), await _brokers(cluster)
        answers = await cluster.loop.together(lambda node: _list_at(cluster, node, patience), nodes)
        groups = [group for some, _ in answers for group in some]
        error = next((failed for _, failed in answers if failed), 0)
        if error or (leaders == await _coordinators(cluster) and -1 not in leaders.values()):
            break
        error = codes.COORDINATOR_NOT_AVAILABLE
        await cluster.loop.sleep(_PAUSE_LIMIT_SECONDS)
    return groups, error


async def brokers_away(cluster: RawCluster) -> str:
    """Return the brokers without which groups have no coordinator, in words, or empty. Raises RawError."""
    leaders = (await metadata(cluster, [OFFSETS_TOPIC]))[OFFSETS_TOPIC].leaders.values()
    nodes = {n for p in leaders if p.node < 0 for n in p.replicas}.difference(await _brokers(cluster))
    return f"broker {', '.join(map(str, sorted(nodes)))}" if nodes else ""


async def _coordinators(cluster: RawCluster) -> dict[int, int]:
    """Return the broker that leads each partition of the offsets topic; empty if drkit may not see it."""
    topics = dict[str, TopicMetadata]()
    with suppress(RawError):  # the brokers are asked one by one all the same
        topics = await metadata(cluster, [OFFSETS_TOPIC])
    return {number: leader.node for topic in topics.values() for number, leader in topic.leaders.items()}


async def _brokers(cluster: RawCluster) -> list[int]:
    """Return the brokers by current metadata: the connections' own metadata may be minutes old.

    One that came back since, or was added, has groups, too; those of one that is gone have moved.
    """
    try:
        return [broker.id for broker in (await describe_cluster(cluster)).brokers]
    except RawError:
        return cluster.nodes()


async def _list_at(cluster: RawCluster, node: int, patience: float) -> tuple[list[Any], int]:
    deadline, error = monotonic() + patience, NO_ANSWER
    while monotonic() < deadline:
        try:
            answer = await cluster.send(
                ListGroupsRequest(states_filter=[], types_filter=[]), node, timeout_ms=CALL_MS
            )
            error = answer.error_code
        except RawError:
            error = NO_ANSWER
        if not error:
            return list(answer.groups), 0
        if error not in PASSES:
            break
        await cluster.loop.sleep(_PAUSE_SECONDS)
    return [], error
