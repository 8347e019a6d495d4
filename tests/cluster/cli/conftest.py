"""A world whose commands are typed."""

from __future__ import annotations

from tests.support.failover.fixtures import world as world
from tests.support.failover.fixtures import world_factory as world_factory
