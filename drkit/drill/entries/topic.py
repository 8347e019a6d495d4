"""The compacted topic on the target with the entries of a flow's drills, so that any machine knows them."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from pydantic import ValidationError

from drkit.config import ClusterSettings
from drkit.control_key import signed
from drkit.drill.entry import DrillEntry
from drkit.errors import Failed
from drkit.flow_state.creation import ensure_compacted
from drkit.flow_state.names import drills_topic
from drkit.flow_state.topic_clients import state_producer
from drkit.kafka.admin import Cluster
from drkit.kafka.clients import KafkaError
from drkit.kafka.reading.compacted import NewestValues, newest_values

_WRITE_SECONDS: Final = 30.0


class DrillTopic:
    """The entries of a flow's drills on its target.

    :param source: alias of production's source
    """

    def __init__(self, target: ClusterSettings, source: str) -> None:
        self.name = drills_topic(source, target.alias)
        self._target = target
        self._exists = False

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster.connect(self._target)

    def load(self) -> list[DrillEntry]:
        """Return the entries.

        :raises DrkitError: the topic cannot be read, or holds what this drkit does not understand
        """
        values = newest_values(self._cluster, [self.name], verified=True).get(self.name, NewestValues())
        try:
            return [DrillEntry.model_validate_json(value) for value in values.values()]
        except ValidationError as error:
            raise Failed(
                "the topic of drills holds a record that this drkit does not understand",
                where=f"{self.name} on {self._target.alias}",
                evidence=str(error).splitlines()[1],
                hint="use the drkit that wrote it, or a newer one",
            ) from error

    def put(self, entry: DrillEntry) -> None:
        """Write an entry, durably; the topic is created when it is missing.

        :raises DrkitError: it was not accepted
        """
        if not self._exists:
            ensure_compacted(self._cluster, self.name)
            self._exists = True
        key, value = entry.key.encode(), entry.model_dump_json().encode()
        errors: list[KafkaError | None] = []
        producer = state_producer(self._target)
        producer.produce(
            self.name,
            value,
            key,
            partition=0,
            headers=signed(self._target.control, self.name, key, value),
            on_delivery=lambda error, _: errors.append(error),
        )
        producer.flush(_WRITE_SECONDS)
        if errors != [None]:
            raise Failed(
                "the entry of the drill cannot be written",
                where=f"{self.name} on {self._target.alias}",
                evidence=str(errors[0]) if errors else f"no answer in {_WRITE_SECONDS:.0f} s",
                hint="check in-sync replicas of the target and drkit's permission to write there",
            )
