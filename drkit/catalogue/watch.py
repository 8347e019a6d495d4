"""Errors of detection and fence agents."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "agent_state_unreadable": failed(
        "the state of the fence agent cannot be read",
        hint="find out whether the primary is fenced, then remove the file",
    ),
    "agent_state_unwritable": failed(
        "the state of the fence agent cannot be written",
        hint="set fence_agent.state_file to a path where this user may write",
    ),
    "fence_not_lifted": failed("the fence could not be lifted", hint="lift it by hand, then again"),
    "name_not_listed": wrong(
        "the observer name {name} is not in the list of voters",
        hint="give this process the name that it has there, or add {name} to {setting} everywhere",
    ),
    "name_unprintable": wrong(
        "the observer name is not valid", hint="choose a printable name of at most 256 characters"
    ),
    "no_flow_to_watch": wrong("there is no flow to watch", hint="add a [[flows]] table"),
    "nothing_to_acknowledge": refused(
        "there is no automatic failover to acknowledge", hint="{drkit:watch --once 5} shows what is seen now"
    ),
}
