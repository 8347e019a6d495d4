"""Names of users with SCRAM credentials. The credentials themselves no broker tells."""

from __future__ import annotations

from kafka.protocol.admin import DescribeUserScramCredentialsRequest

from drkit.config import ClusterSettings
from drkit.errors import Failed
from drkit.kafka.one_shot import ask_once
from drkit.kafka.raw import RawCluster


def scram_users(settings: ClusterSettings) -> frozenset[str]:
    """The users with SCRAM credentials on a cluster.

    :raises Failed: the brokers do not tell: drkit's principal lacks DESCRIBE on the cluster
    :raises ClusterUnreachable: no answer
    """

    async def question(cluster: RawCluster) -> frozenset[str]:
        answer = await cluster.send(DescribeUserScramCredentialsRequest(users=None))
        if answer.error_code:
            raise Failed(
                "scram_users_unknown",
                where=settings.alias,
                evidence=f"error {answer.error_code}: {answer.error_message or 'no text'}",
            )
        return frozenset(result.user for result in answer.results)

    return ask_once(settings, "users", question, what=f"ask {settings.alias} for its users")
