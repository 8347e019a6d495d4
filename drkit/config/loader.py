"""Reads a file into :class:`Settings`, or raises an error that names every problem and its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
import os
from pathlib import Path
import tomllib
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from drkit.config.files.document import Document
from drkit.config.files.interpolate import Problem, interpolate, place
from drkit.config.files.layers import override
from drkit.config.files.toml_lines import lines_of
from drkit.config.in_words import translated
from drkit.config.mm2.file import translate
from drkit.config.mm2.keys import KeySupport
from drkit.config.mm2.properties import MalformedEscape, parse
from drkit.config.tables.auto_proof import by_number
from drkit.config.tables.client_properties import ROLES, idle, is_kafkas, nearest
from drkit.config.tables.control import keys_beside
from drkit.config.tables.in_clear import in_clear
from drkit.config.tables.security_properties import PROTOCOLS, is_misspelt
from drkit.config.tables.settings import Settings
from drkit.config.unchecked import unknown_aliases
from drkit.errors import ConfigError

CONFIG_VARIABLE: Final = "DRKIT_CONFIG"
DEFAULT_FILE: Final = "drkit.toml"
MM2_SUFFIX: Final = ".properties"
_AGAIN: Final = "correct it; drkit config check reads the file again"
_NO_PROPERTY: Final = "no client of Kafka's has a property of this name"
_SECURITY_PAGE: Final = "docs/how-to/security.md has the properties and their values"


class Loaded(NamedTuple):
    """Settings and their origins."""

    settings: Settings
    path: Path
    origins: dict[str, str]
    """Path → origin of its value: ``drkit.toml:7``, ``drkit.toml:7 ${env:PASSWORD}``, a variable ``DRKIT_…``,
    a flag ``--set …``. A missing path has drkit's default."""
    notes: tuple[Problem, ...] = ()
    """Settings of the file that have no effect, or none yet."""


def load(path: str | os.PathLike[str] | None = None, env: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a file, of ``DRKIT_CONFIG``, or of ``./drkit.toml``.

    :raises ConfigError: no file, not TOML, or invalid settings
    """
    return read(path, env).settings


def read(
    path: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] = os.environ,
    flags: Iterable[str] = (),
) -> Loaded:
    """Like :func:`load`, with the origin of every value.

    :param flags: single settings as ``KEY=VALUE``, which override environment and file
    """
    file = find(path, env)
    document = _document(file, env)
    override(document, env, flags)
    if file.suffix == MM2_SUFFIX:  # a wrong key creates no table, so the model would miss it
        _refuse(file, document.problems)
    if not document.tables:
        raise _empty(file)
    keys_beside(file.parent, document.tables)
    try:
        settings = Settings.model_validate(document.tables)
    except ValidationError as error:
        # `from None`: pydantic's own text repeats the input, including passwords.
        found = [*translated(error), *unknown_aliases(document.tables)]
        raise _problems(file, _with_those_of_the_file(document, found)) from None
    found = [*_wrong_properties(settings), *(Problem(*each) for each in settings.disagreements())]
    _refuse(file, _with_those_of_the_file(document, found))
    idle_here = _idle_properties(settings, document)
    unsafe = (*by_number(settings.watch, settings.fence_agent), *in_clear(settings.clusters))
    told = _in_the_users_words(document, (Problem(*each) for each in unsafe))
    notes = (*document.notes, *idle_here, *told, *_misspelt(settings))
    return Loaded(settings, file, document.origins, notes)


def _document(file: Path, env: Mapping[str, str]) -> Document:
    """Read the file by its ending: ``.properties`` is MirrorMaker 2's format, all others are TOML."""
    if file.suffix == MM2_SUFFIX:
        try:
            return translate(parse(_text(file)), file, env)
        except MalformedEscape as error:
            raise ConfigError("config_not_properties", where=str(file), evidence=str(error)) from error
    text = _text(file)
    filled = interpolate(_parse(file, text), file.parent, env)
    origins = {}
    for at, line in lines_of(text).items():
        reference = filled.origins.get(at, "")
        origins[at] = f"{file.name}:{line} {reference}".rstrip()
    return Document(filled.document, origins=origins, problems=filled.problems)


def _idle_properties(settings: Settings, document: Document) -> Iterator[Problem]:
    """Client properties of one role that have no effect; those of MM2's file are already reported."""
    for number, flow in enumerate(settings.flows):
        for setting, role in ROLES.items():
            for name, value in getattr(flow, setting).items():
                at = place(place(place("flows", number), setting), name)
                if (why := idle(role, name, value)) and not document.labels.get(at):
                    yield Problem(at, KeySupport.NOTHING.value, why)


def _misspelt(settings: Settings) -> Iterator[Problem]:
    """Client properties that are close to one of Kafka's: librdkafka's own names are accepted."""
    for alias, cluster in settings.clusters.items():
        for name in cluster.client:
            if not is_kafkas(name) and (hint := nearest(name)):
                at = place(place(place("clusters", alias), "client"), name)
                yield Problem(at, "Kafka has no client property of this name; librdkafka is given it", hint)


def _wrong_properties(settings: Settings) -> Iterator[Problem]:
    """Security properties that would be ignored: a misspelt name, an unknown protocol."""
    for table, client in _tables_of_properties(settings):
        for name, value in client.items():
            if is_misspelt(name):
                yield Problem(place(table, name), _NO_PROPERTY, nearest(name) or _SECURITY_PAGE)
            elif name == "security.protocol" and value.upper() not in PROTOCOLS:
                what = f"'{value}' is not one of {', '.join(PROTOCOLS)}"
                yield Problem(place(table, name), what, _SECURITY_PAGE)


def _tables_of_properties(settings: Settings) -> Iterator[tuple[str, Mapping[str, str]]]:
    for alias, cluster in settings.clusters.items():
        yield place(place("clusters", alias), "client"), cluster.client
    for number, flow in enumerate(settings.flows):
        for setting in ROLES:
            yield place(place("flows", number), setting), getattr(flow, setting)
    for number, listener in enumerate(settings.detection.listeners):
        yield f"detection.listeners[{number}].client", listener.client


def _with_those_of_the_file(document: Document, found: Sequence[Problem]) -> list[Problem]:
    """All problems: a value that could not be filled in is reported once, and hides no others."""
    named = {problem.at for problem in document.problems}
    more = [p for p in _in_the_users_words(document, found) if p.at not in named]
    return [*document.problems, *more]


def _in_the_users_words(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    # A line for all flows may be wrong in each of them: it is reported once.
    return list(dict.fromkeys(p._replace(at=document.called(p.at) or p.at) for p in problems))


def find(path: str | os.PathLike[str] | None, env: Mapping[str, str]) -> Path:
    """The configuration file to read. Raises ConfigError when no file exists."""
    named = path or env.get(CONFIG_VARIABLE)
    file = Path(named or DEFAULT_FILE)
    if file.is_file():
        return file
    if named:
        source = "--config" if path else CONFIG_VARIABLE
        raise ConfigError("config_missing", where=str(file), evidence=f"named by {source}", source=source)
    raise ConfigError(
        "config_not_given",
        where=str(file.absolute()),
        evidence=f"no --config, no {CONFIG_VARIABLE}, no ./{DEFAULT_FILE}",
    )


def _empty(file: Path) -> ConfigError:
    return ConfigError(
        "config_empty",
        where=str(file),
        evidence="it needs two clusters ([clusters.ALIAS] with bootstrap_servers) and a flow ([[flows]] with"
        " source and target)",
    )


def _parse(file: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("config_not_toml", where=str(file), evidence=str(error)) from error


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("config_unreadable", where=str(file), evidence=str(error)) from error


def _refuse(file: Path, problems: Iterable[Problem]) -> None:
    if found := list(problems):
        raise _problems(file, found)


def _problems(file: Path, problems: Sequence[Problem]) -> ConfigError:
    if len(problems) == 1:
        at, what, hint = problems[0]
        return ConfigError(
            "config_problem", where=f"{file}: {at}" if at else str(file), hint=hint or _AGAIN, problem=what
        )
    lines = [f"{p.at}: {p.what}" + (f" ({p.hint})" if p.hint else "") for p in problems]
    return ConfigError(
        "config_problems",
        where=str(file),
        evidence="\n".join(lines),
        hint=_AGAIN.replace("it;", "each;"),
        count=len(problems),
    )
