"""Options with which you decide about a return. The action reads their values."""

from __future__ import annotations

from typing import Final

import click

from drkit.cli.options import OptionGroup, accept, flag, option, text, together, topics

_OPTIONS: Final = (
    topics("A topic of the old primary.", "all promoted topics", OptionGroup.MOVES),
    option(
        "--disposition",
        "dispositions",
        metavar="TOPIC=WHAT",
        multiple=True,
        group=OptionGroup.HOW,
        help="What to do with records that only the old primary has: discard, replay or quarantine. TOPIC may"
        " be *.",
    ),
    option(
        "--method",
        "methods",
        metavar="TOPIC=HOW",
        multiple=True,
        group=OptionGroup.HOW,
        default_is="delta if possible, else rebuild",
        help="How to synchronize the old primary's log: delta, rebuild, trim or keep. TOPIC may be *.",
    ),
    accept("--reason", "Why records or history are given up; recorded."),
    text(
        "--export-to",
        metavar="PLACE",
        group=OptionGroup.HOW,
        help="Folder or URL for the export of records that only the old primary has.",
    ),
    option(
        "--format",
        "export_format",
        type=click.Choice(["parquet", "jsonl"]),
        default=None,
        group=OptionGroup.HOW,
        default_is="parquet",
        help="Format of the export.",
    ),
    option(
        "--same",
        type=click.Choice(["content", "none"]),
        default=None,
        group=OptionGroup.HOW,
        help="In a replay: skip records whose content is already on the new primary, or skip none.",
    ),
    option(
        "--give-up-history",
        metavar="TOPIC",
        multiple=True,
        group=OptionGroup.ACCEPT,
        help="Allow the return to drop (a) the earliest records that only the old primary has, (b) records"
        " that the new primary removed since the failover, (c) records that the old primary lost. Name the"
        " topic for (c). For (a) and (b) TOPIC may be *.",
    ),
    option(
        "--copy-limit",
        metavar="SIZE",
        default="",
        group=OptionGroup.HOW,
        default_is="no limit",
        help="Keep at most SIZE (e.g. 50GiB) of data unprotected at a time while topics are rebuilt. A larger"
        " topic is rebuilt alone.",
    ),
    accept(
        "--clients-cut",
        "How clients are kept off the old primary if it has no authorizer. HOW is recorded.",
        "HOW",
    ),
    text(
        "--new-primary",
        metavar="CLUSTER_ID",
        group=OptionGroup.MOVES,
        help="Id of a new cluster that replaces the old primary.",
    ),
    flag("--evict-readers", group=OptionGroup.ACCEPT, help="Remove members from groups on the old primary."),
)
decisions: Final = together(_OPTIONS)
"""Adds these options to a command."""
