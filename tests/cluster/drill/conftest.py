"""Worlds to drill in."""

from __future__ import annotations

from tests.support.failover.fixtures import world as world
from tests.support.failover.fixtures import world_factory as world_factory
