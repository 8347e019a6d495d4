"""The rule of this folder: what starts a process, or asks for a broker, is no unit test."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading

import pytest


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run([sys.executable, "-c", ""], check=False),
        lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}),
        os.fork,
        multiprocessing.get_context("fork").Process(target=print).start,
    ],
    ids=["subprocess", "posix_spawn", "fork", "multiprocessing"],
)
def test_a_unit_test_cannot_start_a_process(start):
    with pytest.raises(RuntimeError, match="unit tests start no process"):
        start()


def test_nor_can_its_threads():
    seen: list[str] = []

    def run() -> None:
        try:
            subprocess.run([sys.executable, "-c", ""], check=False)
        except RuntimeError as error:
            seen.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert len(seen) == 1


def test_a_unit_test_has_no_broker(request: pytest.FixtureRequest):
    with pytest.raises(pytest.fail.Exception, match="unit tests use no broker"):
        request.getfixturevalue("source")
