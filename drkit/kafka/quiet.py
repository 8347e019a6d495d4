"""Where librdkafka's own log lines go: drkit's errors name the consequence instead."""

from __future__ import annotations

import logging
from typing import Final

QUIET: Final = logging.getLogger("drkit.librdkafka")
"""Given to a client, it keeps librdkafka from writing to stderr."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
