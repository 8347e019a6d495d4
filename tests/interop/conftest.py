"""Tests beside MirrorMaker 2 and Kafka's Java classes."""

from __future__ import annotations

from tests.support.flows.fixtures import flow as flow
from tests.support.flows.fixtures import flow_factory as flow_factory
from tests.support.mm2.fixtures import java as java
from tests.support.spark.class_archive import _class_archive as _class_archive
from tests.support.wire.fixtures import broker as broker
from tests.support.wire.fixtures import topic as topic
