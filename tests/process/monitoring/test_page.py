"""The live page in a real browser, and what the server beside it answers; the figures are made by hand."""

from __future__ import annotations

from collections.abc import Iterator
import json
import re

import pytest

from drkit import observe
from drkit.clock import wall_ms
from drkit.errors import Failed
from drkit.monitoring.board import Board
from drkit.monitoring.page.server import Listen, PageServer
from drkit.status.groups import GroupPartition, GroupsSeen, GroupStatus, Readiness, Rounds
from drkit.status.model import Fault, Loss
from tests.support.errors import made
from tests.support.monitoring.page_world import EVIL, World
from tests.support.status.browser import PROGRAM, Browser

SHOWN = "document.querySelector('[data-health]') !== null"
NAMES = "[...document.querySelectorAll('button[data-key]')].map(b => b.textContent)"
FAINT = """(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = text => {
    const [r, g, b] = rgb(text).map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = [], silent = ["SCRIPT", "STYLE", "NOSCRIPT", "title"];
  for (const node of document.querySelectorAll("body *")) {
    const text = [...node.childNodes].filter(c => c.nodeType === 3).map(c => c.data.trim()).join("");
    if (!text || silent.includes(node.tagName) || !node.checkVisibility()) continue;
    let ground = node;
    while (rgb(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
    const style = getComputedStyle(node), color = node.closest("svg") ? style.fill : style.color;
    const both = [light(color), light(getComputedStyle(ground).backgroundColor)].sort((a, b) => b - a);
    if ((both[0] + 0.05) / (both[1] + 0.05) < 4.5) faint.push(`${text}: ${color}`);
  }
  return faint;
})()"""
"""Texts with less contrast than WCAG 2.2 asks for (level AA, 4.5 to 1)."""


def group(name: str, state: Readiness = Readiness.READY, reason: str = "") -> GroupStatus:
    one = GroupPartition("orders", "orders", 0, 1300, 1234, 1234, 0, 66, wall_ms(), state, reason)
    return GroupStatus(name, "Stable", "classic", "Empty", (one,))


def seen(*groups: GroupStatus) -> GroupsSeen:
    return GroupsSeen(wall_ms(), Rounds(2.0, 30.0, seconds=0.1, verdicts={"UNCHANGED": len(groups)}), groups)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        made.size(1200)
        yield made


def opened(world: World, browser: Browser, ready: str = SHOWN) -> str:
    browser.open(f"http://127.0.0.1:{world.server.port}/", ready)
    return browser.text()


@needs_browser
def test_a_browser_shows_flows_curves_and_faults(world: World, browser: Browser):
    shown = opened(world, browser)
    for words in ("1 of 1 flow healthy", "host-7", "records lost if the primary died now", "source_gap",
                  "orders-3", "31 ms", "50 behind", "no consumer groups match"):  # fmt: skip
        assert words in shown
    curves = browser.run("[...document.querySelectorAll('path.curve')].map(c => c.getAttribute('d'))")
    assert len(curves) == 3
    assert all(c.count("L") == 19 for c in curves)
    assert EVIL in shown  # a name is shown as text, whatever it contains
    assert browser.run("document.title") == "drkit"

    lost = Loss(50, 5000, None, exact=False, source_seen_seconds=31.0)
    world.show(Fault("source_unreachable", "no answer of the source"), loss=lost, source_answers=False)
    browser.until("document.title === 'drkit: fault'")
    shown = browser.text()
    for words in (
        "1 of 1 flow with a fault",
        "The source was last seen 31.0 s ago",
        "no answer of the source",
    ):
        assert words in shown
    world.server.close()
    browser.until("document.title === 'drkit: no answer'")
    assert "these figures are old" in browser.text()


@needs_browser
def test_groups_none_a_few_and_many(world: World, browser: Browser):
    world.show(groups=seen())
    shown = opened(world, browser)
    assert "no group has committed an offset in a copied topic" in shown

    world.show(groups=seen(group("g-1"), group(EVIL), group("g-2", Readiness.REFUSED, "a consumer is there")))
    browser.until("document.querySelectorAll('[data-key]').length === 4")
    shown = browser.text()
    for words in ("2 of 3 ready", "checkpoints last written 2.0 s ago", "a consumer is there", EVIL):
        assert words in shown
    assert browser.run(f"{NAMES}[0]") == "g-2"  # groups that need attention come first

    world.show(
        groups=seen(*(group(f"team-{n:03}") for n in range(499)), group("zoo", Readiness.WAITING, "w"))
    )
    browser.until(f"{NAMES}.length === 50")
    assert "and 450 more" in browser.text()
    assert browser.run(f"{NAMES}[0]") == "zoo"


@needs_browser
def test_a_group_is_found_and_opened_and_stays_in_focus(world: World, browser: Browser):
    world.show(groups=seen(*(group(f"team-{n:03}") for n in range(300))))
    opened(world, browser, f"{NAMES}.length === 50")
    browser.run("(() => { const i = document.querySelector('input'); i.value = 'TEAM-29';"
                " i.dispatchEvent(new Event('input')); })()")  # fmt: skip
    browser.until(f"{NAMES}.length === 10")
    button = "document.querySelector('button[data-key=team-295]')"
    browser.run(f"{button}.focus(); {button}.click()")
    browser.until("document.body.innerText.includes('partitions of team-295')")
    assert "1,234" in browser.text()  # its position

    world.show(groups=seen(*(group(f"team-{n:03}", Readiness.REFUSED, "no leader") for n in range(300))))
    browser.until("document.body.innerText.includes('no leader')")
    assert browser.run(f"{NAMES}.length") == 10
    assert browser.run("document.activeElement.dataset.key") == "team-295"
    assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "true"


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_every_user_can_read_it(world: World, browser: Browser, width: int, scheme: str):
    world.show(
        Fault("groups_not_ready", "one group, first g-1: " + "w" * 80),
        groups=seen(group("g-1", Readiness.REFUSED, "members"), group("g-" + "x" * 120), group("g-3")),
    )
    browser.size(width, scheme=scheme)
    try:
        opened(world, browser)
        assert browser.run(FAINT) == []
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.run("[...document.querySelectorAll('table')].filter(t => !t.caption).length") == 0
        nameless = "th:not([scope]), svg:not([role=img][aria-label]), input:not([aria-label])"
        assert browser.run(f"document.querySelectorAll('{nameless}').length") == 0
    finally:
        browser.size(1200)


def test_the_page_loads_nothing_from_elsewhere(world: World):
    code, text, headers = world.get("/")
    assert code == 200
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(?!data:)", text)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "Python" not in headers["Server"]


def test_health_turns_red_for_every_reason(world: World):
    assert world.get("/healthz")[0] == 200
    world.show(Fault("heartbeat_stale", "old"))
    code, text, _ = world.get("/healthz")
    assert code == 503
    assert json.loads(text)["flows"]["primary->standby"]["faults"][0]["code"] == "heartbeat_stale"
    world.show()
    assert world.get("/healthz")[0] == 200
    world.now += 100  # the status was not refreshed since
    assert "status_stale" in world.get("/healthz")[1]
    world.show()
    world.failure.append(made(Failed, "the lease is lost"))
    code, text, _ = world.get("/healthz")
    assert (code, "failed" in text) == (503, True)


def test_metrics_of_the_figures(world: World):
    text = world.get("/metrics")[1]
    flow = '{source="primary",target="standby"}'
    for line in (f"drkit_rpo_records{flow} 50.0", f"drkit_heartbeat_delay_seconds{flow} 0.031",
                 f"drkit_flow_healthy{flow} 1.0", f"drkit_appends_total{flow} 0.0"):  # fmt: skip
        assert line in text
    world.show(Fault("rpo_exceeded", "x"), groups=seen(group("g-1"), group("g-2", Readiness.WAITING)))
    text = world.get("/metrics")[1]
    for state, count in (("ready", 1), ("waiting", 1), ("not_ready", 0)):
        assert f'drkit_groups{{source="primary",state="{state}",target="standby"}} {count}.0' in text
    assert 'drkit_group_ready{group="g-2",source="primary",target="standby"} 0.0' in text
    assert f"drkit_checkpoint_age_seconds{flow} 2.0" in text
    assert 'drkit_fault{fault="rpo_exceeded",source="primary",target="standby"} 1.0' in text
    assert f"drkit_flow_healthy{flow} 0.0" in text


def test_every_metric_has_the_fixed_labels(world: World):
    board = Board(lambda: world.now, {"env": "test", "source": "never"})
    board.watches = [world.watch]
    observe.event("labelled")
    lines = [x for x in board.metrics().decode().splitlines() if not x.startswith("#")]
    assert lines
    assert [x for x in lines if 'env="test"' not in x] == []
    assert 'drkit_rpo_records{env="test",source="primary",target="standby"} 50.0' in lines


def test_a_group_is_asked_for_by_its_name(world: World):
    world.show(groups=seen(group("g-1"), group("g 2&x")))
    code, text, _ = world.get("/group.json?flow=primary-%3Estandby&group=g%202%26x")
    told = json.loads(text)
    assert (code, told["group"], told["partitions"][0]["position"]) == (200, "g 2&x", 1234)
    assert world.get("/group.json?flow=primary-%3Estandby&group=none")[0] == 404
    assert world.get("/group.json")[0] == 404
    found = json.loads(world.get("/status.json?find+primary-%3Estandby=2%26")[1])["flows"][0]
    assert ([g["group"] for g in found["groups"]], found["groups_total"]) == (["g 2&x"], 2)
    assert "partitions" not in found["groups"][0]


def test_head_and_unknown_pages(world: World):
    code, text, headers = world.get("/metrics", "HEAD")
    assert (code, text) == (200, "")
    assert int(headers["Content-Length"]) > 1000
    code, text, _ = world.get("/../etc/passwd")
    assert (code, "/status.json" in text) == (404, True)


def test_a_taken_port_is_said(world: World):
    with pytest.raises(Failed) as found:
        PageServer(Listen("127.0.0.1", world.server.port), world.board)
    assert "--metrics-port" in found.value.hint
