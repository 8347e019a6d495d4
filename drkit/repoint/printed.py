"""Prints only: an operator changes the clients."""

from __future__ import annotations

from collections.abc import Callable

from drkit.endpoint import Endpoint
from drkit.repoint.contract import RepointEffect, judge


class Printed:
    """Prints what to change, once per term and process.

    :param say: takes one line
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._current: Endpoint | None = None

    @property
    def name(self) -> str:
        """See :class:`Adapter`."""
        return "print"

    def current(self) -> Endpoint | None:
        """See :class:`Adapter`: the endpoint that this process has printed."""
        return self._current

    def tell(self, endpoint: Endpoint) -> RepointEffect:
        """See :class:`Adapter`."""
        effect = judge(self._current, endpoint, self.name)
        if effect is RepointEffect.CHANGED:
            self._say(f"Send the clients to {endpoint.cluster} now (term {endpoint.term}):")
            self._say(f"  bootstrap.servers={endpoint.bootstrap_servers}")
            for name, value in endpoint.client.items():
                self._say(f"  {name}={value}")
            for name, there in endpoint.topics.items():
                self._say(f"  topic {name} is called {there} there")
            self._say("  close each client and create a new one; one that only reconnects may repeat records")
            self._current = endpoint
        return effect
