from __future__ import annotations

from io import StringIO
import json
import logging
import re
import sys

from prometheus_client import generate_latest
import pytest

from drkit import observe
from drkit.errors import Failed
from tests.support.errors import made


def test_an_event_is_a_line_and_a_number(capsys: pytest.CaptureFixture[str]):
    observe.setup("json", "info")
    before = observe.REGISTRY.get_sample_value("drkit_events_total", {"kind": "source_gap"}) or 0
    observe.event("source_gap", level="warning", topic="orders", partition=3)
    out, err = capsys.readouterr()
    assert not out
    line = json.loads(err)
    assert (line["event"], line["level"], line["topic"], line["partition"]) == (
        "source_gap", "warning", "orders", 3
    )  # fmt: skip
    assert observe.REGISTRY.get_sample_value("drkit_events_total", {"kind": "source_gap"}) == before + 1


def test_an_error_is_an_event_of_one_kind_and_its_text_a_field(capsys: pytest.CaptureFixture[str]):
    observe.setup("json", "info")
    observe.error(made(Failed, "cannot list topics", where="a", hint="look"))
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["what"], line["kind"]) == ("error", "cannot list topics", "Failed")
    assert (line["where"], line["hint"]) == ("a", "look")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_events_tell_run_flow_and_term(
    log_format: observe.LogFormat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(observe, "_identity", {})
    observe.setup(log_format, "info")
    observe.identify(run="7f3a")
    observe.identify("a->b", term=3)
    observe.event("source_gap", flow="a->b")
    observe.event("source_gap", flow="b->c", run="own")
    observe.error(KeyError("x"))
    ours, others, error = capsys.readouterr().err.splitlines()
    if log_format == "json":
        assert {k: json.loads(ours)[k] for k in ("run", "flow", "term")} == {
            "run": "7f3a", "flow": "a->b", "term": 3
        }  # fmt: skip
        assert json.loads(others)["run"] == "own"  # what an event says itself counts
        assert "term" not in json.loads(others)
        assert json.loads(error)["run"] == "7f3a"
    else:
        assert "run=7f3a" in ours
        assert "term=3" in ours
        assert "term" not in others


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secrets_do_not_reach_a_log(log_format: observe.LogFormat, capsys: pytest.CaptureFixture[str]):
    observe.setup(log_format, "info")
    observe.event(
        "x",
        password="top-secret",
        client={"sasl.jaas.config": "top-secret"},
        text='PlainLoginModule required password="top-secret";',
    )
    err = capsys.readouterr().err
    assert "top-secret" not in err
    assert "********" in err


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("harmful", ["\n", "\r", "\x1b[2K", "\u2028", "\x85"])
def test_a_message_of_a_library_is_one_line(
    log_format: observe.LogFormat, harmful: str, capsys: pytest.CaptureFixture[str]
):
    """Names from a cluster are in them: a line of its own would look like one of drkit's."""
    observe.setup(log_format, "info")
    logging.getLogger("a-library").warning(
        "group %s is unknown", f"g{harmful}failover_done password=hidden-one"
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert not [c for c in harmful if c in line and not c.isprintable()]
    assert "hidden-one" not in line
    assert "failover_done" in line
    if log_format == "json":
        event = json.loads(line)
        assert (event["event"], event["library"], event["level"]) == (
            "library_message",
            "a-library",
            "warning",
        )


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_on_a_terminal_writes_over_the_progress_and_leaves_out_what_only_programs_need(
    monkeypatch: pytest.MonkeyPatch,
):
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    observe.setup("console")
    terminal.write("a->b  12 records copied")
    observe.event("topic_created", topic="orders", configs={"segment.bytes": "1"}, run="7f3a", alarms=[])
    before, line = terminal.getvalue().split("\r\x1b[2K")
    text = re.sub(r"\x1b\[[\d;]*m", "", line)
    assert before == "a->b  12 records copied"
    assert re.fullmatch(r"\d\d:\d\d:\d\d \[info\] topic_created topic=orders\n", text), text


def test_levels(capsys: pytest.CaptureFixture[str]):
    observe.setup("console", "warning")
    observe.event("quiet")
    assert not capsys.readouterr().err
    observe.setup("console", "info")
    observe.event("loud")
    assert "loud" in capsys.readouterr().err


class _CountedError(ValueError):
    pass


def test_prometheus_reads_what_was_copied():
    """Of a flow and an error that no other test of the process counts."""
    observe.setup()
    observe.copied(("here", "there"), "orders", 0, records=5, size=70, batches=1, frontier=5)
    observe.epoch_ended(("here", "there"))
    observe.left_out(("here", "there"), 4711, 3)
    observe.error(_CountedError("x"))
    text = generate_latest(observe.REGISTRY).decode()
    labels = '{partition="0",source="here",target="there",topic="orders"}'
    assert f"drkit_records_total{labels} 5.0" in text
    assert f"drkit_bytes_total{labels} 70.0" in text
    assert 'drkit_errors_total{kind="_CountedError"} 1.0' in text
    assert 'drkit_epochs_total{source="here",target="there"} 1.0' in text
    assert 'drkit_left_out_records_total{producer="4711",source="here",target="there"} 3.0' in text


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observe, "MOST_PARTITIONS", 3)
    monkeypatch.setattr(observe, "_partitions", set())
    for partition in range(10):
        observe.copied(("c", "d"), "many", partition, records=1, size=1, batches=1, frontier=1)
    text = generate_latest(observe.REGISTRY).decode()
    assert text.count('drkit_records_total{partition="') >= 4
    assert 'drkit_records_total{partition="",source="c",target="d",topic="_others"} 7.0' in text
