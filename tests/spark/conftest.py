"""Tests that start Spark: whole flows, verify, sessions."""

from __future__ import annotations

from tests.support.flows.fixtures import flow as flow
from tests.support.flows.fixtures import flow_factory as flow_factory
from tests.support.spark.class_archive import _class_archive as _class_archive
