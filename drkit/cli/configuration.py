"""The configuration of a command: the file, and the settings that override it."""

from __future__ import annotations

import os

from drkit.cli.session import session
from drkit.config import Loaded, read


def configuration() -> Loaded:
    """The settings of the running command, each with its origin. Raises ConfigError."""
    said = session()
    return read(said.config, os.environ, said.overrides)
