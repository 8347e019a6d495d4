"""Errors of the configuration and of clients that follow the endpoint."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, wrong

ERRORS: Final[dict[str, Entry]] = {
    "automatic_without_control_key": wrong(
        "mode auto needs a control key",
        hint=(
            "{drkit:control create PATH}, the same file on every host; set key_file in [control]; "
            "for a pair that ran without one, stop its fence agents first: {drkit:control adopt}"
        ),
    ),
    "client_property_wrong": wrong("{key}: {problem}"),
    "cluster_unknown": wrong("there is no cluster '{alias}'"),
    "config_empty": wrong(
        "the configuration is empty", hint="{drkit:config init FILE} writes one to begin with"
    ),
    "config_missing": wrong(
        "the configuration file does not exist",
        hint="correct {source}; {drkit:config init FILE} writes one to begin with",
    ),
    "config_not_given": wrong(
        "no configuration file was found",
        hint=("name a file with --config FILE, or begin with {drkit:config init}; without one: {drkit:demo}"),
    ),
    "config_not_properties": wrong(
        "the configuration is not a valid properties file",
        hint="write \\uXXXX with four hexadecimal digits, and a backslash itself as \\\\",
    ),
    "config_not_toml": wrong(
        "the configuration is not valid TOML",
        hint="correct that line; the file of a MirrorMaker 2 must be called *.properties",
    ),
    "config_problem": wrong("{problem}"),
    "config_problems": wrong("the configuration has {count} problems"),
    "config_unreadable": wrong(
        "the configuration cannot be read", hint="name a file that this user may read, saved as UTF-8"
    ),
    "flow_unknown": wrong("there is no flow '{name}'"),
    "no_endpoint": wrong(
        "the client has no endpoint to connect to",
        hint="write the endpoint file with: {drkit:repoint apply --to CLUSTER}",
    ),
    "no_flow_configured": wrong(
        "there is no flow", hint="add a [[flows]] table (in MirrorMaker 2's file: A->B.enabled = true)"
    ),
    "secret_argument": wrong(
        "'{key}' is a secret, and process arguments are visible to all users",
        hint=(
            "write it into a file that only drkit reads: the configuration reads it with "
            "${{file:PATH}}, Spark with --spark-properties FILE"
        ),
    ),
    "settings_disagree": wrong("{problem}"),
    "several_flows": wrong("there are {count} flows: choose one with --flow"),
}
