"""A complete drkit.toml with every setting at its default, to copy from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
import json
from textwrap import wrap
from typing import Any, Final

from drkit.config.meanings import definitions

UNITS: Final = {"_seconds": "s", "_ms": "ms", "_bytes": "bytes", "_per_second": "bytes/s"}
"""Ending of a setting's name → its unit."""
_WIDTH: Final = 100
_TOML_HEADER: Final = """\
# Every setting of drkit with its default. Generated: python -m drkit.config.reference
#
# `#name = value` is a default: take the # away to change it. `#name` without a value has no default.
# Clusters and flows are examples; everything else may be left out.
"""
_TOML_TABLES: Final[tuple[tuple[str, str, dict[str, str]], ...]] = (
    ("ClusterSettings", "[clusters.primary]", {"bootstrap_servers": "primary-1:9092, primary-2:9092"}),
    ("ClusterSettings", "[clusters.standby]", {"bootstrap_servers": "standby-1:9092"}),
    ("FlowSettings", "[[flows]]", {"source": "primary", "target": "standby"}),
    ("FailoverSettings", "[failover]", {}),
    ("FenceSettings", "[failover.fence]", {}),
    ("RepointSettings", "[[failover.repoint]]", {"kind": "print"}),
    ("DetectionSettings", "[detection]", {}),
    (
        "ListenerSettings",
        "[[detection.listeners]]",
        {"cluster": "primary", "name": "clients", "bootstrap_servers": "primary-1:9094"},
    ),
    ("WatchSettings", "[watch]", {}),
    ("FenceAgentSettings", "[fence_agent]", {}),
    ("ControlSettings", "[control]", {}),
    ("DrillSettings", "[[drills]]", {"name": "monthly", "kind": "bubble", "cron": "0 6 1 * *"}),
    ("DrillObjectives", "[drills.objectives]", {}),
    ("DrillLimits", "[drills.limits]", {}),
    ("MetricsSettings", "[metrics]", {}),
)
_TABLES_OF_THEIR_OWN: Final = frozenset({"repoint", "listeners", "fence", "objectives", "limits"})


def reference_toml() -> str:
    """The file's text. It loads unchanged, and gives the same settings with every default uncommented."""
    tables = definitions()
    told: set[str] = set()
    parts = [_TOML_HEADER]
    for model, header, examples in _TOML_TABLES:
        schema = tables[model]
        parts += ["", header, *_settings(schema, examples, brief=model in told)]
        told.add(model)
    return "\n".join(parts) + "\n"


def unit(name: str) -> str:
    """The unit of a setting; empty without a unit."""
    return next((unit for ending, unit in reversed(UNITS.items()) if name.endswith(ending)), "")


def _settings(schema: Mapping[str, Any], examples: Mapping[str, str], *, brief: bool) -> Iterator[str]:
    for name, found in schema["properties"].items():
        if name == "alias" or (brief and name not in examples) or name in _TABLES_OF_THEIR_OWN:
            continue
        if not brief:
            text = " ".join(found["description"].replace("``", "`").split())
            yield from (f"# {line}" for line in wrap(text, _WIDTH, break_on_hyphens=False))
        value, empty = found.get("default"), found.get("type") == "object"
        measure = f"  # {unit(name)}" if unit(name) else ""
        if name in examples:
            yield f"{name} = {json.dumps(examples[name])}"
        elif value is None and not empty:
            yield f"#{name}{measure}"
        else:
            # As in JSON: texts, numbers, truth values and lists of texts look the same in TOML.
            yield f"#{name} = {json.dumps(value or {} if empty else value, ensure_ascii=False)}{measure}"
