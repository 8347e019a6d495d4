"""The long runs use the flows of the short ones."""

from __future__ import annotations

from tests.support.failover.fixtures import orchestrators as orchestrators
from tests.support.failover.fixtures import world_factory as world_factory
from tests.support.flows.fixtures import flow as flow
from tests.support.flows.fixtures import flow_factory as flow_factory
