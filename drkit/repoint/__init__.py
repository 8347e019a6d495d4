"""Telling clients where to go: one adapter per file, all of one contract."""

from drkit.repoint.contract import Adapter, Effect, OlderTerm, TryAgain
from drkit.repoint.endpoints import endpoint_of
from drkit.repoint.kinds import adapters, name_of
from drkit.repoint.tell import Outcome, Result, Way, tell_all

__all__ = [
    "Adapter",
    "Effect",
    "OlderTerm",
    "Outcome",
    "Result",
    "TryAgain",
    "Way",
    "adapters",
    "endpoint_of",
    "name_of",
    "tell_all",
]
