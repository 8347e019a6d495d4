"""The configuration that a command works with: the file, and what was said over it."""

from __future__ import annotations

import os

from drkit.cli.session import session
from drkit.config import FlowSettings, Loaded, Settings, read
from drkit.errors import ConfigError


def configuration() -> Loaded:
    """The settings of the running command, each with its origin. Raises ConfigError."""
    said = session()
    return read(said.config, os.environ, said.overrides)


def one_flow(settings: Settings, name: str | None) -> FlowSettings:
    """The flow of that name; without one the only flow there is. Raises ConfigError."""
    if name is not None:
        return settings.flow(name)
    if len(settings.flows) != 1:
        raise ConfigError(
            f"there are {len(settings.flows)} flows: which one?",
            where="--flow",
            hint=", ".join(f"--flow '{f.name}'" for f in settings.flows) or "add a [[flows]] table",
        )
    return settings.flows[0]
