"""The request of a person, or of `drkit watch`: options, accepted risks, decisions of a failback. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from drkit.counted import first_of
from drkit.errors import Refused
from drkit.next_command import Placeholder

_NOTHING_SAID: Final[Mapping[str, str]] = MappingProxyType({})


class RunRequest(NamedTuple):
    """The request of a run."""

    planned: bool = False
    """A switchover: demands a proven fence and zero lag."""
    accept_data_loss: str = ""
    """The reason to accept a loss above the budget, or an unknown one."""
    evict_members: bool = False
    """Remove members from groups on the target instead of refusing."""
    keep_positions: bool = False
    """Groups that committed on the target by themselves keep their positions, instead of refusing."""
    despite_signs_of_life: str = ""
    """The reason to give up a primary that is silent here and alive elsewhere."""
    without_quorum: str = ""
    """The reason of a person to decide although too few observers say that the primary is gone."""
    leave_behind: tuple[str, ...] = ()
    """Topics without a copy that a switchover of everything may leave on the old primary."""
    repoint_others: bool = False
    """Send clients that stay to the target, too, where a repoint way reaches more than what moves."""
    clients_cut: str = ""
    """The method of a person to keep clients off the side that becomes passive, where no ACL does it."""
    dispositions: Mapping[str, str] = _NOTHING_SAID
    """Topic of the old primary, or ``*`` → the disposition of the records that only it has."""
    methods: Mapping[str, str] = _NOTHING_SAID
    """Topic, or ``*`` → the method to reconcile the old primary's log."""
    same: str = ""
    """``content`` if a replay treats records of equal content on both sides as the same, else ``none``."""
    reason: str = ""
    """The reason to give up records, or to empty partitions."""
    export_to: str = ""
    """The folder of the export that keeps the old primary's own records before anything is destroyed."""
    export_format: str = ""
    """The format of the export, or empty for Parquet."""
    new_primary: str = ""
    """The cluster id of another cluster that replaces the old primary."""
    evict_readers: bool = False
    """Remove members from groups on the old primary instead of refusing."""
    give_up_history: tuple[str, ...] = ()
    """Topics whose earliest records one side alone still has, and may lose: the old primary in a failback,
    the source in a switchover. Also topics whose first records of clients the new primary has removed."""
    copy_limit: int = 0
    """Bytes of emptied topics that only the new primary may have before the next is emptied, or 0 for any."""
    acls_only_home: str = ""
    """``remove`` or ``keep``, for ACLs that only the side has to which clients return."""
    term: int = 0
    """The least term of the run, or 0: receivers may know a newer one than any journal that is left."""

    def to_json(self) -> dict[str, Any]:
        """Return the request as plain data, for the journal; earlier versions know no `term`."""
        return {k: _plain(v) for k, v in self._asdict().items() if k != "term" or v}

    def plus(self, added: RunRequest) -> RunRequest:
        """Return the request with additions. For one topic, or one option, the later value counts.

        A placeholder does not replace a value.
        """
        changed: dict[str, Any] = {}
        for name, value in added.given().items():
            known = getattr(self, name)
            if isinstance(value, Mapping):
                changed[name] = {**known, **value}
            elif isinstance(value, tuple):
                changed[name] = tuple(dict.fromkeys((*known, *value)))
            elif not (known and isinstance(value, Placeholder)):
                changed[name] = value
        return self._replace(**changed)

    def given(self) -> dict[str, Any]:
        """Return the fields that differ from those of an empty request."""
        return {name: value for name, value in self._asdict().items() if value}

    def options(self) -> tuple[str, ...]:
        """Return the options of the command line that make this request, decisions last."""
        given = self.given()
        names = sorted(given, key=lambda name: _DECISIONS.index(name) if name in _DECISIONS else -1)
        return tuple(word for name in names for word in _words(name, given[name]))

    @property
    def leaves_groups(self) -> bool:
        """Return whether groups may get no position because their coordinator on the target is away."""
        return bool(self.accept_data_loss) and not self.planned

    def gives_up(self, topic: str) -> bool:
        """Return whether the earliest records of a topic may be lost."""
        return not {topic, EVERY_TOPIC}.isdisjoint(self.give_up_history)

    def without_decisions(self) -> RunRequest:
        """Return what a failback needs whatever is decided about records and methods."""
        return RunRequest(**{name: v for name, v in self.given().items() if name not in _DECISIONS})

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> RunRequest:
        """Return the request from the journal's data."""
        known = ((name, value) for name, value in raw.items() if name in cls._fields)
        fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in known}
        return cls(**fields)


_DECISIONS: Final = ("dispositions", "methods", "give_up_history", "same", "copy_limit", "reason")
_NAMES: Final = {"export_format": "format", **{f"{n}s": n for n in ("topic", "disposition", "method")}}


def option_of(field: str) -> str:
    """Return the option of the command line that a field of a request is read from."""
    return f"--{_NAMES.get(field, field).replace('_', '-')}"


def _words(field: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = tuple(f"{topic}={choice}" for topic, choice in value.items())
    for each in value if isinstance(value, tuple) else (value,):
        yield option_of(field)
        if each is not True:
            yield each if isinstance(each, str) else str(each)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


EVERY_TOPIC: Final = "*"
"""Instead of a topic's name: every topic that is not named."""
_SHOWN: Final = 50
"""Names of a list from which a person takes one."""


class Disposition(StrEnum):
    """The fate of records that only the old primary has."""

    DISCARD = "discard"
    """They remain in the export alone."""
    REPLAY = "replay"
    """They are appended to the topic on the new primary."""
    QUARANTINE = "quarantine"
    """They are appended to a topic of their own on the new primary."""


class Method(StrEnum):
    """The method to reconcile a partition's log on the old primary with the new one."""

    DELTA = "delta"
    """Its records stay, and what clients wrote since is copied after them."""
    REBUILD = "rebuild"
    """It is emptied, and everything is copied."""
    TRIM = "trim"
    """It is emptied, and what clients wrote since is copied."""
    KEEP = "keep"
    """Its records stay, and those that only it has are appended to the new primary."""

    @property
    def empties(self) -> bool:
        """Return whether the partition is emptied."""
        return self in {Method.REBUILD, Method.TRIM}


def refuse_unknown(request: RunRequest, topics: Collection[str], flow: str, command: object) -> None:
    """Refuse a choice for a topic that is not among `topics`: it would decide nothing. Raises Refused."""
    named = {*request.dispositions, *request.methods, *request.give_up_history} - {EVERY_TOPIC}
    if unknown := sorted(named - {*topics}):
        raise Refused(
            "choice_of_other_topic",
            where=flow,
            evidence=first_of(unknown, _SHOWN),
            topics=first_of(sorted(topics), _SHOWN),
            command=command,
        )


def choices_among(request: RunRequest, topics: Collection[str]) -> RunRequest:
    """Return the request without choices for topics that are not among these: they would be refused."""
    known = {*topics, EVERY_TOPIC}
    return request._replace(
        dispositions={t: choice for t, choice in request.dispositions.items() if t in known},
        methods={t: choice for t, choice in request.methods.items() if t in known},
        give_up_history=tuple(t for t in request.give_up_history if t in known),
    )


def choice_for(choices: Mapping[str, str], topic: str) -> str | None:
    """Return the choice for a topic, by its name or for every topic, or None without one."""
    return choices.get(topic, choices.get(EVERY_TOPIC))
