"""``${env:NAME}``, ``${file:PATH}`` and ``${file:PATH:KEY}`` in any text of the configuration.

The last is Kafka's FileConfigProvider (KIP-297): a key of a properties file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
import re
from typing import Any, Final, NamedTuple

_REFERENCE: Final = re.compile(r"\$\{(?P<provider>[A-Za-z]+):(?P<what>[^}]*)\}")

_PROVIDERS: Final = "use ${env:NAME}, ${file:PATH} or ${file:PATH:KEY}"
_FILES: Final = "let this user read it, or correct the path: relative ones start at the configuration file"


class Problem(NamedTuple):
    """A problem with one setting of the configuration, and what to do."""

    at: str
    what: str
    hint: str = ""
    evidence: str = ""
    """The value, if ``what`` does not quote it; never a secret."""
    is_about_name: bool = False
    """The name of the setting is wrong or missing, whatever its value is."""


class Interpolated(NamedTuple):
    """The document with references replaced, and those that could not be resolved left as they are."""

    document: Any
    origins: dict[str, str]
    """Path → the last reference in its value."""
    unresolved: dict[str, str]
    """Path → a reference in its value that could not be resolved."""
    problems: list[Problem]


def interpolate(document: Any, folder: Path, env: Mapping[str, str]) -> Interpolated:
    """Replace all references.

    :param folder: relative paths start here
    """
    walk = _Walk(folder, env)
    return Interpolated(walk.value(document, ""), walk.origins, walk.unresolved, walk.problems)


def place(parent: str, key: str | int) -> str:
    """The name of a child, as in ``flows[0].topics``; keys with dots are quoted."""
    if isinstance(key, int):
        return f"{parent}[{key}]"
    name = f'"{key}"' if "." in key else key
    return f"{parent}.{name}" if parent else name


class _Walk:
    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.env = env
        self.origins: dict[str, str] = {}
        self.unresolved: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.providers: dict[str, Callable[[str], str]] = {"env": self._env, "file": self._file}

    def value(self, value: Any, at: str) -> Any:
        if isinstance(value, dict):
            return {k: self.value(v, place(at, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self.value(v, place(at, i)) for i, v in enumerate(value)]
        return self._text(value, at) if isinstance(value, str) else value

    def _text(self, text: str, at: str) -> str:
        def replace(match: re.Match[str]) -> str:
            provider, what = match["provider"], match["what"]
            try:
                found = self.providers[provider](what)
            except KeyError:
                self.problems.append(Problem(at, f"${{{provider}:...}} is unknown", _PROVIDERS))
            except LookupError as error:
                what, hint = map(str, error.args)
                self.problems.append(Problem(at, what, hint))
            except (OSError, UnicodeDecodeError) as error:
                why = "it is not UTF-8 text" if isinstance(error, ValueError) else error.strerror or error
                self.problems.append(Problem(at, f"cannot read {what}: {why}", _FILES))
            else:
                self.origins[at] = match[0]
                return found
            self.unresolved[at] = match[0]
            return match[0]

        return _REFERENCE.sub(replace, text)

    def _env(self, name: str) -> str:
        if name not in self.env:
            hint = "set it where drkit is started, or give the value as ${file:PATH}"
            raise LookupError(f"environment variable {name} is not set", hint)
        return self.env[name]

    def _file(self, what: str) -> str:
        path, _, key = what.partition(":")
        text = (self.folder / path).read_text(encoding="utf-8")
        if not key:
            return text.rstrip("\r\n")
        for line in text.splitlines():
            name, separator, value = line.partition("=")
            if separator and name.strip() == key:
                return value.strip()
        raise LookupError(f"{path} has no key '{key}'", f"write a line {key}=... into it, or correct the key")
