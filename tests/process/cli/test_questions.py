"""The question before a change, with and without a person who answers."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys

import click
import pytest

from drkit.cli.questions import ask
from drkit.errors import Usage
from tests.support.errors import coded, sentence
from tests.support.flows.process import take_interrupts

ASKS = """
import sys
from drkit.cli import main as cli
import click
from drkit.cli.questions import ask
boom = click.Command("boom", callback=lambda: ask("Fail over?", command="drkit failover"))
sys.modules["asking"] = sys.modules["__main__"]
cli._COMMANDS["boom"], cli._ELSEWHERE["boom"] = "Asks.", "asking:boom"
cli.main(["boom"])
"""


def test_without_a_terminal_the_reason_and_the_option_are_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(Usage, check=coded("no_terminal")) as caught:
        ask("Fail over?", command="drkit failover")
    assert (caught.value.exit_code, caught.value.hint) == (2, "add --yes")


@pytest.mark.parametrize("stdin", [None, subprocess.DEVNULL])
def test_a_service_learns_why_it_ended(stdin: int | None):
    command = [sys.executable, "-c", ASKS]
    if stdin is None:
        command = ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command]
    done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"usage: {sentence('no_terminal', without='nothing was changed')}" in done.stderr
    assert "add --yes" in done.stderr


@pytest.mark.parametrize(("answer", "agreed"), [("y", True), ("n", False), ("", False)])
def test_an_answer_in_a_pipe_counts(answer: str, agreed: object, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{answer}\n"))
    if agreed:
        ask("Fail over?", command="drkit failover")
    else:
        with pytest.raises(Usage, check=coded("not_confirmed")):
            ask("Fail over?", command="drkit failover")


def test_a_question_shows_no_escape_sequence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    ask("Lift \x1b[2J?", command="drkit fence lift")
    assert "\x1b" not in "".join(capsys.readouterr())


def test_an_interrupt_at_the_question_says_that_nothing_was_changed():
    here, there = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ASKS],
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
        preexec_fn=take_interrupts,  # noqa: PLW1509  no threads yet
    ) as asking:
        os.close(there)
        try:
            _read_until(here, b"Fail over?")
            _interrupt_until(asking, here, b"nothing was changed")
            assert asking.wait(60) == 130
        finally:
            asking.kill()
    os.close(here)


def test_click_alone_would_not_say_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(click.Abort):
        click.confirm("Fail over?")


def _interrupt_until(asking: subprocess.Popen[bytes], terminal: int, wanted: bytes) -> None:
    """Press Ctrl-C as a person does: again, where nothing follows.

    CPython's input() loses an interrupt that arrives between its last check for signals and its read.
    """
    shown = b""
    for _ in range(30):
        asking.send_signal(signal.SIGINT)
        while wanted not in shown and select.select([terminal], [], [], 2)[0]:
            shown += os.read(terminal, 1000)
        if wanted in shown:
            return
    raise AssertionError(f"no {wanted!r} in {shown!r}")


def _read_until(terminal: int, wanted: bytes) -> None:
    shown = b""
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"no {wanted!r} in {shown!r}"
        shown += os.read(terminal, 1000)
