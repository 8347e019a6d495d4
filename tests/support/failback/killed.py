"""Returns of a primary that died, one topic after the other; each is killed at a boundary of its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drkit.errors import Refused
from drkit.failover.core.request import RunRequest
from drkit.flow_state.records import (
    FenceSizesRecord,
    IncompleteRecord,
    ReturnRecord,
    RoleRecord,
    TailRecord,
    UnreplayedRecord,
)
from drkit.flow_state.topic import StateTopic
from drkit.journal.lost import violations
from drkit.journal.machine import RETURN, RunState
from drkit.kafka.admin import Cluster
from drkit.kafka.topics import topic_configs
from tests.support.errors import coded, longest_part
from tests.support.failback.tail import DeadPrimary
from tests.support.failover.command import Said, drkit
from tests.support.failover.orchestrator import Kill, Orchestrators
from tests.support.failover.settings_file import written


class KilledReturns:
    """One return for each topic of a dead primary."""

    def __init__(self, home: DeadPrimary, orchestrators: Orchestrators, folder: Path) -> None:
        self.home, self._orchestrators = home, orchestrators
        self._folder = folder
        home.die()
        self.left = iter(home.topics)

    def begun(self, topic: str, kill: Kill | None = None, **said: Any) -> bool:
        """Return a topic; returns whether its process was killed in the run.

        :param said: more that is requested
        """
        request = self.home.request(self._folder, [topic], **said).to_json()
        more = {"topics": [topic], "request": request}
        found = self._orchestrators.run(self.home.side.plain(), "return", kill=kill, **more)
        assert found.killed is (kill is not None), (kill, found)
        assert found.killed or found.error is None, found.error
        run = self.home.side.run_log()
        return found.killed and run.table is RETURN and topic in run.opening["scope"]["topics"]

    def ended(self, topic: str) -> dict[str, Any]:
        """The end of the return of a topic, checked."""
        run, side, back = self.home.side.run_log(), self.home.side, self.home.back
        assert run.state is RunState.DONE, run.state
        assert not violations(run)
        open_ = [(s, n) for s, found in run.effects.items() for n, e in found.items() if e["result"] is None]
        assert not open_, "effects without an end"
        with StateTopic(side.target, side.source.alias) as state:
            state.load()
            tail = state.get(TailRecord, topic)
            assert tail is not None
            assert tail.run_id == run.run_id
            assert state.get(IncompleteRecord, topic) is None
            fences = state.get(FenceSizesRecord)
            assert fences is None or topic not in fences.topics
        with StateTopic(back.target, back.source.alias) as state:
            state.load()
            assert state.get(ReturnRecord, topic) is not None
            assert state.get(RoleRecord, topic) is None
        return {
            "disposition": tail.disposition, "methods": tail.methods, "records": tail.records,
            "settings": self.settings(topic), "steps": sorted(run.results),
            "effects": {s: sorted(e.replace(topic, "") for e in x) for s, x in sorted(run.effects.items())},
        }  # fmt: skip

    def resumed(self) -> None:
        """Continue the run on another host."""
        if not self.home.side.run_log().state.is_over:
            again = self._orchestrators.run(self.home.side.plain(), "resume", elsewhere=True)
            assert again.error is None, again.error

    def aborted(self) -> None:
        """Roll the run back on another host."""
        found = self._orchestrators.run(self.home.side.plain(), "abort", elsewhere=True)
        assert found.error is None, found.error
        run = self.home.side.run_log()
        assert run.state is RunState.ABORTED
        assert not violations(run)

    def settings(self, topic: str) -> dict[str, str | None]:
        """What is set on a topic of the old primary, but for the fence."""
        found = topic_configs(Cluster.connect(self.home.side.source), [topic])[topic]
        return {
            name: c.value for name, c in found.items() if c.is_set_on_topic and name != "max.message.bytes"
        }

    def standing(self, topic: str) -> dict[str, Any]:
        """What an abort before the topic has begun gives back."""
        side, back = self.home.side, self.home.back
        with StateTopic(side.target, side.source.alias) as state:
            state.load()
            role = state.get(RoleRecord, topic)
        with StateTopic(back.target, back.source.alias) as state:
            state.load()
            done = state.get(ReturnRecord, topic)
        groups = [g for g in self.home.groups if g.rpartition("-")[0] == topic]
        return {
            "role": role, "return": done,
            "settings": self.settings(topic),
            "positions": {g: back.committed(back.target, g) for g in groups},
        }  # fmt: skip

    def alarms(self) -> list[str]:
        """The alarms of the pair."""
        found = self._types("status", "--flow", self.home.side.settings.flows[0].name, code=None).data
        alarms: list[str] = found["flows"][0]["pair"]["alarms"]
        return alarms

    def is_alarmed(self, topic: str) -> None:
        """What was to be replayed and is in an export alone is an alarm, and clients do not move home."""
        assert self.alarms() == ["unreplayed"]
        refused = self._types("failback", "--flow", self.home.side.settings.flows[0].name, "--yes", code=3)
        assert longest_part("unreplayed") in refused.err
        assert f"--topic {topic}" in refused.err
        back = self.home.back
        with back.desk() as desk, pytest.raises(Refused, check=coded("unreplayed")):
            desk.begin([], RunRequest(planned=True))

    def _types(self, *words: str, code: int | None = 0) -> Said:
        side = self.home.side
        said = drkit(written(side, side.folder), *words)
        assert code is None or said.code == code, (words, said)
        return said

    def replayed(self, topic: str) -> None:
        """Append from the export what a rolled back return had emptied: the old primary has it no more."""
        side = self.home.side
        with StateTopic(side.target, side.source.alias) as state:
            state.load()
            tail = state.get(TailRecord, topic)
        assert tail is not None
        assert tail.manifest
        self._types("replay", "--from", tail.manifest, "--topic", topic, "--yes")
        with StateTopic(side.target, side.source.alias) as state:
            state.load()
            ended = {r.ended for n, r in state.all(UnreplayedRecord).items() if n.startswith(f"{topic}/")}
        assert ended == {"replayed"}

    def is_fenced(self, topic: str) -> bool:
        """Whether the old primary's fence is in effect, as the failover wanted it."""
        side = self.home.side
        with StateTopic(side.target, side.source.alias) as state:
            state.load()
            fences = state.get(FenceSizesRecord)
            return fences is not None and topic in fences.topics

    def is_incomplete(self, topic: str) -> bool:
        """Whether a topic of the old primary is noted as emptied, and nothing is copied to it."""
        side = self.home.side
        with StateTopic(side.target, side.source.alias) as state:
            state.load()
            return state.get(IncompleteRecord, topic) is not None

    def all_is_well(self) -> None:
        """Everything is copied back; each record and each offset is compared."""
        home = self.home
        home.turned()
        home.copied_back()
        home.nothing_is_lost()
        assert home.same_on_both() > 50
        home.positions_are_right()
        home.reads_are_whole()
