"""What a person decides about a return: read from options, or asked on a terminal. No default is a choice."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypedDict

from pydantic import ByteSize, TypeAdapter, ValidationError

from drkit.cli.questions import answered
from drkit.counted import counted
from drkit.errors import Usage
from drkit.failover.core.request import Disposition, Method, RunRequest, option_of
from drkit.failover.returning.deciding import Undecided


class Decisions(TypedDict):
    """The options of a return, as click gives them."""

    topics: tuple[str, ...]
    dispositions: tuple[str, ...]
    methods: tuple[str, ...]
    reason: str
    export_to: str
    export_format: str | None
    same: str | None
    give_up_history: tuple[str, ...]
    copy_limit: str
    clients_cut: str
    new_primary: str
    evict_readers: bool


def request_of(given: Decisions, place: str) -> RunRequest:
    """The request that the options make.

    :param place: the command, for errors
    :raises Usage: an option cannot be read, or names a topic twice
    """
    return RunRequest(
        copy_limit=_size("--copy-limit", given["copy_limit"], place),
        clients_cut=given["clients_cut"],
        dispositions=_by_topic("--disposition", given["dispositions"], Disposition, place),
        methods=_by_topic("--method", given["methods"], Method, place),
        same=given["same"] or "",
        reason=given["reason"],
        export_to=given["export_to"],
        export_format=given["export_format"] or "",
        new_primary=given["new_primary"],
        evict_readers=given["evict_readers"],
        give_up_history=given["give_up_history"],
    )


def said_of(given: Decisions) -> list[str]:
    """The options that were given, by name."""
    return [option_of(name) for name, value in given.items() if value and name in Decisions.__annotations__]


def decided_on_terminal(error: Undecided, request: RunRequest, place: str) -> RunRequest:
    """The request with what a person answers.

    :param error: what is not decided
    :param place: the command, for errors
    :raises Usage: there is no terminal, or no answer
    """
    dispositions = dict(request.dispositions)
    for topic, records in sorted(error.topics.items()):
        question = f"{topic}: {counted(records, 'record')} that the new primary does not have"
        dispositions[topic] = answered(question, list(Disposition), command=place)
    reason = request.reason or answered("Why, for the record", (), command=place)
    return request._replace(dispositions=dispositions, reason=reason)


def _size(option: str, said: str, place: str) -> int:
    """A number of bytes; 0: none was given."""
    if not said:
        return 0
    try:
        found = int(TypeAdapter(ByteSize).validate_python(said))
    except ValidationError:
        found = 0
    if found <= 0:
        raise Usage("size_malformed", where=place, evidence=f"{option} {said}", option=option)
    return found


def _by_topic(option: str, said: Iterable[str], kind: type[StrEnum], place: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in said:
        topic, equals, value = text.rpartition("=")
        if not (topic and equals) or value not in list(kind):
            raise Usage(
                "choice_malformed",
                where=place,
                evidence=f"{option} {text}",
                option=option,
                kind="|".join(kind),
                example=next(iter(kind)),
            )
        if found.setdefault(topic, value) != value:
            evidence = f"{topic}: {found[topic]} and {value}"
            raise Usage("choice_contradicts", where=place, evidence=evidence, option=option)
    return found
