"""Errors of the command line."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "acls_only_home_without_planned": wrong(
        "--acls-only-home needs --planned", hint="{drkit:failover --all --planned}, with --acls-only-home"
    ),
    "checkpoint_destination_missing": wrong(
        "name a folder for the new checkpoint", hint="--out DIR2, or --dry-run"
    ),
    "choice_contradicts": wrong("{option} names one topic twice", hint="name each topic once"),
    "choice_malformed": wrong(
        "{option} needs TOPIC={kind}", hint="{option} orders={example}, or '*={example}' for every topic"
    ),
    "clients_cut_without_planned": wrong(
        "--clients-cut needs --planned",
        hint=(
            "{drkit:failover --all --planned}; of a switchover that is done: {drkit:reprotect "
            '--clients-cut "HOW"}'
        ),
    ),
    "clients_elsewhere": refused(
        "clients are already on {cluster}",
        hint="drkit failover moves them; to repoint them all the same: {drkit:--term {term}}",
    ),
    "clients_not_repointed": failed("not all clients were repointed"),
    "cluster_stopped_answering": failed(
        "a cluster stopped answering", hint="check the cluster: {drkit:config check --connect}"
    ),
    "command_unknown": wrong("no such command '{name}'"),
    "config_file_exists": wrong(
        "the file exists and is not overwritten", hint="name another one: {drkit:config init FILE}"
    ),
    "config_file_unwritable": wrong(
        "the file cannot be written", hint="name another one: {drkit:config init FILE}"
    ),
    "drill_id_missing": wrong(
        "the id of a drill is missing",
        hint="all ids: {drkit:drill history}; a file: {drkit:drill report --check FILE}",
    ),
    "drill_name_and_kind": wrong(
        "name either a configured drill or a kind",
        hint="{drkit:drill run NAME}, or {drkit:drill run --kind readiness}",
    ),
    "drill_never_ran": wrong("drill '{name}' has not run yet"),
    "drill_unknown": wrong(
        "there is no drill '{name}'", hint="{known}; without a table: {drkit:drill run --kind readiness}"
    ),
    "explain_kind_unknown": wrong("no kind of names is called '{kind}'", hint="known: {known}"),
    "failback_under_way": wrong(
        "a failback is in progress",
        hint=(
            "{command} --resume ends it, and the hold when it is protected; or roll back first: "
            "{command} --abort"
        ),
    ),
    "failover_scope_missing": wrong(
        "choose exactly one of --group or --topic, --all, --resume, --abort",
        hint="{drkit:failover --group G}, or --topic T, or --all, or --resume, or --abort",
    ),
    "file_missing": wrong("the file does not exist", hint="name the JSON file of a report"),
    "flow_never_ran": refused(
        "this flow has not copied anything yet",
        hint="name the flow whose old primary the export is of, with --flow",
        page="replay-wrong-place",
    ),
    "give_up_excludes": wrong(
        "--give-up cannot be combined with options of a replay",
        hint="leave out --dry-run, --to-quarantine, --same and --sha256",
    ),
    "group_or_offset": wrong(
        "name either a group or an offset",
        hint="{drkit:translate --group G}, or --topic T --partition P --offset N",
    ),
    "group_without_offsets_in_flow": wrong("group {group} has no committed offset in a copied topic"),
    "keep_and_drill": wrong(
        "--keep and --drill cannot be combined",
        hint="leave out --keep: the demo of a drill stops its clusters",
    ),
    "key_not_writable": wrong(
        "the key cannot be written", hint="name a file that does not exist yet, in a folder that exists"
    ),
    "key_refused": wrong("{reason}", hint="keep it on another file system"),
    "no_drill_configured": wrong(
        "no drill is configured",
        hint='add a table: [[drills]] name = "daily", kind = "translation", cron = "0 6 * * *"',
    ),
    "no_fence_configured": wrong(
        "no fence command is configured",
        hint='set it, as in command = ["systemctl", "kill", "--signal=KILL", "kafka"]',
    ),
    "no_repoint_configured": wrong(
        "no endpoint to update is configured",
        hint=('set repoint = [ {{ kind = "file", path = "/etc/app/kafka-endpoint.json" }} ] in [failover]'),
    ),
    "no_terminal": wrong("a confirmation is needed, and there is no terminal: {without}"),
    "not_a_failback_run": wrong("the run in progress is a failover, not a failback"),
    "not_confirmed": wrong("not confirmed: nothing was changed", hint="answer y, or add --yes"),
    "nothing_to_explain": wrong(
        "nothing explains '{asked}'", hint="{suggestion}all names: {drkit:explain --list}"
    ),
    "once_and_standby": wrong(
        "--once and --standby cannot be combined",
        hint="--once ends by itself, a standby waits: leave one of them out",
    ),
    "option_of_switchover_drill": wrong("--{option} needs a drill of kind switchover", hint="leave it out"),
    "options_conflict": wrong("{conflict}", hint="{place} --help"),
    "options_misplaced": wrong(
        "these options do not belong to this command",
        hint="put its options after its name: {drkit:translate spark-checkpoint --help}",
    ),
    "quiet_without_dry_run": wrong(
        "--quiet needs --dry-run", hint="{drkit:failover --all --dry-run --quiet}"
    ),
    "records_not_writable": failed("the records cannot be written"),
    "records_option_misplaced": wrong(
        "--records does not belong to {command_path} {invoked_subcommand}",
        hint="leave it out: {command_path} {invoked_subcommand} --help",
    ),
    "report_altered": failed(
        "the report differs from what the drill wrote",
        hint="use the file in the drill folder: {drkit:drill history}",
    ),
    "report_folder_missing": wrong("the folder of this file does not exist"),
    "report_paths_equal": wrong("--html and --report name the same file", hint="choose two names"),
    "scenario_missing": wrong(
        "name a scenario, or use --all",
        hint="{drkit:chaos run primary-killed}; all scenarios: {drkit:chaos list}",
    ),
    "several_flows_match": wrong("{count} flows {several}: choose one with --flow"),
    "shell_unknown": wrong("no completion for shell {shell}", hint="update click"),
    "shipped_file_unknown": wrong("no shipped file is called '{name}'"),
    "shipped_file_unwritable": failed(
        "the file cannot be written", hint="correct the permissions, or name another folder"
    ),
    "shipped_files_differ": refused(
        "{count} of {total} files exist with other content",
        hint="name another folder, or add --force to overwrite them",
    ),
    "size_malformed": wrong(
        "{option} needs a size",
        hint="{option} 50GiB, 800MB or a number of bytes; with 1 each topic goes alone",
    ),
    "system_refused": failed(
        "the operating system refused an operation",
        hint="name another path, or clear the reason, then run the command again",
    ),
    "target_answers": wrong(
        "{target} answers, so it is not lost and its journal decides",
        hint="{drkit:failover --abort} without --target-lost; or see: {drkit:status}",
    ),
    "target_lost_without_abort": wrong(
        "--target-lost needs --abort", hint='{drkit:failover --abort --target-lost "HOW YOU KNOW"}'
    ),
    "unexpected_error": failed("unexpected {kind}: {error}"),
    "usage_wrong": wrong("{problem}", hint="{path} --help"),
}
