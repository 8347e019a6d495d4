"""``[[drills]]``: what cannot be is refused without a broker, with the place and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from drkit.config import Settings, read
from drkit.errors import ConfigError
from tests.support.config.places import setting_in

PAIR = """
[clusters.primary]
bootstrap_servers = "p1:9092"
[clusters.standby]
bootstrap_servers = "s1:9092"
[[flows]]
source = "primary"
target = "standby"
"""
BACK = '[[flows]]\nsource = "standby"\ntarget = "primary"\n'
DRILL = '[[drills]]\nname = "weekly"\nkind = "bubble"\ncron = "0 6 * * 1"\n'


def settings(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "drkit.toml").write_text(PAIR + text)
    return read(tmp_path / "drkit.toml", {}).settings


def test_a_drill_is_read(tmp_path: Path):
    found = settings(
        tmp_path,
        '[[drills]]\nname = "monthly"\nkind = "bubble"\nflow = "primary->standby"\ncron = "0 6 1 * *"\n'
        'time_zone = "Europe/Berlin"\ngrace_minutes = 120\nmax_age_days = 35\ncut = "planned"\n'
        "objectives = { rto_seconds = 60, rpo_seconds = 30 }\n"
        "limits = { seconds = 300, bytes_per_second = 1_000_000, production_lag = 5_000 }\n",
    )
    (drill,) = found.drills
    assert (drill.name, drill.kind, drill.cut, drill.time_zone) == (
        "monthly", "bubble", "planned", "Europe/Berlin",
    )  # fmt: skip
    assert (drill.objectives.rto_seconds, drill.objectives.rpo_seconds) == (60, 30)
    assert (drill.limits.seconds, drill.limits.production_lag) == (300, 5000)


@pytest.mark.parametrize(
    ("changed", "to", "where", "what", "hint"),
    [
        ("0 6 * * 1", "99 99 99 99 99", "cron", "'99' is no minute", "every Monday"),
        ("0 6 * * 1", "0 0 30 2 *", "cron", "never due: no such month has day 30", "every Monday"),
        ("0 6 * * 1", "0 0 31 4,6 *", "cron", "never due", "every Monday"),
        ("0 6 * * 1", "0 24 * * *", "cron", "'24' is no hour", ""),
        ("0 6 * * 1", "0 6 * * 8", "cron", "'8' is no day of week", ""),
        ("0 6 * * 1", "daily", "cron", "five fields", ""),
        ("0 6 * * 1", "0 0 6 * * 1", "cron", "five fields", ""),
        ("0 6 * * 1", "0 6 L * *", "cron", "'L' is no day of month", ""),
        ("0 6 * * 1", "0 6 * * 1#2", "cron", "'1#2' is no day of week", ""),
        ("bubble", "buble", "kind", "'readiness', 'translation', 'bubble' or 'switchover'", ""),
        ('"weekly"', '"Weekly drill"', "name", "small letters, digits", ""),
        ('"weekly"', '""', "name", "small letters, digits", ""),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(
    tmp_path: Path, changed: str, to: str, where: str, what: str, hint: str
):
    refused(tmp_path, DRILL.replace(changed, to), f"drills[0].{where}", what, hint)


def test_the_client_of_a_bubble_is_read_and_its_secrets_are_masked(tmp_path: Path):
    client = '[drills.client]\n"sasl.username" = "app"\n"sasl.password" = "s3cret"\n'
    (drill,) = settings(tmp_path, DRILL + client).drills
    assert drill.client == {"sasl.username": "app", "sasl.password": "s3cret"}
    assert "s3cret" not in repr(drill)


@pytest.mark.parametrize(
    ("more", "where", "what", "hint"),
    [
        ('time_zone = "Europe/Berln"', ".time_zone", "no time zone 'Europe/Berln'", "'Europe/Berlin'"),
        ('time_zone = "Mars/Olympus"', ".time_zone", "no time zone", "IANA"),
        ('flow = "primary->standy"', ".flow", "no flow 'primary->standy'", "'primary->standby'"),
        ("grace_minutes = -1", ".grace_minutes", "greater than or equal to 0", ""),
        ("max_age_days = 0", ".max_age_days", "greater than 0", ""),
        ("max_age_days = 6", "", "due every 7 days, so always overdue", "above 7"),
        ("limits = { seconds = 0 }", ".limits.seconds", "greater than 0", ""),
        ("limits = { second = 1 }", ".limits.second", "unknown setting", "'seconds'"),
        ("limits = { bytes_per_second = 0 }", ".limits.bytes_per_second", "greater than 0", ""),
        ("objectives = { rpo_seconds = 0 }", ".objectives.rpo_seconds", "greater than 0", ""),
        ('cut = "half"', ".cut", "'planned' or 'lost'", ""),
        ("stay = true", "", "'stay' is for kind 'switchover', not 'bubble'", "leave it out"),
        ("hold_minutes = 5", "", "'hold_minutes' is for kind 'switchover'", "leave it out"),
        ('client = { "bootstrap.servers" = "a:1" }', "", "is for both clusters", "leave it out"),
        ('groups = ["a"]', ".groups", "unknown setting", ""),
    ],
)
def test_a_setting_that_cannot_be_is_refused(tmp_path: Path, more: str, where: str, what: str, hint: str):
    refused(tmp_path, f"{DRILL}{more}\n", f"drills[0]{where}", what, hint)


@pytest.mark.parametrize(
    ("text", "where", "what", "hint"),
    [
        (DRILL + DRILL, "drills[1].name", "drills[0] is already 'weekly'", "another name"),
        (BACK + DRILL, "drills[0].flow", "which of the 2 flows?", "primary->standby"),
        (
            DRILL.replace("bubble", "switchover"),
            "drills[0].flow",
            "no flow copies back from standby to primary",
            'source = "standby"',
        ),
        (
            DRILL.replace("bubble", "readiness") + 'cut = "lost"\n',
            "drills[0]",
            "'cut' is for kind 'bubble', not 'readiness'",
            "leave it out",
        ),
        (
            DRILL.replace("bubble", "readiness") + 'client = { "client.id" = "app" }\n',
            "drills[0]",
            "'client' is for kind 'bubble', not 'readiness'",
            "leave it out",
        ),
        (
            DRILL.replace("bubble", "readiness") + "objectives = { rto_seconds = 1 }\n",
            "drills[0]",
            "'objectives.rto_seconds' is never measured by kind 'readiness'",
            "bubble, switchover",
        ),
        (
            DRILL.replace("bubble", "translation") + "objectives = { rpo_seconds = 1 }\n",
            "drills[0]",
            "never measured by kind 'translation'",
            "bubble, readiness, switchover",
        ),
        (
            BACK
            + DRILL.replace("bubble", "switchover")
            + 'flow = "primary -> standby"\nstay = true\nhold_minutes = 5\n',
            "drills[0]",
            "'hold_minutes' has no effect with 'stay'",
            "leave one",
        ),
        (DRILL.replace('cron = "0 6 * * 1"\n', ""), "drills[0].cron", "needed", ""),
        (DRILL.replace('kind = "bubble"\n', ""), "drills[0].kind", "needed", ""),
    ],
)
def test_drills_that_contradict_other_tables_are_refused(
    tmp_path: Path, text: str, where: str, what: str, hint: str
):
    refused(tmp_path, text, where, what, hint)


def refused(tmp_path: Path, text: str, where: str, what: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)
    error = caught.value
    assert setting_in(error.where, tmp_path / "drkit.toml", PAIR + text) == where
    assert what in error.what
    assert hint in error.hint
    assert error.hint, "what to do is always said"
    assert error.exit_code == 2


def test_a_switchover_with_a_flow_back_is_accepted(tmp_path: Path):
    drill = DRILL.replace("bubble", "switchover") + 'flow = "primary -> standby"\nhold_minutes = 5\n'
    assert settings(tmp_path, BACK + drill).drills[0].hold_minutes == 5
