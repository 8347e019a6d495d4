"""The configuration of a command: the file, and the settings that override it."""

from __future__ import annotations

import os
from pathlib import Path

from drkit.cli.session import session
from drkit.config import Loaded, read
from drkit.config.unchecked import ClientCheck


def configuration(client_check: ClientCheck | None = None) -> Loaded:
    """The settings of the running command, each with its origin. Raises ConfigError.

    :param client_check: also check every connection with this
    """
    said = session()
    return read(Path(said.config) if said.config else None, os.environ, said.overrides, client_check)
