"""The least, the most and the mean of a repeated measurement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class MinMaxMean:
    """Keeps no values, so it may see millions."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, value: int) -> None:
        """Add a value; one below zero (another clock is ahead of this one) counts as zero."""
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
