"""Make the pictures of README.md from a real run.

``python -m tests.readme_pictures`` starts two clusters, a replicator and applications, takes a picture of the
live page, kills the primary, fails over, and writes ``docs/images`` below the current folder. It needs
Chromium and takes about three minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
import io
import json
import os
from pathlib import Path
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from drkit.client import EndpointMoved, FailoverConsumer, FailoverProducer
from drkit.endpoint import parse_endpoint
from tests.support.status.browser import Browser
from tests.support.waiting import eventually

_ROOT: Final = Path(__file__).parent.parent
_IMAGES: Final = Path("docs/images")
_WIDTH: Final = 80
_TOPICS: Final = {"orders": 3, "payments": 2}
_GROUPS: Final = {"billing": "payments", "shipping": "orders"}
_READY_SECONDS: Final = 600
_JOIN_SECONDS: Final = 20
_DRKIT: Final = (sys.executable, "-m", "drkit")
_CURVES: Final = """[...document.querySelectorAll('path.curve')]
    .filter(curve => curve.getAttribute('d').split('L').length > 12).length === 3"""
"""Each of the three curves has a dozen points."""
_HEALTHY: Final = (
    """['flow healthy', '2 of 2 ready'].every(words => document.body.innerText.includes(words))"""
)
_QUESTION: Final = "[y/N]: "
_REPOINT: Final = """
[failover]
rpo_seconds = 120
journal_folder = "{folder}/journal"

[[failover.repoint]]
kind = "file"
path = "{folder}/endpoint.json"
"""
_UNWANTED: Final = re.compile(r"@font-face \{.*?\}|clip-path=\"url\(#[\w-]+\)\"", re.DOTALL)
"""What rich adds: a font of another site, and clips that cut underscores off in other fonts."""

_STEP: Final = re.compile(r"[\d:.]+  ([A-Z_]+) ")


def main(images: Path) -> None:
    """Write the pictures."""
    folder = Path(tempfile.gettempdir(), "shop")
    folder.mkdir()
    try:
        with _clusters(folder):
            _pictures(folder, images)
    finally:
        shutil.rmtree(folder)


def _pictures(folder: Path, images: Path) -> None:
    _run(folder, "repoint", "apply", "--to", "primary")
    endpoint = folder / "endpoint.json"
    _make_topics(parse_endpoint(endpoint.read_text()).bootstrap_servers)
    with ExitStack() as stack:
        stack.enter_context(_applications(endpoint))
        page = stack.enter_context(_replicator(folder))
        eventually(lambda: _is_ready(folder), _READY_SECONDS, "the groups are ready")
        with Browser(folder / "browser") as browser:
            browser.size(1100, 760)
            browser.open(page, "document.querySelectorAll('path.curve').length === 3")
            browser.until(_CURVES, _READY_SECONDS)
            browser.until(_HEALTHY, _READY_SECONDS)
            browser.run("document.documentElement.style.overflow = 'hidden'")
            browser.save_picture(images / "live-page.png")
        status = _typed(folder, "drkit status")
        _save(images / "status.svg", status)
        _run(folder, "local", "kill", "primary", "--folder", str(folder / "clusters"))
        failover = _typed(folder, "drkit failover --all", answer="y\n")
        _save(images / "failover.svg", _one_line_each(failover))


def _make_topics(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(topic, n) for topic, n in _TOPICS.items()]).values():
        future.result()


@contextmanager
def _clusters(folder: Path) -> Iterator[None]:
    pair = ("--folder", str(folder / "clusters"))
    _run(folder, "local", "up", *pair)
    try:
        with (folder / "drkit.toml").open("a") as file:
            file.write(_REPOINT.format(folder=folder))
        yield
    finally:
        _run(folder, "local", "down", *pair)


@contextmanager
def _replicator(folder: Path) -> Iterator[str]:
    """Run ``drkit replicate``; yields the address of its live page."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "replicate.log").open("wb") as log:
        command = [*_DRKIT, "replicate", "--metrics-port", str(port)]
        process = subprocess.Popen(command, cwd=folder, env=_environment(), stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextmanager
def _applications(endpoint: Path) -> Iterator[None]:
    """Write to both topics and read them, on the cluster that the endpoint file names."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=_write, args=(endpoint, stop), daemon=True),
        *(
            threading.Thread(target=_read, args=(endpoint, stop, *pair), daemon=True)
            for pair in _GROUPS.items()
        ),
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(_JOIN_SECONDS)  # without an end where a failover was refused: its cluster is dead


def _write(endpoint: Path, stop: threading.Event) -> None:
    with FailoverProducer({}, endpoint=str(endpoint)) as producer:
        number = 0
        while not stop.wait(0.02):
            for topic in _TOPICS:
                producer.produce(topic, key=f"customer-{number % 17}", value=f"number {number}" * 10)
            producer.poll(0)
            number += 1


def _read(endpoint: Path, stop: threading.Event, group: str, topic: str) -> None:
    settings = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with FailoverConsumer(settings, endpoint=str(endpoint)) as consumer:
        consumer.subscribe([topic])
        while not stop.is_set():
            if consumer.consume(100, 0.5):
                try:
                    consumer.commit(asynchronous=False)
                except EndpointMoved:
                    continue


def _is_ready(folder: Path) -> bool:
    (flow,) = json.loads(_run(folder, "status", "--json", check=False))["flows"]
    groups = flow["groups"] or []
    return flow["health"] == "ok" and len(groups) == len(_GROUPS) and all(group["ready"] for group in groups)


def _run(folder: Path, *words: str, check: bool = True) -> str:
    done = subprocess.run(
        [*_DRKIT, *words], cwd=folder, env=_environment(), capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def _typed(folder: Path, line: str, answer: str = "") -> str:
    """Type a line on a terminal of 80 columns; returns what is on it at the end."""
    screen, keyboard = pty.openpty()
    environment = {**_environment(), "COLUMNS": str(_WIDTH), "LINES": "50", "TERM": "xterm-256color"}
    words = line.split()[1:]
    process = subprocess.Popen(
        [*_DRKIT, *words], cwd=folder, env=environment, stdin=keyboard, stdout=keyboard, stderr=keyboard
    )
    os.close(keyboard)
    shown = ""
    with suppress(OSError):  # the terminal has no program left
        while more := os.read(screen, 1 << 16).decode():
            shown += more
            if answer and _QUESTION in more:
                os.write(screen, answer.encode())
    os.close(screen)
    assert process.wait() == 0, shown
    return f"$ {line}\n" + shown.replace("\r\n", "\n")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT)}


def _one_line_each(shown: str) -> str:
    """Shorten a failover: the last line of each step, each row in one line, no next commands."""
    plain, _, _ = Text.from_ansi(shown).plain.partition("\n1. ")
    lines = re.sub(r" *\n +", " ", plain).splitlines()
    steps = {found[1]: line for line in lines if (found := _STEP.match(line))}
    return "\n".join(x for x in lines if x in steps.values() or not _STEP.match(x))


def _save(file: Path, shown: str) -> None:
    """Draw the text of a terminal; longer lines end with an ellipsis."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(shown.rstrip()), no_wrap=True, overflow="ellipsis")
    drawn = console.export_svg(title="", theme=DIMMED_MONOKAI, unique_id=file.stem)
    file.write_text(_UNWANTED.sub("", drawn))


if __name__ == "__main__":
    main(Path.cwd() / _IMAGES)
