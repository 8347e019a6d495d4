"""Errors of local clusters and of the demo."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

_JAVA: Final = "install Java 17 or newer (a package such as openjdk-17-jre-headless), or set JAVA_HOME to one"
ERRORS: Final[dict[str, Entry]] = {
    "broker_does_not_end": failed("a broker did not stop"),
    "broker_ended": failed("a broker ended while it started", hint="its logs: {folder}"),
    "broker_not_launched": failed("a broker could not be launched"),
    "broker_not_ready": failed("a broker did not become ready in time", hint="its logs: {folder}"),
    "broker_running": failed("this broker is already running"),
    "cache_shared": failed(
        "other users may write to drkit's cache, so no code is kept in it",
        hint="chmod go-w that folder and those above it, or set DRKIT_CACHE to a folder of this user alone",
    ),
    "certificate_not_made": failed("a certificate could not be created"),
    "config_not_ours": wrong(
        "the configuration file was not written by `drkit local up`",
        hint="write another one with --write FILE, then use it with --config FILE",
    ),
    "demo_copy_differs": failed("the copy differs from its source"),
    "demo_drill_failed": failed("the drill did not pass"),
    "demo_failback_failed": failed("the failback did not complete"),
    "demo_failback_uneven": failed("the record counts after the failback do not match"),
    "demo_failover_failed": failed("the failover did not complete"),
    "demo_group_not_exact": failed("the group did not receive exactly the remaining records on the standby"),
    "demo_kept_primary": failed("--keep does not stop the primary"),
    "demo_no_answer": failed("a command of the demo did not answer"),
    "demo_no_order_copied": failed("no order reached the standby while drkit kept up"),
    "demo_orders_refused": failed("the primary rejects the demo's orders"),
    "demo_pair_runs": refused(
        "a local pair is already running",
        hint="{drkit:local down}, then {drkit:demo --keep} again; or plain {drkit:demo}",
    ),
    "demo_payments_missing": failed("the group did not receive its payments"),
    "demo_records_differ": failed("a consumer sees different records on the standby"),
    "demo_replicate_ended": failed("drkit replicate ended unexpectedly"),
    "demo_shop_not_written": failed("the demo's shop could not write to the primary"),
    "demo_switchover_failed": failed("the switchover did not complete"),
    "demo_switchover_uneven": failed("the record counts after both switchovers do not match"),
    "demo_waited_in_vain": failed(
        "the demo timed out after {seconds:.0f} s: {note}",
        hint="a busy machine? write less: {drkit:demo --rate 300}; the same again: please report it",
    ),
    "folders_not_ours": refused(
        "`drkit local up` did not create these folders, so nothing was deleted",
        hint="name another folder with --folder, or remove them yourself",
    ),
    "format_does_not_end": failed("formatting a broker's storage timed out"),
    "format_failed": failed("a broker's storage could not be formatted"),
    "jar_changed": failed(
        "a downloaded jar differs from the first download",
        hint="find out which is right; then remove the cache folder (DRKIT_CACHE) and try again",
    ),
    "jar_not_pinned": failed(
        "a downloaded jar differs from the tested one",
        hint=("do not use it; see whether DRKIT_IVY_SETTINGS names a repository that can be trusted"),
    ),
    "jars_not_fetched": failed(
        "Kafka's jars could not be fetched",
        hint=("check the network, or name a mirror in an Ivy settings file with DRKIT_IVY_SETTINGS=FILE"),
    ),
    "java_does_not_start": wrong("Java does not start", hint=_JAVA),
    "java_too_old": wrong("this Java is too old for Kafka's brokers", hint=_JAVA),
    "java_without_version": wrong("this Java reports no version", hint=_JAVA),
    "keytool_missing": failed("keytool cannot be run"),
    "listener_unknown": wrong("the listener does not exist", hint="there are: {listeners}"),
    "local_pair_incomplete": refused(
        "a process of the local pair has ended", hint="{drkit:local down}, then up again"
    ),
    "local_state_unreadable": failed(
        "the state of the local pair cannot be read",
        hint="end its brokers by hand (java ... kafka.Kafka), then remove the file",
    ),
    "no_certificates": failed("a cluster without TLS has no certificates"),
    "lock_unusable": failed(
        "a lock file cannot be opened", hint="remove it if it is a link; this user must be able to write it"
    ),
    "no_class_archive": failed("no class archive was written"),
    "no_java": wrong("local clusters need Java, and none was found", hint=_JAVA),
    "no_link": wrong("no link in front of this role"),
    "no_local_pair": refused("this folder has no local pair", hint="{drkit:local up}"),
    "pyspark_missing_for_jars": wrong(
        "pyspark is not installed, and its Ivy fetches Kafka's jars", hint="pip install pyspark"
    ),
    "start_given_up": failed("the start was cancelled"),
}
