"""Telling clients which cluster to use: one adapter per file, all of one contract.

Endpoints with their terms, and the ways to publish them: files, ConfigMaps, webhooks and programs. Adapters
do not decide when to repoint and know nothing of a failover's steps.
"""

from drkit.repoint.contract import Adapter, OlderTerm, RepointEffect, TryAgain
from drkit.repoint.file import endpoint_of
from drkit.repoint.kinds import adapters, name_of
from drkit.repoint.tell import CurrentEndpoint, RepointOutcome, Result, Way, ask_all, tell_all

__all__ = [
    "Adapter",
    "CurrentEndpoint",
    "OlderTerm",
    "RepointEffect",
    "RepointOutcome",
    "Result",
    "TryAgain",
    "Way",
    "adapters",
    "ask_all",
    "endpoint_of",
    "name_of",
    "tell_all",
]
