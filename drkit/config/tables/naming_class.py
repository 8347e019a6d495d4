"""A user's own naming policy, loaded by its import path and tried before anything is copied under it."""

from __future__ import annotations

from functools import lru_cache
from pkgutil import resolve_name
from typing import Final

from pydantic_core import PydanticCustomError

from drkit.config.tables.fields import TO_DO
from drkit.topology import BUILT_IN_NAMING, Naming, broken_promise

_METHODS: Final = ("downstream", "upstream", "comes_from")
_WHERE: Final = "drkit imports it with the Python it runs in: install the package there, or set PYTHONPATH"


def is_own_class(naming: str) -> bool:
    """Whether a value of ``naming`` names a class, as in ``mypackage.module:ClassName``."""
    return ":" in naming


@lru_cache
def own_naming(path: str, source: str, separator: str) -> Naming:
    """The policy at an import path, made for one flow.

    :param path: ``mypackage.module:ClassName``; the class is called with the source's alias and the separator
    :raises PydanticCustomError: there is no such class, it is no naming policy, or its names do not lead back
    """
    policy = _made(_found(path), path, source, separator)
    lacking = [m for m in _METHODS if not callable(getattr(policy, m, None))]
    if lacking:
        raise _refused(path, f"it has no method {', '.join(lacking)}", "see Naming in drkit.topology.naming")
    try:
        fault = broken_promise(policy, source, separator)
    except Exception as error:
        raise _refused(path, f"it raised {error!r} for a topic's name") from error
    if fault:
        raise _refused(path, fault)
    # Its methods were checked above; a class that imports nothing of drkit cannot be checked further.
    made: Naming = policy  # type: ignore[assignment]
    return made


def _found(path: str) -> object:
    try:
        return resolve_name(path)
    except ModuleNotFoundError as error:
        raise _refused(path, f"there is no module '{error.name}'", _WHERE) from error
    except AttributeError as error:
        raise _refused(path, f"the module has no '{path.partition(':')[2]}'") from error
    except ValueError as error:
        raise _refused(path, "it is not written as package.module:ClassName") from error
    except Exception as error:
        raise _refused(path, f"its module cannot be imported: {error!r}") from error


def _made(found: object, path: str, source: str, separator: str) -> object:
    if not isinstance(found, type):
        raise _refused(path, "it is no class")
    try:
        made: object = found(source, separator)
    except Exception as error:
        what = f"its constructor, called with ('{source}', '{separator}'), raised {error!r}"
        raise _refused(path, what) from error
    return made


def _refused(path: str, why: str, hint: str = "") -> PydanticCustomError:
    return PydanticCustomError(
        "naming",
        "the naming policy '{path}' cannot be used: {why}",
        {"path": path, "why": f"{why}; {hint}" if hint else why},
    )


def checked(naming: str, source: object, separator: object) -> str:
    """A value of ``naming`` that can be used, unchanged.

    :param source: the flow's source alias, None when that itself is wrong: then only the form is checked
    :param separator: likewise
    :raises PydanticCustomError: neither built in nor a usable class
    """
    if is_own_class(naming):
        if isinstance(source, str) and isinstance(separator, str):
            own_naming(naming, source, separator)
    elif naming not in BUILT_IN_NAMING:
        raise PydanticCustomError(
            "naming",
            "must be 'identity' or 'prefix', or your own class as 'mypackage.module:ClassName'",
            {TO_DO: "drkit runs no Java: write the same names as a Python class (drkit explain topologies)"},
        )
    return naming
