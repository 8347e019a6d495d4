"""Clusters of a module's own, and flows whose own questions go past the links."""

from __future__ import annotations

from tests.support.exactness.fixtures import flow as flow
from tests.support.exactness.fixtures import flow_factory as flow_factory
from tests.support.exactness.fixtures import pair as pair
