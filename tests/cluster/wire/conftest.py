"""One connection to the shared source broker for all of these tests."""

from __future__ import annotations

from tests.support.wire.fixtures import broker as broker
from tests.support.wire.fixtures import topic as topic
