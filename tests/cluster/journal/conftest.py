"""Worlds to fail over in."""

from __future__ import annotations

from tests.support.failover.fixtures import orchestrators as orchestrators
from tests.support.failover.fixtures import world as world
from tests.support.failover.fixtures import world_factory as world_factory
