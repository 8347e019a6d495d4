"""A copy task that runs beside its test."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from drkit.copy_task import copier
from drkit.copy_task.core.assignment import TaskAssignment
from drkit.flow_state.records import ControlRecord
from drkit.flow_state.topic import StateTopic
from tests.support.flows.flow import Flow


@contextmanager
def copying(flow: Flow, lease: TaskAssignment) -> Iterator[None]:
    """A copy task in this process, whose connections to the clusters stay from epoch to epoch."""
    with ThreadPoolExecutor(1) as pool, StateTopic(flow.target, flow.source.alias) as state:
        task = pool.submit(copier.copy_task, lease, flow.source, flow.target, flow.settings)
        try:
            yield
        finally:
            state.put(ControlRecord(lease.run_id, 0, "stop"))
        assert task.result(60).ended == "stop"
