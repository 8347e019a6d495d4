"""``drkit reprotect --to``: a third cluster protects the new primary, by an ordinary flow from there."""

from __future__ import annotations

from drkit.cli.render import emit
from drkit.cli.session import session, to_type
from drkit.cli.talk import say
from drkit.config import Settings
from drkit.counted import counted, first_of
from drkit.failover.third_cluster import NoFlow, ThirdCluster, failed_over, third_cluster
from drkit.next_command import typed


def show_third(settings: Settings, name: str | None, to: str) -> None:
    """Check a flow to a third cluster, and say what it does and what to type.

    :param name: the flow that was failed over; None: the only one that was
    :raises NoFlow: there is no such flow; the table for the configuration was printed
    :raises DrkitError: it is refused, or a cluster does not answer
    """
    there = settings.flow(name) if name is not None else failed_over(settings, to)
    try:
        found = third_cluster(settings, there, to)
    except NoFlow as error:
        if session().as_json:
            emit({"flow": error.where, "toml": error.toml})
        else:
            say("add to the configuration:")
            emit(error.toml)
        raise
    next_ = [to_type(line) for line in next_of(found, there.name)]
    if session().as_json:
        emit({**found.to_json(), "next": next_})
        return
    emit(shown(found, there.target, to))
    for number, line in enumerate(next_, start=1):
        emit(f"{number}. {line}")


def shown(found: ThirdCluster, active: str, to: str) -> dict[str, str]:
    """What a person reads of it."""
    begin = "copying continues where it stopped" if found.continues else "copied from the start of each log"
    groups = f"positions follow to {to}, exactly" if found.moves_groups else "do not move"
    runs = f"copied by {found.copied_by}" if found.copied_by else "not copied yet: no replicator runs"
    return {
        "flow": found.flow,
        "protects": f"{counted(len(found.topics), 'topic')} of {active}: {first_of(found.topics)}",
        "records": begin,
        "groups": groups,
        "now": runs,
    }


def next_of(found: ThirdCluster, there: str) -> list[str]:
    """What to type."""
    start = [] if found.copied_by else [typed("drkit", "replicate", "--flow", found.flow)]
    later = typed("drkit", "failover", "--flow", found.flow, "--all")
    home = typed("drkit", "reprotect", "--flow", there, "--plan")
    return [
        *start,
        f"{typed('drkit', 'status', '--flow', found.flow)}; a later failover: {later}",
        f"the old primary was not asked, and stays as it is; its return: {home}",
    ]
