"""No bytes end a process: every parser returns something or raises the error that it is known to raise.

The short run is the same each time; ``make soak`` looks further.
"""

from __future__ import annotations

from contextlib import suppress
import random
import resource
import time

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.parsers import PARSERS

SEEDS = st.integers(0, 2**32)
SECONDS = 2.0
"""Of the processor, for one input: what takes longer can hold a task up."""
MOST_BYTES = 256 << 20
"""By which the process may grow while one parser is tried."""


@pytest.mark.parametrize("name", PARSERS)
def test_valid_samples_are_read(name: str):
    """Else the mutations would be of something that is refused at its first byte."""
    parser = PARSERS[name]
    for sample in parser.samples:
        parser.parse(parser.prepare(sample))


@pytest.mark.parametrize("name", PARSERS)
@given(seed=SEEDS)
@settings(
    max_examples=100, derandomize=True, deadline=None, database=None, suppress_health_check=[*HealthCheck]
)
def test_a_parser_returns_or_raises_its_own_error(name: str, seed: int):
    try_one(name, seed)


@pytest.mark.soak
@pytest.mark.parametrize("name", PARSERS)
def test_so_do_a_great_many(name: str):
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(20_000):
        try_one(name, seed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown < MOST_BYTES >> 10


def try_one(name: str, seed: int) -> None:
    parser = PARSERS[name]
    data = parser.prepare(mutated(random.Random(seed), parser.samples))
    began = time.process_time()
    with suppress(parser.raises):  # type: ignore[arg-type]
        parser.parse(data)
    assert time.process_time() - began < SECONDS, data[:200]
