"""Times of a cron expression in a time zone, by the rules of Debian's cron. Pure.

A job at fixed hours whose time a change of the clocks skips runs right after the gap, and runs once when
its time occurs twice. A job whose minute or hour begins with ``*`` runs by the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
import re
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_PORTABLE: Final = re.compile(r"[0-9A-Za-z*,/\-]+")
"""`#` and `L` are extensions that neither Debian's cron nor Kubernetes has."""
_ANY_DAY: Final = datetime(2001, 1, 1, tzinfo=UTC)
_FIELDS: Final = ("minute", "hour", "day of month", "month", "day of week")


class InvalidCron(ValueError):
    """A text is no cron expression, or one that is never due; the message says which field is wrong."""


class Cron:
    """A cron expression of five fields: minute, hour, day of month, month, day of week (0 and 7: Sunday).

    :raises InvalidCron: it is not valid, or never due
    """

    def __init__(self, expression: str) -> None:
        self.fields = tuple(expression.split())
        if len(self.fields) != len(_FIELDS):
            raise InvalidCron("must be five fields: minute, hour, day of month, month, day of week")
        for number, field in enumerate(self.fields):
            if problem := _problem(number, field):
                raise InvalidCron(problem)
        self.expression = " ".join(self.fields)
        try:
            found = CronSim(self.expression, _ANY_DAY)
            next(found)
        except (CronSimError, StopIteration):
            text = f"'{self.expression}' is never due: no such month has day {self.fields[2]}"
            raise InvalidCron(text) from None
        self.minutes, self.hours = sorted(found.minutes), sorted(found.hours)
        self.days, self.months = sorted(found.days), sorted(found.months)
        self.weekdays = sorted({number % 7 for number in found.weekdays if isinstance(number, int)})
        """From 0, Sunday, to 6."""
        self.needs_both_days = found.day_and
        """Whether day of month and day of week must both fit: one begins with ``*``."""

    def after(self, moment: datetime, zone: tzinfo) -> Iterator[datetime]:
        """Return all due times after a moment, in UTC and in order.

        :param moment: with a time zone; due times are later
        :param zone: in which the fields are read
        """
        last = moment
        for local in CronSim(self.expression, moment.astimezone(zone)):
            # In a repeated hour the library begins with its first pass; after a gap it may repeat a time.
            if (due := local.astimezone(UTC)) > last:
                last = due
                yield due


def time_zone(name: str) -> ZoneInfo:
    """Return the time zone of a name of the IANA database, as ``Europe/Berlin``.

    :raises ValueError: there is none
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"there is no time zone '{name}'") from error


def _problem(number: int, field: str) -> str:
    """Return what is wrong with one field, tried by itself; empty: nothing."""
    alone = ["*"] * len(_FIELDS)
    alone[number] = field
    is_valid = _PORTABLE.fullmatch(field) is not None and "L" not in field.upper().replace("JUL", "")
    try:
        CronSim(" ".join(alone), _ANY_DAY)
    except CronSimError:
        is_valid = False
    return "" if is_valid else f"'{field}' is no {_FIELDS[number]}"
