"""Tests with brokers, without Spark: a flow is its copy tasks, rounds and lease."""

from __future__ import annotations

from tests.support.flows.fixtures import flow as flow
from tests.support.flows.fixtures import flow_factory as flow_factory
