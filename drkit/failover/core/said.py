"""What was said of a return, as the options that say it again. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
import re
from typing import Final

from drkit.failover.core.choices import EVERY_TOPIC
from drkit.failover.core.request import RunRequest
from drkit.next_command import typed

NOTHING_SAID: Final = RunRequest()
UNTIL_EXPORT: Final = "--until-export"
_BY_TOPIC: Final = frozenset({"--disposition", "--method"})
_OF_ALL: Final = frozenset({"--topic"})
_REPEATABLE: Final = frozenset({"--give-up-history"})
_PLACEHOLDER: Final = re.compile(r"\"?[A-Z][A-Z_ ]*\"?")


def begin_words(request: RunRequest) -> list[str]:
    """The options that a return needs in any case, whatever is decided in it."""
    words = [
        typed(option, value)
        for option, value in (
            ("--clients-cut", request.clients_cut),
            ("--new-primary", request.new_primary),
            ("--export-to", request.export_to),
            ("--format", request.export_format),
        )
        if value
    ]
    return words + ["--evict-readers"] * request.evict_readers


def decision_words(request: RunRequest) -> list[str]:
    """The options by which a person decides."""
    words = [typed("--disposition", f"{t}={said}") for t, said in request.dispositions.items()]
    words += [typed("--method", f"{t}={said}") for t, said in request.methods.items()]
    words += [typed("--give-up-history", t) for t in request.give_up_history]
    words += [typed("--same", request.same)] if request.same else []
    words += [typed("--copy-limit", str(request.copy_limit))] if request.copy_limit else []
    return words + ([typed("--reason", request.reason)] if request.reason else [])


def chosen_among(request: RunRequest, topics: Collection[str]) -> RunRequest:
    """The request without the choices that name a topic which is not one of some: they would be refused."""
    known = {*topics, EVERY_TOPIC}
    return request._replace(
        dispositions={t: said for t, said in request.dispositions.items() if t in known},
        methods={t: said for t, said in request.methods.items() if t in known},
        give_up_history=tuple(t for t in request.give_up_history if t in known),
    )


def merged(given: Iterable[str], more: Iterable[str]) -> list[str]:
    """The options that were given, with others that a command needs besides: none is said twice.

    Of one topic, or of an option with one value, the other one counts; but a placeholder such as ``PLACE``
    does not replace what was given.

    :param given: each an option, as it is typed
    :param more: likewise
    """
    found = list(given)
    for word in more:
        option, _, value = word.partition(" ")
        same = [w for w in found if _key(w) == _key(word)]
        if same and option not in _OF_ALL and (not value or _PLACEHOLDER.fullmatch(value)):
            continue
        found = [w for w in found if w not in same and not _excludes(word, w)]
        found.append(word)
    return found


def _key(word: str) -> str:
    """What an option is about: words with the same key exclude each other."""
    option = word.partition(" ")[0]
    if option in _BY_TOPIC:
        return word.rpartition("=")[0]
    return word if option in _REPEATABLE else option


def _excludes(word: str, other: str) -> bool:
    """Whether a return that is decided later, which one of them asks for, has no place for the other."""
    late = {word.partition(" ")[0], other.partition(" ")[0]}
    return late == {UNTIL_EXPORT, "--disposition"}
