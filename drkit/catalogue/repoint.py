"""Errors of repointing clients."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "certificate_untrusted": failed(
        "the server's certificate is not trusted, or its TLS version differs",
        hint="name its authority in PEM with ca_file, or in the kubeconfig",
    ),
    "configmap_conflict": failed("another client changed the ConfigMap"),
    "configmap_foreign": failed(
        "the ConfigMap contains other data",
        hint="nothing was changed: name another key in [failover] repoint",
    ),
    "configmap_refused": failed("the ConfigMap cannot be {done}"),
    "endpoint_file_foreign": failed(
        "the endpoint file contains other data",
        hint="nothing was changed: move that file away, or correct path in [failover] repoint",
    ),
    "endpoint_file_irregular": failed(
        "the endpoint file is not a regular file", hint="correct path in [failover] repoint"
    ),
    "endpoint_file_locked": failed(
        "another process writes the endpoint file", hint="find it with: {lock_of}"
    ),
    "endpoint_file_unreadable": failed("the endpoint file cannot be read", hint="let drkit's user read it"),
    "endpoint_file_unwritable": failed(
        "the endpoint file cannot be written", hint="create the folder, and let drkit's user write into it"
    ),
    "endpoint_folder_missing": failed(
        "the endpoint file's folder does not exist",
        hint="create the folder, and let drkit's user write into it",
    ),
    "kubeconfig_unusable": wrong("the kubeconfig cannot be used"),
    "no_answer": failed("no answer", hint="start the receiver, or correct its url"),
    "no_kubernetes": wrong(
        "no Kubernetes API server is configured",
        hint='name one: {{ kind = "configmap", name = "...", kubeconfig = "/path" }}',
    ),
    "not_kubernetes": failed(
        "this is not a Kubernetes API server", hint="correct the server in the kubeconfig"
    ),
    "older_term": refused(
        "clients already follow a newer term than {cluster}, term {term}",
        hint=(
            "a later run moved them; {drkit:repoint show} tells where they are, a failback moves them again"
        ),
    ),
    "program_missing": failed(
        "the program does not exist, or may not be executed",
        hint="name it with its full path, and let drkit's user execute it",
    ),
    "program_not_started": failed(
        "the command cannot be started", hint="name it with its full path, and let drkit's user execute it"
    ),
    "program_timeout": failed(
        "the command did not end within {timeout_seconds:g} s and was killed",
        hint="let it end sooner, or raise timeout_seconds",
    ),
    "repoint_command_failed": failed(
        "the command ended with {error_code}", hint="run it by hand with the endpoint on its input"
    ),
    "repoint_impossible": failed("the endpoint cannot be updated"),
    "repoint_timeout": failed(
        "no result after {seconds:g} s", hint="look whether its file system or network hangs"
    ),
    "request_malformed": failed("the HTTP request is invalid", hint="correct url and headers"),
    "server_unable": failed("the server is temporarily unable to answer"),
    "webhook_refused": failed(
        "the webhook rejected the endpoint",
        hint="correct url: it is used as given, redirects are not followed",
    ),
    "webhook_unauthorized": failed(
        "the webhook rejected drkit's credentials",
        hint="compare secret and headers with what the receiver expects",
    ),
}
