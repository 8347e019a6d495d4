"""Asking a cluster for many topics at once when some of them may be forbidden."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from drkit.errors import DrkitError, NotAuthorized
from drkit.kafka.admin import Cluster

T = TypeVar("T")


def one_by_one(
    ask: Callable[[Cluster, Iterable[str]], dict[str, T]], cluster: Cluster, names: Iterable[str]
) -> tuple[dict[str, T], dict[str, DrkitError]]:
    """Answers and refusals: all topics are asked for at once, and alone when one is forbidden."""
    names = list(names)
    try:
        return ask(cluster, names), {}
    except NotAuthorized:
        found: dict[str, T] = {}
        refused: dict[str, DrkitError] = {}
        for name in names:
            try:
                found |= ask(cluster, [name])
            except NotAuthorized as error:
                refused[name] = error
        return found, refused
