"""How much of its time a replicator looks at its clusters. Pure."""

from __future__ import annotations

from typing import Final

USUAL_SHARE: Final = 10
"""A look may take a tenth of the time."""
_HASTY: Final = 2
"""A third of the time."""


def share_of_looks(usual: float, *, due: bool, whole: bool) -> float:
    """How many times as long as a look the pause after it is.

    A failover goes by the last note of the source's ends. While that note does not serve it, the next look
    comes sooner than its cost allows else.

    :param usual: where the note is good
    :param due: the last look saw what is not noted, as after a turn: the next look comes at once
    :param whole: every partition was known when the ends were noted, or none is expected to become known
        soon; not so while the copy of a new one begins
    """
    if due:
        return 0.0
    return usual if whole else min(usual, _HASTY)
