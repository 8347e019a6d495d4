"""Errors of Spark."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "checkpoint_job_died": failed("the checkpoint job died"),
    "class_training_died": failed("the training job died"),
    "copy_job_died": failed("the copy job died"),
    "export_broke_off": failed("the export was interrupted"),
    "export_read_back_broke_off": failed("reading back the export was interrupted"),
    "job_refused": failed("{reason}"),
    "jobs_cancelled": failed("the jobs were cancelled"),
    "jvm_not_ours": failed("another process started Spark's JVM"),
    "jvm_not_started": failed("Spark's JVM did not start"),
    "pyspark_missing": failed("pyspark is not installed", hint="install drkit again: it depends on pyspark"),
    "spark_application_ended": failed(
        "Spark's master ended this application",
        hint=(
            "the log of an executor on the master's web page has the reason; can workers reach "
            "that address? --conf spark.driver.host=… names another"
        ),
    ),
    "spark_does_not_start": wrong(
        "Spark did not start", hint="check --master and --conf; Spark needs Java 17 or 21"
    ),
    "spark_file_malformed": wrong("{problem}", hint="write a backslash twice"),
    "spark_gone": failed("Spark has ended"),
    "spark_image_missing": wrong(
        "Kubernetes needs an image for Spark's executors",
        hint=("--conf spark.kubernetes.container.image=… with Spark, this Python and what drkit depends on"),
    ),
    "spark_java_missing": wrong("Spark needs Java 17 or newer, and it was not found"),
    "spark_master_malformed": wrong(
        "'{url}' is not a valid Spark master URL",
        hint="write local[N], spark://HOST:PORT[,HOST:PORT], k8s://https://HOST:PORT, yarn",
    ),
    "spark_master_silent": failed(
        "Spark's master does not answer",
        hint=("check --master: the master's log and its web page name its URL; is the port open from here?"),
    ),
    "spark_no_slot": refused(
        "Spark has no free slot",
        hint=(
            "the master's web page shows its workers, their free cores and memory; can workers "
            "reach that address? --conf spark.driver.host=… names another"
        ),
    ),
    "spark_python_set": wrong("local tasks always use drkit's own Python"),
    "spark_secrets_in_clear": refused(
        "passwords and keys would reach Spark's executors unencrypted",
        hint=(
            "put the cluster's spark.authenticate.secret into a file and name it with "
            "--spark-properties, see {drkit:explain spark-cluster}"
        ),
    ),
    "spark_setting_owned": wrong("'{key}' is set by drkit: {owned}", hint="leave it out"),
    "spark_setting_unknown": wrong("'{key}' is not a setting of Spark"),
    "spark_settings_unreadable": wrong(
        "Spark's settings cannot be read",
        hint="--spark-properties names a file in Java's properties format, as spark-defaults.conf",
    ),
    "spark_slots_missing": refused(
        "Spark has too few slots: each copy task needs one permanently",
        hint="give Spark {tasks} cores, or lower `tasks` of the flows",
    ),
    "spark_start_interrupted": failed("Spark's start was interrupted"),
    "spark_workers_unusable": failed("Spark's workers cannot run a task"),
    "warm_job_died": failed("the job that prepares Spark's workers died"),
    "worker_cannot_load_drkit": wrong("drkit's code cannot be loaded on a Spark worker"),
    "worker_lacks_packages": wrong("a Spark worker lacks what drkit needs"),
    "worker_other_drkit": wrong("a Spark worker loads another drkit than the one that was sent to it"),
    "worker_other_packages": wrong("a Spark worker has other versions of what drkit needs"),
    "worker_other_python": wrong("a Spark worker runs another Python than drkit"),
    "worker_without_pyspark": wrong("Python finds no pyspark on a Spark worker"),
    "worker_without_python": wrong("a Spark worker has no Python of this name"),
}
