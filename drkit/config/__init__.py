"""What the user wants: drkit.toml as one settings model."""

from drkit.config.cluster import ClusterSettings
from drkit.config.flow import FlowSettings
from drkit.config.loader import Loaded, load, read
from drkit.config.metrics import MetricsSettings
from drkit.config.repoint import RepointSettings
from drkit.config.settings import DrillSettings, FailoverSettings, Settings

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
