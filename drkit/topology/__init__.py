"""Which topics and groups travel where, and under which name. Pure: no clusters, no clock, no files."""

from drkit.topology.filters import (
    DEFAULT_GROUPS_EXCLUDE,
    DEFAULT_TOPICS_EXCLUDE,
    NameFilter,
    is_internal_topic,
    split_list,
)
from drkit.topology.flows import Route, collision, rings
from drkit.topology.naming import MAX_TOPIC_NAME, IdentityNaming, Naming, PrefixNaming
from drkit.topology.topic_configs import DEFAULT_CONFIG_EXCLUDE, ConfigRules

__all__ = [
    "DEFAULT_CONFIG_EXCLUDE",
    "DEFAULT_GROUPS_EXCLUDE",
    "DEFAULT_TOPICS_EXCLUDE",
    "MAX_TOPIC_NAME",
    "ConfigRules",
    "IdentityNaming",
    "NameFilter",
    "Naming",
    "PrefixNaming",
    "Route",
    "collision",
    "is_internal_topic",
    "rings",
    "split_list",
]
