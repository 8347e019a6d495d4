"""Every request negotiates its version: read from the source, against what each version of Kafka has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData
from kafka.protocol.producer.produce import ProduceRequest
import pytest

from drkit.kafka.access.permissions import _QUESTIONS
from drkit.topology.acls import AclOperation
from tests.support.laws import broken, sources

OLDEST = (3, 9)
LIMITS = {"version", "min_version", "max_version"}
MAY_LACK = {"DescribeClusterRequest": "fenced brokers are told since Kafka 4.0 (KIP-1073), else unknown"}
"""Requests whose least version some brokers lack, and what drkit does then."""


def limits(text: ast.Module, names: Any) -> Iterator[tuple[ast.Call, Any, dict[str, int]]]:
    """The requests of Kafka's that a module makes with limits to their versions.

    :param names: what the names in the module mean
    """
    for node in ast.walk(text):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        kind = getattr(names, node.func.id, None)
        if isinstance(kind, type) and issubclass(kind, ApiMessage):
            found = {k.arg: k.value for k in node.keywords if k.arg in LIMITS}
            if found:
                yield node, kind, {str(k): value_of(v, names) for k, v in found.items()}


def value_of(node: ast.expr, names: Any) -> int:
    """The number that an expression of a module is."""
    return int(eval(compile(ast.Expression(node), "", "eval"), vars(names)))  # noqa: S307  of drkit's own source


def limited() -> Iterator[tuple[str, int, Any, dict[str, int]]]:
    """All such requests of drkit."""
    for source in sources():
        if "_version=" in source.text or ("version=" in source.text and "kafka.protocol" in source.text):
            for call, kind, values in limits(source.tree, import_module(source.name)):
                yield source.name, call.lineno, kind, values


def test_no_request_has_a_fixed_version():
    """A broker that does not have it hangs up, and every question behind it fails."""
    fixed = [f"{name}:{line}" for name, line, _, values in limited() if "version" in values]
    broken("let a request negotiate: max_version=, not version=", fixed)


def test_the_law_sees_a_fixed_version():
    names = SimpleNamespace(ProduceRequest=ProduceRequest, _V=12)
    found = limits(ast.parse("ProduceRequest(version=_V, acks=1)\nProduceRequest(max_version=9)"), names)
    assert [values for _, _, values in found] == [{"version": 12}, {"max_version": 9}]


@pytest.mark.parametrize("broker", [v for v in sorted(BROKER_API_VERSIONS) if v >= OLDEST])
def test_every_broker_has_a_version_within_the_limits(broker: tuple[int, ...]):
    data, lacking = BrokerVersionData(broker_version=broker), set()
    for _, _, kind, values in limited():
        try:
            data.api_version(kind, values.get("min_version", 0), values.get("max_version", kind.max_version))
        except IncompatibleBrokerVersion:
            lacking.add(kind.__name__)
    assert lacking <= MAY_LACK.keys()


@pytest.mark.parametrize("operation", list(_QUESTIONS))
def test_a_broker_of_kafka_3_9_is_asked_for_permissions(operation: AclOperation):
    request, _ = _QUESTIONS[operation](["orders"])
    assert request.API_VERSION is None, "it is fixed"
    assert BrokerVersionData(broker_version=OLDEST).api_version(request) >= 0
