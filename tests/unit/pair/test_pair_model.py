"""Who takes writes, and who knows it: random histories of a pair whose sides may be down at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import random

import pytest

from drkit.pair.view import FenceSeen, Observation, TopicView, pair_view
from tests.support.pair_model import OTHER, TOPICS, PairModel, Rule, by_one_state

HISTORIES, STEPS = 240, 40
Step = Callable[[PairModel, random.Random], object]


def _some(dice: random.Random) -> list[str]:
    return list(TOPICS) if dice.random() < 0.6 else [dice.choice(TOPICS)]


def _side(dice: random.Random) -> str:
    return dice.choice("ps")


STEPS_BY_WEIGHT: dict[str, tuple[float, Step]] = {
    "failover": (4, lambda m, d: m.fail_over(_side(d), _some(d), planned=False)),
    "switchover": (4, lambda m, d: m.fail_over(_side(d), _some(d), planned=True)),
    "return": (5, lambda m, d: m.come_back(_side(d), _some(d))),
    "fence": (3, lambda m, d: m.pay_fence(_side(d))),
    "abort": (1, lambda m, d: m.roll_back(_side(d))),
    "dies": (2, lambda m, d: m.down.add(_side(d))),
    "answers": (4, lambda m, d: m.down.discard(_side(d))),
    "deleted": (0.15, lambda m, d: m.delete_state(_side(d), recreated=d.random() < 0.5)),
}


def walk(seed: int, model: PairModel) -> Iterator[str]:
    """Take random steps; yields the name of each one after it."""
    dice = random.Random(seed)
    weights = [weight for weight, _ in STEPS_BY_WEIGHT.values()]
    for _ in range(STEPS):
        [name] = dice.choices(list(STEPS_BY_WEIGHT), weights)
        STEPS_BY_WEIGHT[name][1](model, dice)
        yield name


def history(seed: int, rule: Rule = pair_view) -> list[str]:
    """Walk until the view is wrong; returns in which respects, or nothing if it never is."""
    model, names = PairModel(rule), list[str]()
    for name in walk(seed, model):
        names.append(name)
        if errors := wrong(model):
            return [f"seed {seed}, after {', '.join(names)}: {each}" for each in errors]
    return []


def wrong(model: PairModel) -> list[str]:
    """Return the statements of the view that are not true."""
    up = [side for side in "ps" if side not in model.down]
    errors = [each for view in model.views() for each in wrong_of(model, view, up)]
    for source, target in OTHER.items():
        if target in model.down or not model.is_known():
            continue
        if closed := model.roles(source).opened & model.fenced[target]:
            errors.append(f"{closed} already moved to {target}, which refuses them: nothing opens them there")
    return errors


def writable(view: TopicView[Observation]) -> frozenset[str]:
    """Aliases of the clusters that may accept what clients write; one that was not asked may."""
    promoted = view.promoted
    aliases = {s.flow.target for s in view if s.flow.unread}
    if promoted is None:
        aliases |= {s.flow.source for s in view if s.copies and s.fence is not FenceSeen.STANDS}
    else:
        passive, back = promoted.flow.source, view.other(promoted)
        closed = promoted.fence is FenceSeen.STANDS or (promoted.role and back.answers(promoted.role))
        aliases = (aliases - {passive} if closed else aliases | {passive}) | {promoted.flow.target}
    return frozenset(alias for alias in aliases if not view.refuses(alias))


def wrong_of(model: PairModel, view: TopicView[Observation], up: list[str]) -> Iterator[str]:
    topic, active = view.first.name, view.active
    open_ = {side for side in up if topic not in model.refuses[side]}
    if active in up and active not in open_ and (not view.unknown or topic in model.fenced[active]):
        yield f"{topic}: active is {active}, which refuses"
    if active not in {"", model.active[topic]} and not view.unknown:
        yield f"{topic}: active is {active}, and {model.active[topic]} was opened last"
    if open_ - writable(view):
        yield f"{topic}: {open_ - writable(view)} takes writes, and may not by the view"


@pytest.mark.parametrize("first", range(0, HISTORIES, 80))
def test_the_view_never_names_an_active_side_that_refuses(first: int) -> None:
    errors = [each for seed in range(first, first + 80) for each in history(seed)]
    assert not errors, "\n".join(errors[:5])


def test_one_state_topic_alone_names_the_wrong_side() -> None:
    assert any(history(seed, by_one_state) for seed in range(HISTORIES))


def test_terms_only_grow_where_both_sides_were_asked() -> None:
    for seed in range(HISTORIES):
        model, newest = PairModel(), 0
        assert len([*walk(seed, model)]) == STEPS
        for term, both_known in zip(model.terms, model.known, strict=True):
            assert term > newest or not both_known, (seed, model.terms)
            newest = max(newest, term)
