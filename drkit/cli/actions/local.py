"""``drkit local``: a primary/standby pair of real Kafka clusters on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from drkit.cli.render import emit
from drkit.cli.talk import say
from drkit.local.pair import LocalPair, default_folder
from drkit.next_command import typed

_USUAL: Final = Path("drkit.toml")


def up(folder: Path | None, brokers: int, config: Path) -> None:
    """Run ``drkit local up``."""
    pair = LocalPair(folder or default_folder())
    answer = pair.up(config, brokers=brokers, progress=say)
    if (written := Path(answer["config"]).absolute()) != config.absolute():
        config = written  # of the pair that was running
    given = [] if config == _USUAL else ["--config", str(config)]
    next_ = typed("drkit", "replicate", *given)
    is_only = config != _USUAL and not _USUAL.exists()
    own = "; or write a configuration of your own: drkit config init" if is_only else ""
    emit(answer | {"next": next_ + own})


def down(folder: Path | None) -> None:
    """Run ``drkit local down``."""
    emit(LocalPair(folder or default_folder()).down())


def kill(folder: Path | None, cluster: str) -> None:
    """Run ``drkit local kill``."""
    emit(LocalPair(folder or default_folder()).kill(cluster))


def start(folder: Path | None, cluster: str) -> None:
    """Run ``drkit local start``."""
    emit(LocalPair(folder or default_folder()).start(cluster, say))


def status(folder: Path | None) -> None:
    """Run ``drkit local status``."""
    answer = LocalPair(folder or default_folder()).status()
    emit(answer if answer["brokers"] else answer | {"next": "drkit local up"})
