"""What the user wants: drkit.toml, or MirrorMaker 2's file, as one settings model.

`loader` turns a file into settings or into one error that names every problem; `changes` says what a
changed file means for flows that run; `reference` writes the reference pages. Nothing here talks to a
cluster.
"""

from drkit.config.loader import Loaded, load, read
from drkit.config.tables.cluster import ClusterSettings
from drkit.config.tables.drills import DrillSettings
from drkit.config.tables.flow import FlowSettings
from drkit.config.tables.metrics import MetricsSettings
from drkit.config.tables.repoint import RepointSettings
from drkit.config.tables.settings import FailoverSettings, Settings

__all__ = [
    "ClusterSettings",
    "DrillSettings",
    "FailoverSettings",
    "FlowSettings",
    "Loaded",
    "MetricsSettings",
    "RepointSettings",
    "Settings",
    "load",
    "read",
]
