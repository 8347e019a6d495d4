"""The base of all records of a flow's state: a key, and bytes that are read strictly. Pure."""

from __future__ import annotations

import json
from typing import ClassVar, Self

from drkit.flow_state.codec.body import Body
from drkit.flow_state.codec.fields import Fields, Malformed, topic_name


class StateRecord(Body):
    """One record. Subclasses are frozen dataclasses, one for each kind of key.

    A kind whose :attr:`KEY` ends with a slash has one record for each name after it.
    """

    __slots__ = ()
    KEY: ClassVar[str]
    REQUIRED: ClassVar[bool] = True
    """Without it drkit would act wrongly: a damaged one is refused. False: it is written again and again, so
    a damaged one counts as missing until then."""

    @classmethod
    def key(cls, name: str = "") -> str:
        """The record's key in the state topic.

        :param name: empty for a kind with a single record
        """
        return f"{cls.KEY}{name}"

    @classmethod
    def check_name(cls, name: str) -> None:
        """Raise Malformed where no record of this kind has such a name in its key."""
        if name:
            raise Malformed("a single record has no name")

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """The record in these bytes.

        :raises Malformed: this drkit has not written them
        """
        return cls.read(Fields.parse(value))

    def encode(self) -> bytes:
        """The record as bytes."""
        return json.dumps(self.to_json()).encode()


class TopicRecord(StateRecord):
    """A record with a source topic's name in its key."""

    __slots__ = ()

    @classmethod
    def check_name(cls, name: str) -> None:
        """See :class:`StateRecord`."""
        topic_name(name)
