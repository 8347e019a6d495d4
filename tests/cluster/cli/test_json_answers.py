"""Fields of ``--json`` of commands that change a flow, in one document each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli.json_fields import pin
from tests.support.failover.command import drkit
from tests.support.failover.settings_file import toml, written
from tests.support.failover.world import World


def answered(file: Path, command: str, *words: str, code: int = 0) -> Any:
    said = drkit(file, *command.split(), *words)
    assert said.code == code, said.err
    pin(command, said.data)
    return said.data


@pytest.fixture
def failed_over(world: World, tmp_path: Path) -> Path:
    """The configuration of a flow that a switchover has moved to the target."""
    world.copy_orders()
    file = written(world, tmp_path)
    done = drkit(file, "failover", "--all", "--planned", "--yes")
    assert done.code == 0, done.err
    return file


def test_answers_of_a_flow(world: World, failed_over: Path):
    (paused,) = answered(failed_over, "watch pause", "--reason", "test")
    assert paused["flow"] == world.settings.flows[0].name
    answered(failed_over, "watch resume")
    reason = ("--accept-divergence", "test")
    refused = drkit(failed_over, "fence", "lift", "--yes")
    assert (refused.code, refused.out, refused.error) == (3, "", "lift_opens_both")
    wanted = answered(failed_over, "fence lift", *reason, "--dry-run")
    lifted = answered(failed_over, "fence lift", *reason, "--yes")
    assert (wanted["would lift"], lifted["lifted"]) == ([world.name("orders")], [world.name("orders")])


@pytest.mark.wide
def test_the_flows_of_a_pair_take_a_key_in_one_answer(world: World, failed_over: Path, tmp_path: Path):
    world.stop_replicating()
    assert drkit(failed_over, "control", "create", str(tmp_path / "key")).code == 0
    plain, (there, back) = world.plain(), (world.source.alias, world.target.alias)
    plain["control"] = {"key_file": str(tmp_path / "key")}
    plain["flows"].append({**plain["flows"][0], "source": back, "target": there})
    failed_over.write_text(toml(plain), encoding="utf-8")
    rows = answered(failed_over, "control check", code=3)
    assert {row["flow"] for row in rows} == {f"{there}->{back}", f"{back}->{there}"}
    planned = answered(failed_over, "control adopt", "--dry-run")
    assert [answer["flow"] for answer in planned] == [f"{there}->{back}", f"{back}->{there}"]
    one = answered(failed_over, "control adopt", "--flow", f"{there}->{back}", "--yes")
    assert one["signed"]
