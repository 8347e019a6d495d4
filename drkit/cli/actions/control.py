"""``drkit control``: the key by which drkit's processes recognize each other's records."""

from __future__ import annotations

import os
from pathlib import Path
import secrets

from pydantic_core import PydanticCustomError

from drkit.cli.configuration import configuration
from drkit.cli.questions import ask
from drkit.cli.render import emit
from drkit.cli.session import to_type
from drkit.cli.talk import say
from drkit.config.tables.control import read_key
from drkit.counted import first_of
from drkit.errors import ConfigError, Refused
from drkit.failover import adopt as adopting
from drkit.failover.adopt import AdoptDecisions, refuse_loss, refuse_running, refuse_unknown
from drkit.visible import visible

_BYTES = 32


def create(path: Path) -> None:
    """Run ``drkit control create``."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError("key_not_writable", where=str(path), evidence=error.strerror or "") from error
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(_BYTES) + "\n")
    try:
        fingerprint = read_key(path).fingerprint
    except PydanticCustomError as error:  # such as a file system on which every file is open to others
        raise ConfigError("key_refused", where=str(path), reason=error.message()) from error
    told = f'copy it to every host that runs drkit; [control] key_file = "{path.resolve()}"'
    emit({"control key": str(path), "fingerprint": fingerprint, "next": told})


def check(names: tuple[str, ...]) -> int:
    """Run ``drkit control check``."""
    settings = configuration().settings
    found = [adopting.look(settings, flow) for flow in settings.chosen_flows(names)]
    rows = [{"flow": f.flow.name, **row} for f in found for row in f.to_json()]
    emit(rows)
    return 0 if all(not f.lacks_mac for f in found) else Refused.exit_code


def adopt(
    names: tuple[str, ...],
    *,
    dry_run: bool,
    again: bool,
    sign: tuple[str, ...],
    discard: tuple[str, ...],
    yes: bool,
) -> None:
    """Run ``drkit control adopt``."""
    settings = configuration().settings
    answers: list[dict[str, object]] = []
    try:
        looks = [adopting.look(settings, f, to_sign=not dry_run) for f in settings.chosen_flows(names)]
        refuse_unknown(
            [topic for found in looks for topic in found.topics], AdoptDecisions(again, sign, discard)
        )
        for found in looks:
            refuse_running(found.flow, found.topics)
            if discard:
                refuse_loss(found.topics)
            decided = AdoptDecisions(again or not (found.adopted or discard), sign, discard)
            answer: dict[str, object] = {"flow": found.flow.name, "topics": found.to_json()}
            if not dry_run:
                if not yes:
                    _show(found)
                    key = found.keys.current.fingerprint
                    question = f"Sign the records of {found.flow.name} with the key {key}?"
                    ask(question, command="drkit control adopt")
                signed = adopting.sign_all(found, decided)
                next_ = _next(found, decided)
                answer |= {"signed": signed, "next": to_type(next_)}
            answers.append(answer)
    finally:
        if answers:
            emit(answers if len(answers) > 1 else answers[0], shown=answers)


def _show(found: adopting.FlowRecords) -> None:
    for row in found.to_json():
        say(visible(", ".join(f"{name}: {value}" for name, value in row.items())))


def _next(found: adopting.FlowRecords, decided: AdoptDecisions) -> str:
    if silent := next((t for t in found.topics if t.unreachable), None):
        sign = f" --sign {silent.name}" if decided.all_signed else ""  # later it is no first adoption
        return f"{silent.name} was not signed: when {silent.where} answers again, drkit control adopt{sign}"
    names = {name for topic in found.topics for name in topic.names()} - {*decided.discard}
    if undecided := sorted(name for name in names if not decided.signs(name)):
        return (
            f"{first_of(undecided)} came later without a MAC and does not count; to sign it, if it is"
            " drkit's: drkit control adopt --sign NAME"
        )
    return "start drkit again; drkit control check"
