"""A flow to a third cluster: the table that is printed is one that the configuration takes. No clusters."""

from __future__ import annotations

from pathlib import Path
import tomllib

import pytest

from drkit.cli.actions.back.reprotect import next_of, shown
from drkit.cli.main import run
from drkit.config import FlowSettings
from drkit.failover.third_cluster import ThirdCluster, flow_table
from tests.support.errors import sentence

FILE = """
[clusters.primary]
bootstrap_servers = "127.0.0.1:1"
[clusters.standby]
bootstrap_servers = "127.0.0.1:1"
[clusters.third]
bootstrap_servers = "127.0.0.1:1"
[[flows]]
source = "primary"
target = "standby"
"""


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, {"topics": [".*"]}),
        (
            {"topics": ("ord.*", "pay"), "groups": ("shop-.*",)},
            {"topics": ["ord.*", "pay"], "groups": ["shop-.*"]},
        ),
        ({"topics_exclude": ('a"b',)}, {"topics": [".*"], "topics_exclude": ['a"b']}),
        ({"naming": "prefix", "topics_exclude": ("x",)}, {"topics": [r"primary\.orders"]}),
    ],
)  # fmt: skip
def test_the_table_chooses_what_the_flow_chose_that_was_failed_over(
    more: dict[str, object], wanted: dict[str, object]
):
    there = FlowSettings.model_validate({"source": "primary", "target": "standby", **more})
    [found] = tomllib.loads(flow_table(there, "third", ["primary.orders"]))["flows"]
    assert found == {"source": "standby", "target": "third", **wanted}
    FlowSettings.model_validate(found)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--to", "primary"), 3, sentence("no_third_cluster")),
        (("--to", "standby"), 3, sentence("no_third_cluster")),
        (("--to", "fourth"), 2, sentence("cluster_unknown", alias="fourth")),
        (("--to", "third", "--hold"), 2, "--to begins no return, so --hold is not for it"),
        (("--to", "third", "--resume"), 2, "so --resume is not for it"),
        (("--to", "third", "--topic", "a"), 2, "so --topic is not for it"),
    ],
)
def test_what_is_no_third_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
):
    file = tmp_path / "drkit.toml"
    file.write_text(FILE, encoding="utf-8")
    assert run(["--config", str(file), "reprotect", "--flow", "primary->standby", *words]) == code
    assert said in capsys.readouterr().err


def test_it_is_said_what_becomes_of_records_groups_and_the_old_primary():
    found = ThirdCluster(
        "standby->third", ("orders", "pay"), continues=False, copied_by="", moves_groups=True
    )
    said = shown(found, "standby", "third")
    assert said["protects"] == "2 topics of standby: orders, pay"
    assert said["records"] == "copied from the start of each log"
    assert "positions follow to third" in said["groups"]
    first, then, home = next_of(found, "primary->standby")
    assert first == "drkit replicate --flow 'standby->third'"
    assert "drkit failover --flow 'standby->third' --all" in then
    assert "the old primary was not asked" in home
    runs = ThirdCluster("standby->third", ("orders",), continues=True, copied_by="box", moves_groups=False)
    assert len(next_of(runs, "primary->standby")) == 2
    assert shown(runs, "standby", "third")["now"] == "copied by box"
