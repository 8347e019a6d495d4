"""Errors of Kafka clusters and their answers."""

from __future__ import annotations

from typing import Final

from drkit.catalogue.entry import Entry, failed, refused, wrong

ERRORS: Final[dict[str, Entry]] = {
    "certificate_unusable": wrong(
        "a certificate or key cannot be loaded",
        hint="check that the files exist, are PEM, and that ssl.key.password is right",
    ),
    "client_properties_refused": wrong("client properties cannot be used: {text}"),
    "client_property_not_a_number": wrong(
        "{key}: '{value}' is not a whole number", hint="set {key} to a number without unit, or leave it out"
    ),
    "cluster_request_failed": failed(
        "cannot {what}", hint="check the cluster: {drkit:config check --connect}"
    ),
    "cluster_silent": failed("cluster {alias} did not answer in {seconds:.0f} s"),
    "cluster_unusable": failed("cannot use cluster {alias}: {reason}"),
    "clusters_identical": refused(
        "{source} and {target} are the same cluster",
        hint=(
            "a host name may point to the other side by now: correct bootstrap_servers, then: "
            "{drkit:config check --connect}"
        ),
        page="failover-wrong-cluster",
    ),
    "corrupt_batch": failed(
        "record batch at offset {offset} is corrupt: {reason}",
        hint="read the partition with `kafka-dump-log --deep-iteration` on the source's leader",
    ),
    "credentials_refused": failed(
        "cluster {alias} refused the credentials",
        hint="check user, password and mechanism in clusters.{alias}.client",
    ),
    "kerberos_missing": wrong("Kerberos needs the package gssapi", hint="pip install 'gssapi>=1.8,<2'"),
    "log_end_unknown": failed("the end offset of a partition is unknown"),
    "log_restarted": failed(
        "a topic was emptied or created again while drkit read it",
        hint="find out who deleted it, then repeat the command",
    ),
    "new_topic_missing": failed("a topic that was just created does not appear"),
    "no_authorizer": failed("{alias} has no authorizer"),
    "no_producer_id": failed("the cluster assigned no producer id"),
    "no_token": failed(
        "the token endpoint returned no token",
        hint="check sasl.oauthbearer.client.id, the secret and the scope",
    ),
    "not_authorized_for_commits": failed(
        "drkit may not read the groups' committed offsets",
        hint="allow drkit's principal READ on the topic __consumer_offsets",
    ),
    "not_authorized_for_log_end": failed(
        "drkit may not read the end offset of a partition",
        hint="grant drkit DESCRIBE and READ on its own topics",
    ),
    "not_authorized_for_transactions": failed(
        "no permission for {name} with the transactional id {transactional_id} on {cluster}",
        hint="grant WRITE and DESCRIBE on transactional ids with the prefix 'drkit.'",
    ),
    "not_authorized_to_write": failed(
        "drkit may not write to {topics} on {cluster}",
        hint=(
            "grant drkit's principal WRITE on the topic; a DENY on it, also of User:*, wins over "
            "every ALLOW: remove it, or let it name others"
        ),
    ),
    "port_taken": failed("the port for metrics cannot be opened", hint="choose another --metrics-port"),
    "own_topic_hidden": failed(
        "one of drkit's topics cannot be read to its end",
        hint="list and abort hanging transactions on {alias}: kafka-transactions.sh find-hanging",
    ),
    "own_topic_settings": failed(
        "one of drkit's topics has settings that would lose records",
        hint="set {settings} on {topic} with kafka-configs.sh, then try again",
    ),
    "own_topic_unreadable": failed(
        "one of drkit's topics cannot be read",
        hint="check the cluster, and drkit's READ right on it, with: {drkit:config check --connect}",
    ),
    "own_topic_unwritable": failed(
        "one of drkit's topics cannot be written",
        hint="check its in-sync replicas, and drkit's WRITE right on it",
    ),
    "request_unsupported": failed("the brokers do not support a request of drkit"),
    "scram_users_unknown": failed(
        "cannot list SCRAM users",
        hint="grant drkit's principal DESCRIBE on the cluster; brokers tell since Kafka 2.7",
    ),
    "token_endpoint_malformed": wrong(
        "the token endpoint is not an http(s) URL",
        hint="set sasl.oauthbearer.token.endpoint.url to https://…",
    ),
    "transaction_failed": failed(
        "{name} of {transactional_id} failed",
        hint="another run may hold this transactional id; see: {drkit:status}",
    ),
    "verify_broke_off": failed(
        "the comparison was interrupted", hint="check both clusters, then run {drkit:verify} again"
    ),
    "verify_cluster_silent": failed(
        "a cluster stopped answering during the comparison",
        hint="check the cluster, then run the command again",
    ),
    "verify_partition_unreadable": failed(
        "cannot read a partition to compare it",
        hint="check the cluster and drkit's permission to read the topic",
    ),
    "verify_topic_unknown": wrong(
        "{flow} does not copy topic {topics}", hint="{drkit:status} lists the topics that it copies"
    ),
}
