"""A law of the house: state keys and names of internal topics have one home, drkit/flow_state/."""

from __future__ import annotations

import ast
from collections.abc import Iterator
import re

import pytest

from drkit.flow_state.records import KINDS
from tests.support.laws import broken, sources

HOME = "flow_state"
NAMED_BESIDES = {
    "drkit.control_key": "the list of all topics whose records are signed, without their aliases",
    "drkit.topology.filters": "patterns of what is never copied, whatever it is called in full",
    "drkit.topology.acl_scope": "the prefix of all transactional ids of drkit, for its own ACLs",
}
TOPIC = re.compile(r"drkit-(?:state|offset-map|failover|watch|canary)(?![\w-])")
# Words such as "lease" or "flow" are names of other things too: no type reads them, so they cannot be used.
KEYS = {kind.KEY for kind in KINDS if not kind.KEY.isalpha()}
NAMED_KEYS = tuple(key for key in KEYS if key.endswith("/"))


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines with an internal topic's name, the beginning of a transactional id, or a key of the state."""
    joined = (n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) and len(n.values) > 1)
    starts = {id(n.values[0]) for n in joined}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes):
            continue
        text = node.value if isinstance(node.value, str) else node.value.decode(errors="replace")
        is_topic = not set(" /") & set(text) and TOPIC.search(text)  # no sentence, no path of a file
        if (
            is_topic
            or text in KEYS
            or text.startswith(NAMED_KEYS)
            or (id(node) in starts and text == "drkit.")
        ):
            yield node.lineno, text


def read_by_hand(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that take the values of a state, as a dictionary has them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "values":
            owner = ast.unparse(node.value)
            if owner.endswith("state"):
                yield node.lineno, owner


@pytest.mark.parametrize("find", [named, read_by_hand])
def test_the_rest_of_drkit_knows_records_by_type_and_topics_by_function(find):
    found = [
        f"{source.name}:{line} {text!r}"
        for source in sources()
        if source.room != HOME and source.name not in NAMED_BESIDES
        for line, text in find(source.tree)
    ]
    broken("names of internal topics and keys of the state belong to drkit/flow_state/", found)


@pytest.mark.parametrize(
    "line",
    [
        'f"drkit-offset-map.{source}.internal"', '"drkit-canary.internal"', 'f"drkit.{source}.{target}.{b}"',
        'values["producer-ids"]', 'values.get(b"offset-map")', 'key.startswith("topic/")', 'f"role/{topic}"',
        'f"event/{kind}/{topic}/-1"', 'put("producer-ids/bulk/7")', '"fence-debt"', '"drkit-state"',
    ],
)  # fmt: skip
def test_the_law_finds_names_and_keys(line: str):
    assert list(named(ast.parse(line)))


def test_the_law_finds_dictionaries_and_no_sentences():
    assert list(read_by_hand(ast.parse("context.state.values.get(x)")))
    assert not list(named(ast.parse('hint = "delete drkit-state.a.internal and its copies"')))
    assert not list(named(ast.parse('drkit_folder = "drkit-state-of-a-test"')))
