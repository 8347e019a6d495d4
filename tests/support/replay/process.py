"""A replay as a process that dies, or is halted, at any request that changes something on the new primary."""

from __future__ import annotations

from collections.abc import Mapping
import json
import os
from pathlib import Path
import signal
import sys
import tempfile
from typing import Any

from kafka.protocol.producer.produce import ProduceRequest
from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from drkit.config import ClusterSettings, FlowSettings
from drkit.errors import DrkitError
from drkit.flow_state.topic import StateTopic
from drkit.kafka.raw import RawCluster
from drkit.replay import tail as tails
from drkit.replay.compare import Same
from drkit.replay.run import Replayer, ReplayRequest
from drkit.replay.tail import export_at
from tests.support.warm import WarmProcess

AGAIN = (AddPartitionsToTxnRequest, InitProducerIdRequest)
"""Repeated while the coordinator still writes the markers of the transaction before: counted once."""
CHANGES = (InitProducerIdRequest, AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest)


class ReplayProcess:
    """A running replay."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        line = json.dumps(job).encode()
        self._process = WarmProcess("tests.support.replay.process", stdin=line, out=self._out.fileno())

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def halted(self) -> bool:
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def resume(self) -> None:
        """Let it continue after it was halted."""
        self._process.send_signal(signal.SIGCONT)

    def outcome(self, seconds: float = 90.0) -> dict[str, Any]:
        """Its answer; ``killed`` when it was."""
        code = self._process.wait(seconds)
        self._out.seek(0)
        said = self._out.read().decode(errors="replace")
        if code == -signal.SIGKILL:
            return {"killed": True}
        assert code == 0, said[-3000:]
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found


class _Mortal:
    """TailCounts requests that change something; at one of them its process ends, at one it halts."""

    def __init__(self, kill: int, freeze: int) -> None:
        self._kill, self._freeze, self.sent = kill, freeze, 0
        self._last: type | None = None
        queue = RawCluster.queue

        async def mortal(cluster: RawCluster, request: Any, *given: Any) -> Any:
            is_again, self._last = isinstance(request, AGAIN) and type(request) is self._last, type(request)
            if isinstance(request, CHANGES) and not is_again:
                if self.sent == self._kill:
                    # What was sent before may be on its way, or at the broker.
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.sent == self._freeze:
                    os.kill(os.getpid(), signal.SIGSTOP)
                self.sent += 1
            return await queue(cluster, request, *given)

        RawCluster.queue = mortal  # type: ignore[method-assign, assignment]  # this process does nothing else


def main() -> None:
    job = json.load(sys.stdin)
    tails._PIECE_RECORDS = job.get("piece", tails._PIECE_RECORDS)  # type: ignore[misc]
    mortal = _Mortal(job["kill"], job["freeze"])
    target, flow = ClusterSettings(**job["target"]), FlowSettings(**job["flow"])
    same = Same(job["same"]) if "same" in job else None
    export = export_at(job["manifest"])
    export = export.kept() if job.get("kept") else export
    request = ReplayRequest(export, same, to_quarantine=job.get("quarantine", False))
    try:
        with Replayer(target, flow, request) as replayer, StateTopic(target, flow.source) as state:
            state.load()
            found = replayer.run(replayer.plan(state.records))
        answer: dict[str, Any] = {"results": {str(at): list(r) for at, r in found.items()}}
    except DrkitError as error:
        answer = {"error": {**error.as_dict(), "kind": type(error).__name__}}
    sys.stdout.write(json.dumps({"killed": False, "changes": mortal.sent, **answer}) + "\n")


if __name__ == "__main__":
    main()
