"""Where metrics, health check and live page are served."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from drkit.config.tables.fields import Strict

OWN_LABELS: Final = frozenset({
    "source", "target", "topic", "partition", "group", "kind", "fault", "state", "verdict", "reason",
    "drill",
})  # fmt: skip
"""Labels of drkit's own metrics; fixed labels must have other names."""
_NAME: Final = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
_LabelName = Annotated[str, Field(pattern=_NAME)]


def _free(labels: dict[str, str]) -> dict[str, str]:
    for name in labels:
        if name in OWN_LABELS or name.startswith("__"):
            text = "the label '{name}' is taken: drkit's metrics or Prometheus have one of that name"
            raise PydanticCustomError("label", text, {"name": name})
    return labels


class MetricsSettings(Strict):
    """Where `drkit replicate` serves ``/metrics``, ``/healthz`` and the live page. All are read-only."""

    port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """The port; 0 takes any free one, and the event ``page`` tells which. Absent: nothing is served."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """On which address; ``0.0.0.0`` opens it to other machines. The page names topics and groups."""
    labels: Annotated[dict[_LabelName, str], AfterValidator(_free)] = Field(default_factory=dict)
    """Fixed labels of every metric, as in ``env = "production"``."""
