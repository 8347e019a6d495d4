"""Errors of chaos scenarios and drills."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "broker_still_running": failed("a broker is still running"),
    "chaos_command_failed": failed("a drkit command ended with {error_code}", hint="expected: {expect}"),
    "chaos_commit_refused": failed("a commit was refused"),
    "chaos_folder_unwritable": refused(
        "the history cannot be written", hint="check the space and the rights there, then run it again"
    ),
    "chaos_not_installed": wrong(
        "the packages for chaos scenarios are not installed",
        hint="pip install 'chaostoolkit-lib>=1.44,<1.45' 'pyyaml>=6,<7'",
    ),
    "chaos_run_under_way": refused(
        "another chaos run is in progress", hint="wait for it, or give --folder another folder"
    ),
    "chaos_waited_in_vain": failed("timed out after {seconds:.0f} s waiting for {what}"),
    "child_not_ended": failed("a child process did not end"),
    "child_not_started": failed("a process of the scenario did not start"),
    "cron_differs_in_kubernetes": refused(
        "Kubernetes interprets this cron expression differently",
        hint="write the days as lists, with the other field as '*'; or run {drkit:drill schedule}",
    ),
    "drill_aborted": failed("{reason}"),
    "drill_cleanup_owed": refused(
        "an earlier drill was not cleaned up",
        hint=("delete what it names, or bring back the cluster that does not answer: {drkit:drill cleanup}"),
    ),
    "drill_cleanup_unrecorded": failed(
        "the drill owes its cleanup, and this machine cannot keep its history",
        hint="make room there, then: {drkit:drill cleanup --flow '{flow}'}",
        page="drill-cleanup-owed",
    ),
    "drill_control_refused": failed("a control of the drill cannot be written"),
    "drill_due_time_taken": refused(
        "another process already handled this scheduled time",
        hint="another scheduler runs the same drills: {drkit:drill history}",
    ),
    "drill_failover_not_done": failed("the bubble's failover did not complete"),
    "drill_flow_missing": failed("the flow of this drill is not configured"),
    "drill_history_unwritable": failed(
        "this machine cannot keep the history of drills", hint="make room there, then repeat the command"
    ),
    "drill_id_unknown": wrong(
        "no drill has the id {drill_id}", hint="{suggestion}all ids: {drkit:drill history}"
    ),
    "drill_leftover": refused(
        "a {kind} of a drill already exists", hint="delete it if no other drill of this flow runs"
    ),
    "drill_list_refused": refused(
        "drkit cannot list topics and groups of {side}",
        hint="give drkit the right to describe them: {drkit:config check --connect}",
    ),
    "drill_lock_held": refused("another drill is running", hint="wait until it ends: {drkit:drill history}"),
    "drill_no_room": refused(
        "the standby has no room for the records of a drill",
        hint="free its disk, or lower limits.bytes_per_second or limits.seconds of the drill",
    ),
    "drill_records_refused": failed("the first records of the drill are refused"),
    "drill_report_elsewhere": failed(
        "the report of this drill is not on this machine",
        hint="an unfinished one is still running, or its process was killed: {drkit:drill history}",
    ),
    "drill_running": refused("a drill of this flow is running", hint="wait for its end"),
    "drill_step_refused": failed("the operating system refused a step of the drill"),
    "drill_time_limit": failed("the drill exceeded its time limit"),
    "drill_topics_not_deleted": refused(
        "the topics of a drill could not be deleted",
        hint="set it to true, or rehearse with the kinds readiness and translation",
    ),
    "drill_under_way": refused(
        "another drill of this flow is in progress", hint="wait until it ends: {drkit:drill history}"
    ),
    "failovers_paused": refused("failovers are paused", page="failover-paused"),
    "fault_not_in_force": wrong("fault '{name}' is not active", hint="a fault of an instant has no end"),
    "fault_on_same_target": wrong("the {target} has a fault already", hint="end that fault first"),
    "link_not_slow": failed("the link is not slow"),
    "link_still_connects": failed("the link still accepts connections"),
    "no_exported_file": failed("the export has no file"),
    "no_journal_entry_in_time": failed("a command wrote no journal entry in time"),
    "no_orchestrator_running": failed("no failover process is running"),
    "no_scenario_running": failed(
        "no scenario is running",
        hint=("its steady-state hypothesis needs the probe drkit.chaos.probes.holds, which begins it"),
    ),
    "not_a_drill_report": failed("this file is not a drill report"),
    "not_protected": refused(
        "production is not PROTECTED", hint="{drkit:status --flow '{flow}'} shows the reason"
    ),
    "other_run_moved_production": failed("another run moved production"),
    "process_stopped": failed("the process was asked to stop"),
    "process_stopped_before_switchover": failed("the process was asked to stop before the switchover"),
    "production_not_at_home": refused(
        "production does not run on its original cluster", hint="{drkit:failback --flow '{flow}'}"
    ),
    "replicator_not_stopped": failed("the replicator is not stopped"),
    "reverse_flow_leaves_out": refused(
        "topics or topics_exclude of {flow_back} leave out topics that would move",
        hint="let {flow_back} copy them, or leave them out of {flow}, too",
    ),
    "reverse_replicator_missing": refused(
        "a switchover drill needs a running replicator of the opposite flow",
        hint="start it: {drkit:replicate --flow '{flow}'}",
    ),
    "scenario_not_an_experiment": wrong("the file is not an experiment of Chaos Toolkit"),
    "scenario_not_yaml": wrong("the file is not YAML"),
    "scenario_unknown": wrong(
        "there is no scenario '{name}'", hint="{suggestion}all scenarios: {drkit:chaos list}"
    ),
    "scenario_unreadable": wrong("the scenario file cannot be read", hint="shipped ones: {drkit:chaos list}"),
    "trigger_never_fired": failed(
        "the command ended, and wrote no entry {entries}",
        hint="the entries of its run are in history.jsonl, as journal events",
    ),
}
