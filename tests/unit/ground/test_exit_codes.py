"""The exit code of each kind of error: scripts depend on it."""

from __future__ import annotations

from drkit.cli.loading import INTERRUPTED
from drkit.errors import ClusterUnreachable, ConfigError, Failed, Refused, Usage


def test_exit_codes() -> None:
    codes = {each: each.exit_code for each in (Failed, ClusterUnreachable, Usage, ConfigError, Refused)}
    assert codes == {Failed: 1, ClusterUnreachable: 1, Usage: 2, ConfigError: 2, Refused: 3}
    assert INTERRUPTED == 130
