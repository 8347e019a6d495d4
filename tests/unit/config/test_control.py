"""The control key's file: beside the configuration, refused when it is weak or open, never shown."""

from __future__ import annotations

from pathlib import Path
import pickle

from pydantic_core import PydanticCustomError
import pytest

from drkit.cli import main as cli
from drkit.config import read
from drkit.config.changes import changes
from drkit.config.tables.control import read_key
from drkit.config.tables.fields import TO_DO
from drkit.errors import ConfigError
from tests.support.config.safe_auto import CONFIG, SAFE
from tests.support.errors import sentence
from tests.support.failover.command import drkit

KEY = "0123456789abcdef0123456789abcdef"
PLAIN = CONFIG.replace('"auto"', '"approve"')


def write(folder: Path, text: str = PLAIN, key: str | None = KEY, mode: int = 0o600) -> Path:
    if key is not None:
        (folder / "control.key").write_text(key + "\n")
        (folder / "control.key").chmod(mode)
    file = folder / "drkit.toml"
    file.write_text(text + '[control]\nkey_file = "control.key"\n')
    return file


def test_every_cluster_has_the_key_and_tasks_get_it_with_the_cluster(tmp_path: Path):
    settings = read(write(tmp_path), {}).settings
    keys = settings.control.keys
    assert keys is not None
    source, target = settings.task_sides(settings.flows[0])
    assert source.control == target.control == keys
    assert settings.cluster("witness").with_client({"client.id": "me"}).control == keys
    assert pickle.loads(pickle.dumps(target)).control == keys  # noqa: S301  as Spark carries it
    assert settings.cluster("primary") != read(unset(tmp_path), {}).settings.cluster("primary")


def unset(folder: Path) -> Path:
    file = folder / "without.toml"
    file.write_text(PLAIN)
    return file


@pytest.mark.parametrize(
    ("key", "mode", "why"),
    [
        (None, 0, "cannot be read: No such file"),
        (KEY, 0o644, "is open to other users (mode 0644)"),
        (KEY, 0o620, "is open to other users (mode 0620)"),
        ("short", 0o600, "is too weak: 5 bytes"),
        ("0" * 64, 0o600, "is too weak: its 64 bytes have only 1 different values"),
    ],
)
def test_an_invalid_key_is_refused_with_what_to_do(tmp_path: Path, key: str | None, mode: int, why: str):
    with pytest.raises(ConfigError) as refused:
        read(write(tmp_path, key=key, mode=mode), {})
    assert why in refused.value.what
    assert "control" in refused.value.where
    assert "drkit control create" in refused.value.hint or "chmod 600" in refused.value.hint


def test_previous_keys_alone_sign_nothing(tmp_path: Path):
    file = write(tmp_path)
    file.write_text(
        file.read_text().replace("key_file", "previous_key_files").replace('"control.key"', '["x"]')
    )
    with pytest.raises(ConfigError, match="nothing would be signed"):
        read(file, {})


def test_mode_auto_demands_a_key_where_drkit_acts_and_where_it_is_checked(tmp_path: Path):
    without = tmp_path / "auto.toml"
    without.write_text(CONFIG + SAFE)
    for words in (["config", "check"], ["watch", "--once", "0.1"]):
        said = drkit(without, *words)
        assert said.code == 2, said
        assert sentence("automatic_without_control_key") in said.err
        assert "drkit control create" in said.err
    assert read(without, {}).settings.failover.mode == "auto", (
        "a failover by hand still has its configuration"
    )
    said = drkit(write(tmp_path, CONFIG + SAFE), "config", "check")
    assert said.code == 0, said.err
    assert said.data["control key"] == "9cfb658e"


def test_the_key_is_made_once_and_shown_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "made.key"
    assert cli.run(["control", "create", str(path)]) == 0
    made = path.read_text().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert made not in capsys.readouterr().out
    assert cli.run(["control", "create", str(path)]) == 2
    assert path.read_text().strip() == made
    file = write(tmp_path)
    said = drkit(file, "config", "show")
    assert KEY not in said.out + said.err
    assert KEY not in repr(read(file, {}).settings)


def test_another_key_waits_for_a_restart(tmp_path: Path):
    running = read(write(tmp_path), {}).settings
    assert "control: the control key" not in changes(running, [], read(write(tmp_path), {}).settings).restart
    wanted = read(write(tmp_path, key=KEY[::-1]), {}).settings
    assert "control: the control key" in changes(running, [], wanted).restart


@pytest.mark.parametrize(
    ("content", "command"), [(None, "drkit control create"), ("weak", "rm"), (KEY, "chmod 600")]
)
def test_what_to_type_for_a_file_with_a_space_in_its_name(tmp_path: Path, content: str | None, command: str):
    path = tmp_path / "the key"
    if content is not None:
        path.write_text(content)
        path.chmod(0o644 if content == KEY else 0o600)
    with pytest.raises(PydanticCustomError) as refused:
        read_key(path)
    hint = (refused.value.context or {})[TO_DO]
    assert f"{command} '{path}'" in hint
    assert ("another host" in hint) == (content != KEY), "two keys of two hosts would not hear each other"
