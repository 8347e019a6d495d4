"""Which topics, groups and ACLs travel where, and under which name.

Naming, filters, flows, the rules for topic plans and ACL plans, and the refusals that follow from names
alone. Pure: no cluster, no clock, no file; how settings are read is not its matter.
"""

from drkit.topology.filters import (
    DEFAULT_GROUPS_EXCLUDE,
    DEFAULT_TOPICS_EXCLUDE,
    NameFilter,
    excluded_groups,
    is_drill_alias,
    is_internal_topic,
    may_copy,
    split_list,
)
from drkit.topology.flows import Ring, Route, collision, copied_twice, rings, shared
from drkit.topology.naming import (
    BUILT_IN_NAMING,
    MAX_TOPIC_NAME,
    IdentityNaming,
    Mm2Topics,
    Naming,
    PrefixNaming,
    broken_promise,
)
from drkit.topology.topic_configs import DEFAULT_CONFIG_EXCLUDE, ConfigRules

__all__ = [
    "BUILT_IN_NAMING",
    "DEFAULT_CONFIG_EXCLUDE",
    "DEFAULT_GROUPS_EXCLUDE",
    "DEFAULT_TOPICS_EXCLUDE",
    "MAX_TOPIC_NAME",
    "ConfigRules",
    "IdentityNaming",
    "Mm2Topics",
    "NameFilter",
    "Naming",
    "PrefixNaming",
    "Ring",
    "Route",
    "broken_promise",
    "collision",
    "copied_twice",
    "excluded_groups",
    "is_drill_alias",
    "is_internal_topic",
    "may_copy",
    "rings",
    "shared",
    "split_list",
]
