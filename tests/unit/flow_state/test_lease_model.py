"""Never do two holders of a lease append: random walks through a model of runs that freeze, die and wake."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.support.flow_state.lease_world import TwoHolders, Without, World

WALKS, STEPS = 1500, 1500
WALKS_WITHOUT = 2000
"""At most this number, until one finds what a missing rule lets happen."""


def walk(seed: int, without: Without) -> World:
    world = World(seed, without)
    for _ in range(STEPS):
        world.step()
    return world


def test_no_holder_appends_after_a_later_one():
    took_over = appended = 0
    for seed in range(WALKS):
        world = walk(seed, Without())
        took_over, appended = took_over + world.took_over, appended + world.appended
    assert took_over > 2 * WALKS, "the walks hardly change the holder"
    assert appended > 20 * WALKS


@pytest.mark.parametrize("rule", [field.name for field in fields(Without)])
def test_every_rule_is_needed(rule: str):
    for seed in range(WALKS_WITHOUT):
        try:
            walk(seed, Without(**{rule: True}))
        except TwoHolders:
            return
    pytest.fail(f"without the rule {rule!r} no walk has two holders: it is not needed, or not tested")
