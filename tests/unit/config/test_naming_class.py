"""A naming policy of the user's own (P5), or why it cannot be used."""

from __future__ import annotations

from pathlib import Path
import pickle

import pytest

from drkit.config import load, read
from drkit.errors import ConfigError

MODULE = '''
class Team:
    """orders of west becomes team-west.orders"""
    def __init__(self, source, separator):
        self.mark = f"team-{source}{separator}"
    def downstream(self, topic):
        return self.mark + topic
    def upstream(self, topic):
        return topic[len(self.mark):] if topic.startswith(self.mark) else None
    def comes_from(self, topic, alias):
        return topic.startswith(f"team-{alias}.")

class Halved(Team):
    comes_from = None

class Costly(Team):
    def __init__(self, source, separator):
        raise OSError("no licence")

class NoArguments:
    pass

class Shouting(Team):
    def downstream(self, topic):
        return topic.upper()
    def upstream(self, topic):
        return topic.lower()

class Vague(Team):
    def comes_from(self, topic, alias):
        return None

class Nameless(Team):
    def downstream(self, topic):
        return None

class Failing(Team):
    def upstream(self, topic):
        return {}[topic]

def function(source, separator):
    return Team(source, separator)
'''
TOML = """
[clusters.west]
bootstrap_servers = "w:1"
[clusters.east]
bootstrap_servers = "e:1"
[[flows]]
source = "west"
target = "east"
naming = "{naming}"
"""
MM2 = """clusters = west, east
west.bootstrap.servers = w:1
east.bootstrap.servers = e:1
west->east.enabled = true
replication.policy.class = {naming}
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of the user's, as if installed."""
    name = f"policies_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def refused(tmp_path: Path, naming: str, text: str = TOML, name: str = "drkit.toml") -> ConfigError:
    file = tmp_path / name
    file.write_text(text.format(naming=naming))
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize(("text", "name"), [(TOML, "drkit.toml"), (MM2, "mm2.properties")])
def test_a_class_of_ones_own(tmp_path: Path, module: str, text: str, name: str):
    """P5: names by a class of one's own; both kinds of file take it."""
    file = tmp_path / name
    file.write_text(text.format(naming=f"{module}:Team"))
    loaded = read(file, {})
    assert not loaded.notes
    (flow,) = loaded.settings.flows
    assert flow.naming_policy.downstream("orders") == "team-west.orders"
    assert flow.naming_policy is flow.naming_policy, "made once"
    assert not flow.copies("team-east.orders")
    assert pickle.loads(pickle.dumps(flow)) == flow  # noqa: S301  our own bytes


@pytest.mark.parametrize(
    ("naming", "why"),
    [
        ("nosuch.policies:Team", "there is no module 'nosuch'; drkit imports it with the Python it runs in"),
        ("{module}:Missing", "the module has no 'Missing'"),
        ("{module}:", "it is no class"),
        ("{module}:function", "it is no class"),
        (":Team", "not written as package.module:ClassName"),
        ("{module}_broken:Team", "cannot be imported: ZeroDivisionError"),
        ("{module}:Halved", "it has no method comes_from"),
        ("{module}:NoArguments", "its constructor, called with ('west', '.'), raised TypeError"),
        ("{module}:Costly", "raised OSError('no licence')"),
        (
            "{module}:Shouting",
            "upstream('ORDERS') is 'orders', but 'ORDERS' is what downstream('Orders') gave",
        ),
        ("{module}:Vague", "is None, neither True nor False"),
        ("{module}:Nameless", "downstream('orders') is None, not a name"),
        ("{module}:Failing", "it raised KeyError"),
    ],
)
def test_a_class_that_cannot_be_used(tmp_path: Path, module: str, naming: str, why: str):
    """No silent surprises: every fault of a policy is said when the settings are read."""
    error = refused(tmp_path, naming.replace("{module}", module))
    assert error.where.endswith("flows[0].naming")
    assert why in error.what


def test_a_wrong_word_names_all_three_ways(tmp_path: Path):
    assert "'identity' or 'prefix', or your own class" in refused(tmp_path, "other").what


def test_a_java_class_of_ones_own_is_refused_with_the_way_out(tmp_path: Path):
    """``replication.policy.class`` of a user; drkit runs no Java."""
    error = refused(tmp_path, "com.acme.OwnReplicationPolicy", MM2, "mm2.properties")
    assert "com.acme.OwnReplicationPolicy cannot be used" in error.what
    assert "mypackage.module:ClassName" in error.hint
    assert "line 5" in error.where
