"""A test's flow as a user has it: known by its state on the target, and by a file with settings."""

from __future__ import annotations

from pathlib import Path

from drkit.flow_state.records import GenerationRecord, ProducerIdsRecord
from drkit.flow_state.topic import StateTopic
from tests.support.flows.flow import Flow
from tests.support.stored import put as put_record


def remember(flow: Flow, *topics: str) -> None:
    """Put into the flow's state on the target what `drkit replicate` puts there."""
    with StateTopic(flow.target, flow.source.alias) as state:
        put_record(state, ProducerIdsRecord.KEY, {"current": list(flow.producer), "all": [flow.producer.id]})
        for topic in topics:
            ids = [str(flow.topic(side, topic).topic_id) for side in (flow.source, flow.target)]
            put_record(
                state,
                GenerationRecord.key(topic),
                {"target": topic, "source_id": ids[0], "target_id": ids[1]},
            )


def write_settings(flow: Flow, folder: Path) -> Path:
    """A configuration with this one flow."""
    path = folder / "drkit.toml"
    sides = (flow.source, flow.target)
    clusters = [f'[clusters.{c.alias}]\nbootstrap_servers = "{c.bootstrap_servers}"\n' for c in sides]
    path.write_text(
        "".join(clusters) + f'[[flows]]\nsource = "{flow.source.alias}"\ntarget = "{flow.target.alias}"\n'
    )
    return path
