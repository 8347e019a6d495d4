"""A law of the source: few modules print, and these escape what a cluster chose."""

from __future__ import annotations

import ast
import re

from tests.support.laws import broken, sources

PRINTS = re.compile(
    r"print|click\.(echo|secho|confirm|prompt)|sys\.std(out|err)\.(buffer\.)?write|.*console\.print"
)
PRINTERS = {
    "drkit.cli.render": "answers and errors, each text escaped",
    "drkit.cli.talk": "lines on stderr, escaped",
    "drkit.cli.screens.demo": "the demo's own clusters, with names of its own",
    "drkit.local.jars": "run by make, before there is a command line",
    "drkit.spark.class_training": "likewise",
    "drkit.spark.worker_daemon": "a process of Spark's, before any cluster is asked",
}


def test_few_places_print():
    """What a cluster chose, such as a group's name, is escaped there and cannot be forgotten elsewhere."""
    found = []
    for source in sources():
        calls = [ast.unparse(n.func) for n in source.nodes if isinstance(n, ast.Call)]
        printing = [c for c in calls if PRINTS.fullmatch(c)]
        if printing and source.name not in PRINTERS:
            found.append(f"{source.name}: {', '.join(printing)}")
    broken("print by drkit.cli.render or drkit.cli.talk", found)
