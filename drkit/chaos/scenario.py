"""The scenario files: Chaos Toolkit experiments in YAML, found by name, checked before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import drkit
from drkit.config.tables.fields import did_you_mean
from drkit.errors import ConfigError, Usage, error_text

_PACKAGE: Final = Path(drkit.__file__).parent
_INSTALLED: Final = _PACKAGE / "pages" / "chaos"
FOLDER: Final = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "chaos"
"""In an installed drkit within the package, in a source tree beside it."""
SUFFIXES: Final = (".yaml", ".yml")
_EXTENSION: Final = "drkit"
_EXTENSION_KEYS: Final = frozenset({"promised", "runbook"})
_HINT: Final = "drkit explain chaos shows how a scenario is written"


@dataclass(frozen=True)
class Scenario:
    """A scenario file."""

    name: str
    title: str
    experiment: Mapping[str, Any]
    """The experiment in Chaos Toolkit's form."""
    exercises: tuple[tuple[str, str], ...]
    """Pairs of a fault and the step during which it must be in force."""
    promised: str = ""
    """The promise, in one sentence."""
    runbook: str = ""
    """The page for the operator who meets this."""


def scenarios() -> list[Scenario]:
    """Return all scenarios that drkit ships, by name. Raises DrkitError as :func:`load_scenario`."""
    return [load_scenario(str(path)) for path in sorted(FOLDER.glob("*.yaml"))]


def load_scenario(name: str) -> Scenario:
    """Return a scenario by its name or its file, checked.

    :raises Usage: there is none
    :raises ConfigError: the file is not a scenario, or the chaos extra is not installed
    """
    path = Path(name)
    if not name.endswith(SUFFIXES):
        path = FOLDER / f"{name}.yaml"
        if name not in (names := [each.stem for each in FOLDER.glob("*.yaml")]):
            nearest = did_you_mean(name, names)
            raise Usage("scenario_unknown", where="drkit chaos run", name=name, suggestion=nearest)
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise Usage("scenario_unreadable", where=str(path), evidence="not a regular file")
    try:
        yaml, library = import_module("yaml"), import_module("chaoslib.experiment")
        problem = import_module("chaoslib.exceptions").ChaosException
    except ImportError as error:
        raise ConfigError("chaos_not_installed", where="drkit chaos", evidence=str(error)) from error
    try:
        # In plain Python all thirty take a second.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        data = yaml.load(path.read_text(encoding="utf-8"), loader)
        library.ensure_experiment_is_valid(data)
        own_extensions = (e for e in data.get("extensions", ()) if e["name"] == _EXTENSION)
        extension: Mapping[str, Any] = next(own_extensions, {})
        known = {key: str(extension[key] or "") for key in _EXTENSION_KEYS & extension.keys()}
        probes = data["steady-state-hypothesis"]["probes"]
        exercises = [e for p in probes for e in p["provider"]["arguments"].get("exercises") or ()]
        faults = tuple((e["fault"], e["step"]) for e in exercises)
        scenario = Scenario(path.stem, str(data["title"]), data, faults, **known)
        names = import_module("drkit.chaos.actions").unknown_names(scenario)
        names += sorted(extension.keys() - {"name", "circle", *_EXTENSION_KEYS})
        names += [] if faults else ["exercises without a fault"]
    except OSError as error:
        raise Usage("scenario_unreadable", where=str(path), evidence=error_text(error)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise _wrong(path, "scenario_not_yaml", " ".join(str(error).split())) from error
    except KeyError as error:
        raise _wrong(path, "scenario_not_an_experiment", f"{error} is missing") from error
    except (problem, AttributeError, TypeError) as error:
        raise _wrong(path, "scenario_not_an_experiment", str(error)) from error
    if names:
        raise _wrong(path, "scenario_not_an_experiment", f"unknown: {', '.join(names)}")
    return scenario


def _wrong(path: Path, code: str, evidence: str) -> ConfigError:
    return ConfigError(code, where=str(path), evidence=evidence, hint=_HINT)
