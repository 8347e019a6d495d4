"""Several scenes on the same clusters in one test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import time
import traceback


def try_each(scenes: Mapping[str, Callable[[], object]]) -> None:
    """Run each scene, and print how it went; those that failed fail the test in the end."""
    wrong: dict[str, str] = {}
    for name, scene in scenes.items():
        began, said = time.monotonic(), None
        try:
            said = scene()
        except Exception:  # noqa: BLE001 - the next scene runs as well
            wrong[name] = traceback.format_exc()
        print(name, round(time.monotonic() - began), said, wrong.get(name, ""), flush=True)  # noqa: T201
    assert not wrong, [*wrong]
