"""Minimum, maximum and mean of repeated measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class MinMaxMean:
    """Minimum, maximum and mean of values that are not stored, so their number is not limited."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, value: int) -> None:
        """Take a value; a negative one (a clock ahead of this machine's) counts as zero."""
        value = max(0, value)
        self.least = value if self.count == 0 else min(self.least, value)
        self.most = max(self.most, value)
        self.count += 1
        self.total += value

    def as_dict(self) -> dict[str, int]:
        """The figures by name."""
        return {"count": self.count, "total": self.total, "least": self.least, "most": self.most}

    @property
    def mean(self) -> float:
        """The mean; 0 without values."""
        return self.total / self.count if self.count else 0.0
