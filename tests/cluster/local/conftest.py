"""These tests are about how drkit starts and ends its brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drkit.local.broker import LocalBroker
from drkit.local.launched import Launched


@pytest.fixture(scope="module", autouse=True)
def _as_the_product_does() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalBroker, "launch", Launched)
        yield
