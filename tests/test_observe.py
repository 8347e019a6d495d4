from __future__ import annotations

import json
from urllib.request import urlopen

import pytest

from drkit import observe
from drkit.local.ports import PortReservation


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


def test_levels(capsys: pytest.CaptureFixture[str]):
    observe.setup("console", "warning")
    observe.event("quiet")
    assert not capsys.readouterr().err
    observe.setup("console", "info")
    observe.event("loud")
    assert "loud" in capsys.readouterr().err


def test_prometheus_reads_what_was_copied():
    observe.setup()
    port = PortReservation().reserve()
    stop = observe.serve_metrics(port)
    try:
        observe.copied(("a", "b"), "orders", 0, records=5, size=70, batches=1, frontier=5)
        observe.epoch_ended(("a", "b"))
        observe.error(ValueError("x"))
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        stop()
    labels = '{partition="0",source="a",target="b",topic="orders"}'
    assert f"drkit_records_total{labels} 5.0" in text
    assert f"drkit_bytes_total{labels} 70.0" in text
    assert 'drkit_errors_total{kind="ValueError"} 1.0' in text
    assert 'drkit_epochs_total{source="a",target="b"} 1.0' in text
