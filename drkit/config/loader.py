"""Reads a file into :class:`Settings`, or raises an error that names every problem and its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
import os
from pathlib import Path
import tomllib
from typing import Any, Final, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from drkit.config.files.document import Document, lines_of
from drkit.config.files.interpolate import Problem, interpolate, place
from drkit.config.files.layers import override
from drkit.config.mm2.file import translate
from drkit.config.mm2.keys import KeySupport
from drkit.config.mm2.properties import MalformedEscape, parse
from drkit.config.tables.auto_proof import by_number
from drkit.config.tables.client_properties import ROLES, idle, is_kafkas, nearest
from drkit.config.tables.control import keys_beside
from drkit.config.tables.fields import TO_DO, suggestion
from drkit.config.tables.in_clear import in_clear
from drkit.config.tables.settings import Settings
from drkit.config.unchecked import ClientCheck, unknown_aliases, unusable_connections, wrong_properties
from drkit.errors import ConfigError, error_text
from drkit.masking import is_secret, shown

_TYPES: Final = "type, unit and default of every setting: drkit explain configuration"
_MUST_BE: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "string_type": "text",
    "tuple_type": "an array",
}
"""Pydantic's kinds of errors → the expected value, in plain words."""
_SHAPES: Final = {
    "^[A-Za-z0-9_-]+$": "must consist of letters, digits, '-' and '_'",
    "^[._-]$": "must be '.', '-' or '_'",
    "^[^:*]+:[^*]+$": "must be a type and a name, as in User:drkit",
    "[a-z0-9-]{0,38}": "must be at most 40 small letters, digits and '-', with no '-' at its ends",
}
"""Expressions of the model → the expected value, in plain words."""
_QUOTED: Final = frozenset(_MUST_BE) | {
    "finite_number",
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "literal_error",
    "string_pattern_mismatch",
}
"""Kinds of errors that do not repeat the value in their text."""
_KEY: Final = "[key]"
"""Pydantic's last step to the key of a table, where the key itself is wrong."""


def translated(error: ValidationError) -> list[Problem]:
    """Pydantic's errors, each with its path and what to do."""
    problems = []
    for each in error.errors(include_url=False):
        location, kind = each["loc"], each["type"]
        is_key = location[-1:] == (_KEY,)
        hint = each.get("ctx", {}).get(TO_DO, "")
        problem = _problem(location[:-1] if is_key else location, kind, each["msg"], hint)
        if is_key:
            problem = problem._replace(is_about_name=True)
        elif kind in _QUOTED:
            problem = problem._replace(evidence=_quoted(problem.at, each["input"]))
        problems.append(problem)
    return problems


def _quoted(path: str, value: object) -> str:
    """Return a single value as a person wrote it; empty for tables and arrays."""
    if not isinstance(value, (str, int, float)):
        return ""
    text = shown(path, value)
    return f"'{text}'" if isinstance(text, str) else str(text).lower()


def _problem(location: tuple[str | int, ...], kind: str, message: str, hint: str) -> Problem:
    path = ""
    # An alias is not a setting but the name of a table.
    for step in location[:-1] if location[0] == "clusters" and location[-1] == "alias" else location:
        path = place(path, step)
    if kind == "extra_forbidden":
        hint = suggestion(str(location[-1]), _known(location[:-1]))
        return Problem(path, "unknown setting", hint, is_about_name=True)
    if kind == "missing":
        return Problem(path, "this setting is needed", _TYPES, is_about_name=True)
    if kind in _MUST_BE:
        return Problem(path, f"must be {_MUST_BE[kind]}", _TYPES)
    if shape := next((plain for expression, plain in _SHAPES.items() if expression in message), None):
        return Problem(path, shape, _TYPES)
    return Problem(path, message[:1].lower() + message[1:], hint)


def _known(location: tuple[str | int, ...]) -> list[str]:
    """Names of the settings of the table at this path."""
    model: Any = Settings
    for step in location:
        fields = model.model_fields if _is_model(model) else {}
        # A name leads to its type; an index or a table's key leads to the element's type.
        model = fields[step].annotation if step in fields else next(filter(_is_model, get_args(model)), None)
    return [f for f in model.model_fields if f != "alias"] if _is_model(model) else []


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


CONFIG_VARIABLE: Final = "DRKIT_CONFIG"
DEFAULT_FILE: Final = "drkit.toml"
MM2_SUFFIX: Final = ".properties"
_AGAIN: Final = "correct it; drkit config check reads the file again"


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
    client_check: ClientCheck | None = None,
) -> Loaded:
    """Like :func:`load`, with the origin of every value.

    :param flags: single settings as ``KEY=VALUE``, which override environment and file
    :param client_check: also check every connection with this; None: problems show when it is used
    """
    file = find(path, env)
    document = _document(file, env)
    override(document, env, flags)
    if file.suffix == MM2_SUFFIX:  # a wrong key creates no table, so the model would miss it
        _refuse(file, document, document.problems)
    if not document.tables:
        raise _empty(file)
    keys_beside(file.parent, document.tables)
    found = [*wrong_properties(document.tables)]
    if client_check is not None:
        found += unusable_connections(document.tables, client_check, document.unresolved)
    try:
        settings = Settings.model_validate(document.tables)
    except ValidationError as error:
        # `from None`: pydantic's own text repeats the input, including passwords.
        found += [*translated(error), *unknown_aliases(document.tables)]
        raise _problems(file, document, _with_those_of_the_file(document, found)) from None
    found += (Problem(*each) for each in settings.disagreements())
    _refuse(file, document, _with_those_of_the_file(document, found))
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
    lines, references = lines_of(text), filled.origins
    return Document(
        filled.document,
        lines=lines,
        origins={at: f"{file.name}:{n} {references.get(at, '')}".rstrip() for at, n in lines.items()},
        references=references,
        unresolved=filled.unresolved,
        problems=filled.problems,
    )


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


def _with_those_of_the_file(document: Document, found: Iterable[Problem]) -> list[Problem]:
    """Return all problems in the order of the file, without those that an unresolved value causes."""
    known = document.unresolved
    causes = {*known.values()}
    more = [
        _without_reference(document, p)
        for p in found
        if p.is_about_name or not (p.at in known or any(c in p.what or c in p.evidence for c in causes))
    ]
    return sorted(dict.fromkeys([*document.problems, *more]), key=lambda p: document.line_of(p.at))


def _without_reference(document: Document, problem: Problem) -> Problem:
    """A value from a variable or file may be a secret, whatever its name is."""
    return problem._replace(evidence="") if problem.at in document.references else problem


def _in_the_users_words(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    # A line for all flows may be wrong in each of them: it is reported once.
    return list(dict.fromkeys(p._replace(at=document.called(p.at) or p.at) for p in problems))


def find(path: str | os.PathLike[str] | None, env: Mapping[str, str]) -> Path:
    """Return the configuration file to read. Raises ConfigError if no file exists."""
    named = path or env.get(CONFIG_VARIABLE)
    file = Path(named or DEFAULT_FILE)
    if file.exists():
        return file
    if named:
        source = "--config" if path else CONFIG_VARIABLE
        raise ConfigError("config_missing", where=str(file), evidence=f"named by {source}", source=source)
    evidence = f"no --config, no {CONFIG_VARIABLE}, no ./{DEFAULT_FILE}"
    raise ConfigError("config_not_given", where=str(file.absolute()), evidence=evidence)


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
        raise ConfigError("config_unreadable", where=str(file), evidence=error_text(error)) from error


def _refuse(file: Path, document: Document, problems: Sequence[Problem]) -> None:
    if problems:
        raise _problems(file, document, problems)


def _problems(file: Path, document: Document, problems: Sequence[Problem]) -> ConfigError:
    found = _in_the_users_words(document, problems)
    if len(found) == 1:
        at, what, hint, evidence, _ = found[0]
        return ConfigError(
            "config_problem",
            where=document.located(at, str(file)),
            evidence=evidence,
            hint=hint or _AGAIN,
            problem=what,
        )
    evidence = "\n".join(_line(file, document, p) for p in found)
    hint = _AGAIN.replace("it;", "each;")
    return ConfigError("config_problems", where=str(file), evidence=evidence, hint=hint, count=len(found))


def _line(file: Path, document: Document, problem: Problem) -> str:
    at = document.located(problem.at, file.name) if document.lines else problem.at
    text = ": ".join(part for part in (problem.what, problem.evidence) if part)
    # What follows the name of a secret and a colon would be masked as its value.
    text = f"{at}{' –' if is_secret(at) else ':'} {text}"
    return f"{text} ({problem.hint})" if problem.hint else text
