"""The one contract of all adapters, on real files, processes and servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drkit.endpoint import Endpoint
from drkit.repoint import OlderTerm, RepointEffect, Result, TryAgain, Way, tell_all
from tests.support.repoint.worlds import SECRETS, WORLDS, World

PRIMARY = Endpoint(4, "primary", "id-1", "p1:9092,p2:9092")
STANDBY = Endpoint(
    5, "standby", "id-2", "s1:9092", {"security.protocol": "SASL_SSL"}, {"orders": "primary.orders"}
)


@pytest.fixture(params=WORLDS, ids=lambda w: w.__name__.removesuffix("World").lower())
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = request.param(tmp_path)
    yield made
    made.close()


def test_clients_have_the_latest_endpoint(world: World):
    assert world.adapter().current() is None
    assert world.adapter().tell(PRIMARY) is RepointEffect.CHANGED
    assert world.known() == PRIMARY.as_dict()
    assert world.adapter().tell(STANDBY) is RepointEffect.CHANGED
    assert world.known() == STANDBY.as_dict()
    assert world.adapter().current() in (None, STANDBY)


def test_the_same_term_again_changes_nothing(world: World):
    world.adapter().tell(STANDBY)
    changes = world.changes()
    for _ in range(2):
        [again] = tell_all([Way(world.adapter(), 0.0)], STANDBY)
        assert again.result.is_done
    assert world.changes() == changes
    assert world.known() == STANDBY.as_dict()


def test_an_older_term_is_refused_and_changes_nothing(world: World):
    world.adapter().tell(STANDBY)
    with pytest.raises(OlderTerm) as refused:
        world.adapter().tell(PRIMARY)
    assert refused.value.exit_code == 3
    assert refused.value.evidence
    assert refused.value.hint
    assert world.known() == STANDBY.as_dict()
    [outcome] = tell_all([Way(world.adapter(), 5.0)], PRIMARY)
    assert (outcome.result, outcome.tries) == (Result.REFUSED, 1)


def test_a_correction_within_the_term_reaches_clients(world: World):
    world.adapter().tell(STANDBY)
    corrected = replace(STANDBY, bootstrap_servers="s2:9092")
    assert world.adapter().tell(corrected) is RepointEffect.CHANGED
    assert world.known() == corrected.as_dict()


def test_what_passes_is_tried_again(world: World):
    if not world.breaks:
        pytest.skip("a line that is said cannot fail")
    world.adapter().tell(PRIMARY)
    world.break_once()
    with pytest.raises(TryAgain):
        world.adapter().tell(STANDBY)
    assert world.known() == PRIMARY.as_dict()
    world.break_once()
    [outcome] = tell_all([Way(world.adapter(), 20.0)], STANDBY)
    assert outcome.result is Result.CHANGED
    assert outcome.tries > 1
    assert world.known() == STANDBY.as_dict()


def test_no_secret_is_shown(world: World):
    told = [world.adapter().name]
    if world.breaks:
        world.break_once()
        with pytest.raises(TryAgain) as failed:
            world.adapter().tell(STANDBY)
        told += [str(v) for v in failed.value.as_dict().values()]
    assert not [s for s in SECRETS for text in told if s in text.replace(str(world.folder), "")]
