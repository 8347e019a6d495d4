"""One look at a file names everything that is wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.config.loader import read
from drkit.errors import ConfigError
from drkit.masking import scrubbed
from tests.support.errors import sentence

BROKEN = """
[clusters.primary]
bootstrap_servers = "${env:NOT_SET}"
[clusters.standby]
bootstrap_servers = "s:9092"
[[flows]]
source = "primry"
target = "standby"
"""


def problems(tmp_path: Path, text: str) -> ConfigError:
    file = tmp_path / "drkit.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read(file, {})
    return refused.value


def test_an_unset_variable_hides_no_other_problem(tmp_path: Path) -> None:
    found = problems(tmp_path, BROKEN)
    assert "NOT_SET is not set" in found.evidence
    assert "flows[0].source: there is no cluster 'primry' (did you mean 'primary'?)" in found.evidence


def test_a_problem_of_a_secret_is_whole_where_it_is_printed(tmp_path: Path) -> None:
    client = '[clusters.standby.client]\n"ssl.truststore.password" = "${file:/no/such}"\n[[flows]]'
    found = scrubbed(problems(tmp_path, BROKEN.replace("[[flows]]", client)).evidence)
    assert " – cannot read /no/such: No such file" in found


def test_a_wrong_setting_hides_no_wrong_alias(tmp_path: Path) -> None:
    found = problems(tmp_path, BROKEN + "tasks = 100000000\n")
    assert "flows[0].tasks: input should be less than or equal to 10000" in found.evidence
    assert "did you mean 'primary'?" in found.evidence
    assert found.what == sentence("config_problems", count=3)


@pytest.mark.parametrize("text", ["", "# only a comment\n"])
def test_an_empty_file_says_what_is_missing(tmp_path: Path, text: str) -> None:
    found = problems(tmp_path, text)
    assert found.code == "config_empty"
    assert "bootstrap_servers" in found.evidence
    assert "drkit config init" in found.hint


def test_tables_of_a_wrong_type_are_problems_and_no_fault_of_drkit(tmp_path: Path) -> None:
    assert problems(tmp_path, "flows = 3\nclusters = 4\n").exit_code == 2
    assert (
        problems(tmp_path, "[clusters.a]\nbootstrap_servers = 'x:1'\n[[flows]]\nsource = 1\n").exit_code == 2
    )
