"""Many groups with names that a terminal, a shell, TOML or a regular expression takes for something else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
import json
import os
from pathlib import Path
import random
import re
import subprocess
import sys
import time
from typing import Any, NamedTuple

from drkit.config import ClusterSettings
from drkit.endpoint import parse_endpoint
from drkit.kafka.groups.requests import Committed, Groups
from drkit.kafka.raw import RawCluster
from drkit.model import TopicPartition
from tests.support.errors import sentence
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.world import World
from tests.support.flows.produce import fill_transactions
from tests.support.repoint.hostile import drips_a_header, serving
from tests.support.waiting import eventually

ODD: Sequence[str] = (
    " leading", "trailing ", "  ", "\t", "new\nline", "carriage\rreturn", "it's", 'say "x"', "`touch x`",
    "$(touch x)", "${HOME}", "-x", "--all", "--group", "--", "..", ".", "/", "../../etc/passwd", "a/b",
    "Case", "case", "CASE", ".*", "[a-z]+(", "(?i)x", "^$", "a|b", "]\n[failover]", 'a = "b"', "'''", '"""',
    "#x", "\x1b]0;title\x07", "\x1b[2J\x1b[31mred", "\x1b[1A", "\x9b31m", "\x00", "\x7f", "\b\b\b", "1e3",
    "null", "None", "true", "NaN", "-1", "{}", "[]", "%s %n", "a,b", "a:b", "a=b", "a;b", "*", "?", "~", "!x",
    "\\", "\\n", "\\x1b", "\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}",
    "\N{CJK UNIFIED IDEOGRAPH-65E5}", "\N{GRINNING FACE}", "\N{RIGHT-TO-LEFT OVERRIDE}abc",
    "\N{ZERO WIDTH SPACE}", "\N{NO-BREAK SPACE}", "\N{LINE SEPARATOR}x", "\N{BYTE ORDER MARK}",
    "[bold]x[/bold]", "[/]", "[link=http://x]", "x" * 249, "y" * 3000,
)  # fmt: skip
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""What no line on a terminal may hold."""
_ROOT = Path(__file__).parents[3]
PARTITIONS = 2
_AT_ONCE = 500


class Cost(NamedTuple):
    """What a command took."""

    seconds: float
    cpu_seconds: float
    most_mib: float


class Ran(NamedTuple):
    """A command as a process of its own."""

    code: int
    out: str
    err: str
    cost: Cost

    @property
    def data(self) -> Any:
        """What it printed with ``--json``."""
        return json.loads(self.out)


class OddGroups:
    """A world whose groups have odd names, each with its own position in a topic with gaps in its offsets.

    :param count: of all groups; those that are not odd have ordinary names
    """

    def __init__(self, world: World, count: int) -> None:
        self.world = world
        self.topic = world.name("orders")
        tag = world.tag
        # The tag at the end keeps what is odd about the beginning; most of what is odd does not care.
        self.groups = [f"{odd}{tag}" for odd in ODD] + [world.name(f"g{i}") for i in range(count - len(ODD))]
        world.flow_fields["groups"] = [rf"[\s\S]*{tag}", f"{tag}-.*"]
        self.file = world.folder / "drkit.toml"
        self.wanted: dict[str, dict[TopicPartition, Committed]] = {}

    def prepare(self, seconds: float = 90.0) -> None:
        """Records in transactions, the groups' commits, and a copy of all of it."""
        world, chance = self.world, random.Random(7)
        world.create(world.source, self.topic, PARTITIONS, {"retention.ms": "-1"})
        fill_transactions(world.source, [self.topic], 600, most=40)
        ends = world.offsets(world.source, self.topic)
        at = {p: TopicPartition(self.topic, p) for p in range(PARTITIONS)}
        self.wanted = {
            g: {at[p]: Committed(chance.randint(0, ends[p])) for p in range(PARTITIONS)} for g in self.groups
        }
        self.commit(self.wanted)
        world.replicate()
        eventually(lambda: len(self.placed(world.target)) == len(self.groups), seconds, "all groups there")

    def commit(self, wanted: Mapping[str, Mapping[TopicPartition, Committed]]) -> None:
        """In batches, as from outside of the groups; again for those whose coordinator is not ready."""
        left = dict(wanted)

        async def alter(raw: RawCluster, names: Sequence[str]) -> Any:
            return await Groups(raw).alter({g: dict(wanted[g]) for g in names})

        def committed() -> bool:
            answers = self.world.ask(self.world.source, alter, list(left)[:_AT_ONCE])
            for group, answer in answers.items():
                if answer.value is not None and not any(answer.value.values()):
                    del left[group]
            return not left

        eventually(committed, 300, "commits of all groups")

    def placed(self, cluster: ClusterSettings) -> dict[str, dict[TopicPartition, int]]:
        """Groups that have committed in every partition."""

        async def committed(raw: RawCluster) -> Any:
            return await Groups(raw).committed(self.groups)

        found = self.world.ask(cluster, committed)
        offsets = {g: {at: c.offset for at, c in (a.value or {}).items()} for g, a in found.items()}
        return {g: o for g, o in offsets.items() if len(o) == PARTITIONS}

    def wrong(self) -> list[str]:
        """Groups that would skip or repeat a record on the target."""
        world = self.world
        on_source, on_target = (
            {p: [r.offset for r in rs] for p, rs in world.records(c, self.topic).items()}
            for c in (world.source, world.target)
        )
        there = self.placed(world.target)
        return [
            g
            for g, offsets in self.wanted.items()
            if any(
                bisect_left(on_source[at.partition], c.offset)
                != bisect_left(on_target[at.partition], there.get(g, {}).get(at, -1))
                for at, c in offsets.items()
            )
        ]

    def configure(self) -> Path:
        """The configuration as a file, as a person writes it: TOML."""
        plain = self.world.plain()
        lines = [
            f'[clusters.{alias}]\nbootstrap_servers = "{c["bootstrap_servers"]}"'
            for alias, c in plain["clusters"].items()
        ]
        lines += ["[[flows]]", *(f"{k} = {toml(v)}" for k, v in plain["flows"][0].items())]
        lines += ["[failover]", *(f"{k} = {toml(v)}" for k, v in plain["failover"].items())]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self.file


def toml(value: object) -> str:
    """A value of TOML; control characters as its escapes."""
    if isinstance(value, str):
        plain = json.dumps(value, ensure_ascii=False)
        return re.sub("[\x7f-\x9f]", lambda m: f"\\u{ord(m[0]):04x}", plain)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(file: Path, *words: str) -> Ran:
    """A command of drkit as a person runs it; what it took."""
    began = time.monotonic()
    with (file.with_suffix(".out")).open("w+b") as out, (file.with_suffix(".err")).open("w+b") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "drkit", "--config", str(file), *words],
            stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=_ROOT,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        cost = Cost(
            round(time.monotonic() - began, 2), round(used.ru_utime + used.ru_stime, 2),
            round(used.ru_maxrss / 1024, 1),
        )  # fmt: skip
        out.seek(0)
        err.seek(0)
        return Ran(process.returncode, out.read().decode(), err.read().decode(), cost)


def harmful(texts: Iterable[str]) -> list[str]:
    """Lines that do something to a terminal."""
    return [line for text in texts for line in text.split("\n") if HARMFUL.search(line)]


def story(groups: OddGroups, go: Callable[..., Ran]) -> dict[str, Cost]:
    """A failover of all of it, killed, held and resumed; what each command took.

    :param go: runs a command of drkit
    """
    world, costs = groups.world, {}
    endpoint = world.folder / "endpoint.json"
    # The names as patterns, as a person writes them; 60 of them are enough for one way.
    named = [re.escape(g) for g in groups.groups[:60]]
    ways: list[dict[str, Any]] = [
        {"kind": "file", "path": str(endpoint), "groups": named},
        {"kind": "command", "command": [sys.executable, "-S", "-c", "print('x' * 9999)"], "groups": named},
    ]

    def said(name: str, *words: str, code: int = 0, by: Callable[..., Ran] = go) -> Ran:
        found = by(groups.file, *words)
        assert found.code == code, (words, found.err[-2000:])
        assert not harmful([found.out, found.err]), words
        costs[name] = found.cost
        return found

    with serving(drips_a_header) as url:
        bad = {"kind": "webhook", "url": url, "timeout_seconds": 0.3, "retry_seconds": 0.0}
        world.failover_fields["repoint"] = [bad, *ways]
        groups.configure()
        status = said("status", "--json", "status")
        assert {g["group"] for f in status.data["flows"] for g in f["groups"]} == set(groups.groups)
        for odd in ("--all", "new\nline", "\x1b[2J\x1b[31mred", "[/]", "  "):
            said("translate", "translate", f"--group={odd}{world.tag}")
            said("dry run of a group", "failover", f"--group={odd}{world.tag}", "--dry-run")
        said("dry run", "failover", "--all", "--dry-run")
        with Orchestrators() as orchestrators:
            killed = orchestrators.run(world.plain(), "begin", groups=[], kill=Kill(15, "after"))
        assert killed.killed, killed
        # As a process that is gone afterwards: what lives is not taken over.
        held = said("resume until held", "failover", "--resume", code=1, by=run)
        assert sentence("repoint_failed", count=1, total=3) in held.err
        assert not [s for s in ("t0p-secret", "abc") if s in held.err + held.out]
        assert parse_endpoint(endpoint.read_text(encoding="utf-8")).cluster == world.target.alias
    world.failover_fields["repoint"] = ways
    groups.configure()
    report = said("resume until done", "--json", "failover", "--resume").data
    assert set(report["groups"]["moved"]) == set(groups.groups)
    assert set(world.run_log().opening["scope"]["groups"]) == set(groups.groups)
    assert groups.wrong() == []
    told = said("repoint", "--json", "repoint", "apply", "--to", world.target.alias).data
    assert {w["name"].split()[0]: w["result"] for w in told} == {"file": "unchanged", "command": "changed"}
    return costs
