"""The walk of beliefs on brokers: hundreds of pairs of a journal entry and an event, one test each.

``DRKIT_TEST_SEED=7`` chooses other pairs, ``DRKIT_TEST_PAIRS=500`` how many. ``DRKIT_TEST_WALKED=FILE`` keeps
the pairs that passed, one a line, and a later run continues after them. ``-k ID`` runs one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path

import pytest

from tests.support.failover.walk.pairs import Pair, sampled
from tests.support.failover.walk.walker import Stages

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
SEED = int(os.environ.get("DRKIT_TEST_SEED", "1"))
NUMBER = int(os.environ.get("DRKIT_TEST_PAIRS", "400"))
WALKED = Path(os.environ["DRKIT_TEST_WALKED"]) if "DRKIT_TEST_WALKED" in os.environ else None


def _finished() -> list[str]:
    if WALKED is None or not WALKED.exists():
        return []
    return [line.split()[0] for line in WALKED.read_text(encoding="utf-8").splitlines() if line]


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    with Stages() as made:
        yield made


@pytest.mark.parametrize("pair", sampled(SEED, NUMBER, _finished()), ids=lambda p: p.id)
def test_a_pair(pair: Pair, stages: Stages, tmp_path: Path) -> None:
    try:
        walked = stages.walk(pair, tmp_path, SEED)
    except BaseException as error:
        print(f"seed {SEED}: {pair.id}: {error!r}", *getattr(error, "__notes__", ()), sep="\n")  # noqa: T201
        raise
    commands = " | ".join(walked.commands)
    print(f"seed {SEED}: {pair.id}: {walked.state}, reached {walked.reached}: {commands}")  # noqa: T201
    if WALKED is not None:
        with WALKED.open("a", encoding="utf-8") as file:
            file.write(f"{pair.id} {walked.state} reached={walked.reached} refused={walked.refused}\n")
