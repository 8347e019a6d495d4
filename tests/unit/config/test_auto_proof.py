"""Mode auto is refused unless the timeouts prove that there are never two primaries."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
import pytest

from drkit.config import read
from drkit.config.tables.auto_proof import rpo_close, rpo_unmet, times_of, unsafe
from drkit.config.tables.detection import DetectionSettings
from drkit.config.tables.watch import FenceAgentSettings, WatchSettings
from drkit.errors import ConfigError
from drkit.masking import MASK
from tests.support.config.safe_auto import CONFIG, SAFE

AGENT = FenceAgentSettings(agents=("dc1",), command=("stop-kafka",))
WATCH = WatchSettings(observers=("a", "b", "c"), third="witness")
FLOW = {"primary", "standby"}


def places(watch: WatchSettings, agent: FenceAgentSettings) -> set[str]:
    return {where for where, _, _ in unsafe(watch, agent, FLOW)}


def test_the_defaults_are_proven():
    assert places(WATCH, AGENT) == set()


def test_a_file_with_the_defaults_loads(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(CONFIG + SAFE)
    assert read(file, {}).settings.failover.mode == "auto"


def test_a_file_without_them_is_refused_by_name(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(CONFIG)
    with pytest.raises(ConfigError) as caught:
        read(file, {})
    told = caught.value.evidence
    assert "3 observers, watch.observers = 1" in told
    assert "fence agent" in told
    assert "third cluster" in told
    # In mode approve nothing is asked for.
    file.write_text(CONFIG.replace('"auto"', '"approve"'))
    assert read(file, {}).settings.failover.mode == "approve"


def test_two_flows_whose_targets_could_both_take_over_are_refused(tmp_path: Path):
    """P40: the observers of each flow would promote its own target."""
    file = tmp_path / "drkit.toml"
    second = """
[clusters.reports]
bootstrap_servers = "r:1"
[[flows]]
source = "primary"
target = "reports"
"""
    file.write_text(CONFIG + SAFE + second)
    with pytest.raises(ConfigError) as caught:
        read(file, {})
    assert "primary->standby and primary->reports copy" in caught.value.what
    assert "two targets could take over" in caught.value.what
    file.write_text(CONFIG.replace("[[flows]]", '[[flows]]\ntopics_exclude = ["logs"]') + SAFE + second
                    + 'topics = ["logs"]\n')  # fmt: skip
    assert len(read(file, {}).settings.flows) == 2
    file.write_text(CONFIG.replace('"auto"', '"approve"') + second)
    assert len(read(file, {}).settings.flows) == 2


def test_the_inequality_is_printed_with_its_numbers(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    file.write_text(CONFIG + SAFE.replace("[fence_agent]", "[fence_agent]\nttl_seconds = 30"))
    with pytest.raises(ConfigError) as caught:
        read(file, {})
    assert (
        "fence_agent.ttl_seconds 30 + fence_agent.check_seconds 1 + watch.clock_margin_seconds 2"
        " + fence_agent.fence_seconds 8 = 41 is not less than watch.failover_delay_seconds 25"
    ) in caught.value.what
    assert caught.value.hint == "set watch.failover_delay_seconds above 41"


@pytest.mark.parametrize("third", [None, "primary", "standby"])
def test_the_third_cluster_is_neither_of_the_two(third: str | None):
    """Else an outage of the standby alone would end the lease, and the agent would stop the primary."""
    assert places(WATCH.model_copy(update={"third": third}), AGENT) == {"watch.third"}


@pytest.mark.parametrize("observers", [1, 2])
def test_fewer_than_three_observers(observers: int):
    assert "watch.observers" in places(WATCH.model_copy(update={"observers": observers}), AGENT)


def test_numbers_are_refused_in_mode_auto_and_named_elsewhere(tmp_path: Path):
    """Today's form: any name in the topic would count."""
    numbered = WATCH.model_copy(update={"observers": 3}), AGENT.model_copy(update={"agents": 1})
    assert places(*numbered) == {"watch.observers", "fence_agent.agents"}
    file = tmp_path / "drkit.toml"
    counts = "[watch]\nobservers = 3\n[fence_agent]\nagents = 1\n"
    file.write_text(CONFIG.replace('mode = "auto"', "") + counts)
    found = read(file, {})
    assert found.settings.watch.observer_count == 3
    assert [n.at for n in found.notes] == ["watch.observers", "fence_agent.agents"]
    named = counts.replace("= 3", '= "a, b, c"').replace("= 1", '= ["dc1"]')
    file.write_text(CONFIG.replace('mode = "auto"', "") + named)
    found = read(file, {})
    assert (found.settings.watch.observer_names, found.notes) == (("a", "b", "c"), ())


@pytest.mark.parametrize(
    ("observers", "why"),
    [
        ('["a", "b"]', "two observers cannot decide"),
        ('["a", "b", "a"]', "'a' is named twice"),
        ('["a", "b", "c\\u0007"]', "none of them a control character"),
        ("[]", "a list of names was expected"),
        ("true", "a list of names was expected"),
        ("0", "or a number from 1"),
    ],
)
def test_names_that_cannot_be_are_refused_with_one_reason(tmp_path: Path, observers: str, why: str):
    file = tmp_path / "drkit.toml"
    file.write_text(CONFIG.replace('mode = "auto"', "") + f"[watch]\nobservers = {observers}\n")
    with pytest.raises(ConfigError) as caught:
        read(file, {})
    assert why in caught.value.what
    assert caught.value.where.endswith("watch.observers")


@pytest.mark.parametrize("agent", [FenceAgentSettings(), FenceAgentSettings(agents=("dc1",))])
def test_an_agent_that_can_fence(agent: FenceAgentSettings):
    assert places(WATCH, agent) == {"fence_agent"}


def test_a_lease_outlives_lost_messages():
    assert places(WATCH, AGENT.model_copy(update={"ttl_seconds": 5.0})) == {"fence_agent.ttl_seconds"}


TIMES = st.floats(0.1, 60.0)


@given(TIMES, TIMES, TIMES, TIMES, TIMES)
def test_proven_means_fenced_before_the_failover(
    ttl: float, check: float, margin: float, fence: float, delay: float
):
    watch = WATCH.model_copy(update={"clock_margin_seconds": margin, "failover_delay_seconds": delay})
    agent = AGENT.model_copy(update={"ttl_seconds": ttl, "check_seconds": check, "fence_seconds": fence})
    if not places(watch, agent):
        # The last answer left at 0; its request was sent at 0 at the latest.
        assert ttl + check + fence + margin < delay


def test_two_observers_are_no_choice():
    with pytest.raises(ValidationError, match="two observers cannot decide"):
        WatchSettings(observers=2)


def test_votes_outlive_their_interval():
    with pytest.raises(ValidationError, match="at least twice"):
        WatchSettings(vote_interval_seconds=4.0, vote_ttl_seconds=5.0)


def test_a_webhook_is_often_a_secret():
    assert MASK in repr(WatchSettings(webhook="https://example.com/secret"))
    with pytest.raises(ValidationError) as caught:
        WatchSettings(webhook="ftp://example.com/secret")
    assert "ftp" not in caught.value.errors()[0]["msg"]


def test_a_cluster_that_is_not_there(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    listener = '\n[[detection.listeners]]\ncluster = "prim"\nname = "x"\nbootstrap_servers = "h:1"\n'
    file.write_text(CONFIG.replace('"auto"', '"approve"') + '[watch]\nthird = "witnes"\n' + listener)
    with pytest.raises(ConfigError) as caught:
        read(file, {})
    assert "watch.third: there is no cluster 'witnes' (did you mean 'witness'?)" in caught.value.evidence
    assert "detection.listeners[0].cluster" in caught.value.evidence


# -- what it may lose ------------------------------------------------------------------------------------

LOSS_TIMES = times_of(DetectionSettings(), WATCH, AGENT, 1.0)


def test_the_loss_that_mode_auto_accepts_is_a_sum_of_settings():
    assert (LOSS_TIMES.longest, LOSS_TIMES.least) == (34.0, 15.0)
    assert "detection.confirm_seconds 5 + fence_agent.ttl_seconds 12" in str(LOSS_TIMES)


@pytest.mark.parametrize(("rpo", "refused", "advised"), [(14.0, 1, 0), (30.0, 0, 1), (34.0, 0, 0)])
def test_a_limit_that_can_never_be_met_is_refused_and_a_close_one_named(
    rpo: float, refused: int, advised: int
):
    found, close = list(rpo_unmet(rpo, LOSS_TIMES)), list(rpo_close(rpo, LOSS_TIMES))
    assert (len(found), len(close)) == (refused, advised)
    for where, what, hint in (*found, *close):
        assert where == "failover.rpo_seconds"
        assert f"rpo_seconds = {rpo:g}" in what
        assert hint.startswith("set failover.rpo_seconds to 34 or more")


def test_a_file_says_so(tmp_path: Path):
    file = tmp_path / "drkit.toml"
    low = CONFIG + "rpo_seconds = 10\n" + SAFE
    file.write_text(low)
    with pytest.raises(ConfigError) as caught:
        read(file, {})
    assert "fence_agent.ttl_seconds 10 = 15 s" in caught.value.what
    file.write_text(low.replace('"auto"', '"approve"'))
    assert read(file, {}).settings.advice() == [], "a person decides"
    file.write_text(CONFIG + SAFE)
    [(where, what, _)] = read(file, {}).settings.advice()
    assert (where, "= 34 s until the fence" in what) == ("failover.rpo_seconds", True)


def test_two_flows_of_one_source_are_refused_unless_their_topics_differ(tmp_path: Path):
    """The observers of each flow would promote its target: two primaries of one topic."""
    file = tmp_path / "drkit.toml"
    third = '[clusters.reports]\nbootstrap_servers = "r:1"\n'
    other = '[[flows]]\nsource = "primary"\ntarget = "reports"\n'
    file.write_text(third + CONFIG + other.replace('"reports"\n', '"reports"\ntopics = ["orders"]\n') + SAFE)
    with pytest.raises(ConfigError) as caught:
        read(file, {})
    assert "primary->standby and primary->reports copy '" in str(caught.value)
    named = CONFIG.replace('target = "standby"', 'target = "standby"\ntopics = ["payments"]')
    file.write_text(third + named + other.replace('"reports"\n', '"reports"\ntopics = ["orders"]\n') + SAFE)
    assert read(file, {}).settings.failover.mode == "auto"
