"""What is copied: one frozen description per throughput scenario and per latency rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PARTITIONS: Final = 8
"""Partitions of every benchmark topic: enough to spread evenly over two tasks."""

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Goal:
    """What drkit must reach, as a multiple of MM2's figure measured in the same round."""

    throughput: float
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of data: how the source topic is filled and what drkit has to reach on it."""

    key: str
    title: str
    records: int
    """Records written to the source in full mode, aborted ones included."""
    quick_records: int
    record_bytes: int
    codec: str
    goal: Goal | None = None
    batch_records: int | None = None
    """Records per source batch; None leaves the batching to the producer's defaults."""
    transaction_records: int | None = None
    aborted_in_ten: int = 0
    """Of ten transactions, how many are aborted."""
    age_ms: int = 0
    """How far in the past the record timestamps lie."""

    @property
    def topic(self) -> str:
        """Name of the topic, the same on both clusters (identity naming)."""
        return f"bench-{self.key}"


@dataclass(frozen=True, slots=True)
class Pace:
    """One latency measurement: a steady stream of records of one size."""

    per_second: int
    goal_ms: float
    """Of the 99.9th percentile."""
    record_bytes: int = 200
    linger_ms: int = 0
    """Of the producer that writes them."""

    @property
    def topic(self) -> str:
        """Name of the topic, the same on both clusters."""
        return f"bench-pace-{self.per_second}"


SCENARIOS: Final = (
    Scenario("a", "1 KB records, lz4", 1_200_000, 100_000, 1000, "lz4"),
    Scenario("b", "100 B records, lz4", 5_000_000, 600_000, 100, "lz4"),
    Scenario(
        "c",
        "1-record batches, uncompressed",
        1_200_000,
        100_000,
        100,
        "none",
        Goal(2.0, 4.0),
        batch_records=1,
    ),
    Scenario(
        "d",
        "transactions of 500 records, 30 % aborted",
        2_000_000,
        200_000,
        250,
        "lz4",
        Goal(3.0),
        transaction_records=500,
        aborted_in_ten=3,
    ),
    Scenario(
        "e", "first copy, 3 years old", 3_000_000, 250_000, 250, "lz4", Goal(3.0), age_ms=3 * 365 * DAY_MS
    ),
)

TOGETHER: Final = Scenario("a+b", "both, one after the other", 6_200_000, 700_000, 274, "lz4", Goal(4.0, 8.0))
"""(a) and (b) have one goal: their records, seconds and CPU seconds are added up, round by round."""

PARTS: Final = ("a", "b")

# At 5,000/s without a linger each record is a request of its own: the producer, the source broker and the
# consumer fill two cores by themselves. Five milliseconds are the default of Kafka's producer (KIP-1030).
PACES: Final = (Pace(200, 60.0), Pace(5_000, 200.0, linger_ms=5))

GROUP_COUNTS: Final = (500, 1_000, 2_000)
"""Consumer groups in a checkpoint round: their cost must grow no faster than their number."""

GOAL_GROUPS: Final = 2_000

MAP_PARTITIONS: Final = (1, 24)
"""Over how many partitions the segments of the offset map are spread."""

COST_GROUPS: Final = 2_000
"""Number of groups on the source while the cost of checkpoints is measured."""

COST_SHARES: Final = (0.05, 1.0)
"""Of these groups, how many commit between two rounds, in every partition: as one sees it, and the worst."""

COST: Final = Scenario("cost", "1 KB records, lz4", 6_000_000, 300_000, 1000, "lz4")
"""What is copied with and without checkpoint work; not among the peers' scenarios."""
