from __future__ import annotations

import json
from pathlib import Path
import re
import subprocess
import sys
import tempfile
from typing import Any

import click
import pytest

from drkit import __version__
from drkit.catalogue import ERRORS
from drkit.cli import main as cli
from drkit.config import read
from drkit.errors import ClusterUnreachable, ConfigError, NotAuthorized, Refused
from drkit.kafka.raw import RawError
from tests.support.errors import made, sentence

CONFIG = """
[clusters.primary]
bootstrap_servers = "127.0.0.1:1"
client = { "sasl.password" = "top-secret" }
[clusters.standby]
bootstrap_servers = "127.0.0.1:2"
[[flows]]
source = "primary"
target = "standby"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "drkit.toml"
    file.write_text(CONFIG)
    return str(file)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A command of this test that raises what it is given."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def install(error: BaseException) -> None:
        def fail() -> None:
            raise error

        monkeypatch.setattr(
            sys.modules[__name__], "boom", click.Command("boom", callback=fail), raising=False
        )
        commands: Any = cli._COMMANDS
        monkeypatch.setitem(commands, "boom", "Fails.")
        monkeypatch.setitem(cli._ELSEWHERE, "boom", f"{__name__}:boom")

    return install


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (made(ClusterUnreachable, "down"), 1),
        (made(NotAuthorized, "no"), 1),
        (made(ConfigError, "wrong"), 2),
        (made(Refused, "held"), 3),
        (click.UsageError("usage"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (RuntimeError("surprise"), 1),
    ],
)
def test_exit_codes(failing: Any, error: BaseException, code: int, capsys: pytest.CaptureFixture[str]):
    failing(error)
    assert cli.run(["boom"]) == code
    out, err = capsys.readouterr()
    assert not out
    assert "Traceback" not in err
    assert bool(err.strip()) is (code != 130)


def test_an_error_says_what_where_why_and_what_to_do(failing: Any, capsys: pytest.CaptureFixture[str]):
    failing(made(Refused, "it is held", where="flow a->b", evidence="line one\nline two", hint="drkit x"))
    cli.run(["boom"])
    lines = [line.rstrip() for line in capsys.readouterr().err.splitlines()]
    assert lines == [
        "refused: it is held",
        "  where      flow a->b",
        "  evidence   line one",
        "             line two",
        "  what to do drkit x",
    ]


def test_a_refusal_names_its_page_and_its_code(failing: Any, capsys: pytest.CaptureFixture[str]):
    """Refusals without a runbook did not, although the page of exit codes promises it."""
    for code in (code for code, entry in ERRORS.items() if entry.exit_code == 3):
        error = made(Refused, "it is held")
        error.code = code
        failing(error)
        assert cli.run(["boom"]) == 3
        assert f"\n  help       drkit explain {code}\n" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--json", "boom"], ["boom", "--json"]])
def test_an_error_as_json(failing: Any, arguments: list[str], capsys: pytest.CaptureFixture[str]):
    failing(made(Refused, "it is held", where="w", evidence="e", hint="h"))
    assert cli.run(arguments) == 3
    assert json.loads(capsys.readouterr().err) == {
        "code": "job_refused",
        "error": "it is held", "where": "w", "evidence": "e", "hint": "h", "exit_code": 3
    }  # fmt: skip


def test_a_surprise_leaves_its_traceback_in_a_file(failing: Any, capsys: pytest.CaptureFixture[str]):
    failing(ValueError('bad sasl.password="top-secret"'))
    assert cli.run(["boom"]) == 1
    err = capsys.readouterr().err
    assert "unexpected ValueError" in err
    found = re.search(r"traceback is in (\S+\.log)", err)
    assert found
    text = Path(found[1]).read_text()
    assert "Traceback" in text
    assert "top-secret" not in text + err


def test_a_surprise_on_a_full_machine_is_an_error_like_others(
    failing: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    failing(ValueError("bad"))
    assert cli.run(["boom"]) == 1
    err = capsys.readouterr().err
    assert "unexpected ValueError" in err
    assert "No such file or directory" in err
    assert "--log-level debug shows it" in " ".join(err.split())
    assert "Traceback" not in err


def test_a_cluster_that_stops_answering_is_no_surprise(failing: Any, capsys: pytest.CaptureFixture[str]):
    failing(RawError("socket disconnected"))
    assert cli.run(["boom"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"failed: {sentence('cluster_stopped_answering')}\n")
    assert "socket disconnected" in err
    assert "please report it" not in err


def test_a_surprise_at_debug_level_shows_its_traceback(failing: Any, capsys: pytest.CaptureFixture[str]):
    failing(ValueError("bad"))
    assert cli.run(["boom", "--log-level", "debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["/dev/full", "/proc/no-such-folder/file"])
def test_what_the_system_refuses_is_no_bug_of_drkit(
    failing: Any, target: str, capsys: pytest.CaptureFixture[str]
):
    failing(OSError(28, "No space left on device", target))
    assert cli.run(["boom"]) == 1
    err = capsys.readouterr().err
    assert target in err
    assert "No space left on device" in err
    assert "report" not in err


@pytest.mark.parametrize("to", ["> /dev/full", ">&-", "| cat"])
def test_an_answer_goes_to_any_stdout(config: str, to: str):
    command = f"PYTHONIOENCODING=ascii {sys.executable} -m drkit --config {config} config show {to}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert "report" not in done.stderr
    assert "Traceback" not in done.stderr
    assert ("No space left" in done.stderr) == ("full" in to)


def test_version(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


def test_unknown_command_and_option(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["nope"]) == 2
    assert "no such command 'nope'" in capsys.readouterr().err
    assert cli.run(["config", "check", "--nope"]) == 2
    assert "no such option '--nope'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("chaos run primary-killed", "--folder"),
        ("local status", "--folder"),
        ("local up", "--write"),
        ("verify", "--spark-properties"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(
    command: str,
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "")
    assert cli.run([*command.split(), option, ""]) == 2
    assert f"'{option}': the path is empty" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("command", list(cli._COMMANDS))
def test_every_command_loads_and_knows_the_common_options(command: str, capsys: pytest.CaptureFixture[str]):
    common = ["--config", "x.toml", "--json", "--log-format", "json", "--log-level", "error"]
    assert cli.run([command, *common, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: drkit {command}")


def test_without_words_there_is_help(capsys: pytest.CaptureFixture[str]):
    for words in ([], ["help"]):
        assert cli.run(words) == 0
        out, err = capsys.readouterr()
        assert "Usage: drkit" in out
        assert "failover" in out
        assert not err
    assert cli.run(["fence"]) == 0
    assert "Usage: drkit fence" in capsys.readouterr().out


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]):
    assert cli.run(["help", "fence", "lift"]) == 0
    out = capsys.readouterr().out
    assert "Usage: drkit fence lift" in out
    assert "--accept-divergence" in out
    assert cli.run(["help", "nope"]) == 2


@pytest.mark.parametrize("words", [["nope"], ["failover"], ["translate"], ["config", "check", "--nope"]])
def test_a_wrong_command_line_is_not_called_configuration(
    words: list[str], capsys: pytest.CaptureFixture[str]
):
    assert cli.run(words) == 2
    assert capsys.readouterr().err.startswith("usage: ")


@pytest.mark.parametrize(
    ("words", "kind"),
    [(["watch", "--once", "1x"], "float"), (["verify", "--max-differences", "x"], "integer")],
)
def test_a_number_is_called_a_number(words: list[str], kind: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(words) == 2
    assert f"is not a valid {kind}\n" in capsys.readouterr().err


def test_a_cluster_of_another_name_is_found(config: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["repoint", "apply", "--to", "stanby", "--config", config]) == 2
    err = capsys.readouterr().err
    assert err.startswith("usage: ")
    assert "where      --to" in err
    assert "did you mean 'standby'?" in err


def test_a_starter_configuration_is_whole_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["config", "init"]) == 0
    assert "drkit config check --connect" in capsys.readouterr().out
    assert cli.run(["config", "check"]) == 0
    file = tmp_path / "drkit.toml"
    lines = [line.removeprefix("#") for line in file.read_text().splitlines() if not line.startswith("# ")]
    file.write_text("\n".join(lines).replace("/etc/drkit/control.key", "key"))
    monkeypatch.setenv("PRIMARY_PASSWORD", "x")
    assert cli.run(["control", "create", "key"]) == 0
    assert cli.run(["config", "check"]) == 0, "what the comments offer can be taken as it is"
    capsys.readouterr()
    assert cli.run(["config", "init"]) == 2
    assert sentence("config_file_exists") in capsys.readouterr().err
    assert cli.run(["config", "init", "other.toml"]) == 0


def test_a_starter_configuration_with_both_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["config", "init", "--both-ways"]) == 0
    assert cli.run(["config", "check", "--json"]) == 0
    written = capsys.readouterr().out
    assert json.loads(written[written.index("{") :])["flows"] == "primary->standby, standby->primary"
    there, back = read(tmp_path / "drkit.toml", {}).settings.flows
    assert (there.naming, back.naming) == ("identity", "identity")
    assert (there.opposite_flows, back.opposite_flows) == (("standby",), ("primary",)), "nothing circles"
    assert (there.topics, there.groups) == (back.topics, back.groups)
    assert cli.run(["config", "init", "one.toml"]) == 0
    commented = (tmp_path / "one.toml").read_text()
    assert commented != (tmp_path / "drkit.toml").read_text()
    offered = re.compile(r"^#(?=\[\[flows\]\]|(?:source|target|topics|groups) = )", re.MULTILINE)
    uncommented = offered.sub("", commented)
    assert uncommented == (tmp_path / "drkit.toml").read_text(), "its comment is the same flow"


def test_a_folder_is_no_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The hint was ``drkit status --help``, which has no answer."""
    assert cli.run(["status", "--config", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"configuration: {sentence('config_unreadable')}\n")
    assert "  evidence   Is a directory\n" in err
    assert "--help" not in err


def test_config_check(config: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["config", "check", "--config", config]) == 0
    assert "OK" in capsys.readouterr().out


def test_config_check_connects(config: str, capsys: pytest.CaptureFixture[str]):
    assert cli.run(["--config", config, "config", "check", "--connect"]) == 1
    assert "nothing listens on this port" in capsys.readouterr().err


@pytest.mark.parametrize("where", [0, 2, 3])
def test_config_show_hides_secrets(config: str, where: int, capsys: pytest.CaptureFixture[str]):
    arguments = ["config", "show"]
    arguments[where:where] = ["--json", "--config", config]
    assert cli.run(arguments) == 0
    out = capsys.readouterr().out
    assert "top-secret" not in out
    rows = {row["setting"]: row for row in json.loads(out)}
    assert rows['clusters.primary.client."sasl.password"']["value"] == "********"
    assert rows["flows[0].source"]["from"] == "drkit.toml:8"
    assert rows["flows[0].tasks"]["from"] == "default"


def test_config_show_names_the_reference_of_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "drkit.toml").write_text('[clusters.a]\nbootstrap_servers = "${env:HOST_A}:1"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOST_A", "h")
    monkeypatch.setenv("COLUMNS", "120")
    assert cli.run(["config", "show"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"clusters\.a\.bootstrap_servers\s+h:1\s+drkit.toml:2\s+\$\{env:HOST_A\}", out)


def test_a_reader_that_leaves_early_is_no_error(config: str):
    command = f"{sys.executable} -m drkit config show --config {config} | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr
    assert done.stdout.startswith("setting")


@pytest.mark.parametrize(
    ("words", "code"), [(["--version"], 0), (["config", "check", "--config", "none.toml"], 2)]
)
def test_exit_handlers_of_c_libraries_do_not_change_the_exit_code(words: list[str], code: int):
    """OpenSSL's handler ended the process by a signal: librdkafka's threads still used what it freed."""
    abort_at_exit = (
        "import atexit, ctypes, threading, time\n"
        "c = ctypes.CDLL(None)\n"
        "c.__cxa_atexit(c.abort, None, None)\n"
        "from drkit.cli import main, main\n"
        "work = main.end_with\n"
        "def and_others(command):\n"
        "    atexit.register(print, 'an exit function')\n"
        "    late = lambda: (time.sleep(0.2), print('a thread'))\n"
        "    threading.Thread(target=late).start()\n"
        "    return command()\n"
        "main.end_with = lambda command: work(lambda: and_others(command))\n"
        f"main.main({words!r})\n"
    )
    program = [sys.executable, "-c", abort_at_exit]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert done.stdout.endswith("a thread\nan exit function\n")
