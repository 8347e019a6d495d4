"""The loss of one partition of a source that answers: two ends of different moments are not compared."""

from __future__ import annotations

from drkit.failover.loss.count import Counted, is_drained, of_answering, reaching, span_of
from drkit.model import TopicPartition
from drkit.offsets.translation import PartitionPosition
from drkit.status.lag.source import Ends

AT = TopicPartition("orders", 0)
PLACE = PartitionPosition(frontier=90, source_start=0, source_end=100)
"""Read while clients write: at this moment the source ended at 100."""


def test_records_written_between_two_requests_are_no_open_transaction():
    """A dry run said '29 records left, 3 partitions with an open transaction' of a source without one."""
    ends = Ends(0, 129, 129)
    place = reaching(PLACE, ends)
    assert span_of(place) == (90, 129)
    lost = of_answering(AT, place, Counted(39, 390, 1, 129), ends)
    assert (lost.records, lost.end, lost.open_transaction) == (39, 129, False)
    assert (lost.held_back, lost.exact) == (0, True)


def test_an_open_transaction_is_one():
    ends = Ends(0, 100, 129)
    place = reaching(PLACE, ends)
    lost = of_answering(AT, place, Counted(10, 100, 1, 100), ends)
    assert (lost.records, lost.end, lost.open_transaction) == (10, 100, True)
    assert lost.held_back == 29
    whole = PartitionPosition(frontier=100, source_start=0, source_end=100)
    assert not is_drained([of_answering(AT, reaching(whole, ends), None, ends)])


def test_what_a_transaction_releases_between_two_requests_is_missing():
    """The copy had reached the end when a transaction was committed: its records are not copied."""
    whole = PartitionPosition(frontier=100, source_start=0, source_end=100)
    assert is_drained([of_answering(AT, reaching(whole, Ends(0, 100, 100)), None, Ends(0, 100, 100))])
    assert span_of(reaching(whole, Ends(0, 130, 130))) == (100, 130)


def test_an_unknown_end_counts_as_an_open_transaction():
    assert reaching(PLACE, None) is PLACE
    assert of_answering(AT, PLACE, None, None).open_transaction
