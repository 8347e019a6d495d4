"""The names of all security properties: Kafka's own and librdkafka's.

Those of Kafka are from ``SecurityConfig``, ``SslConfigs`` and ``SaslConfigs`` of Kafka 4.3, those of
librdkafka from its version 2.16; tests ask the real classes and the real library. A misspelt one must not
pass: without ``security.protocol`` a client speaks in plain text.
"""

from __future__ import annotations

from typing import Final

PREFIXES: Final = ("security.", "sasl.", "ssl.")

_OAUTH: Final = frozenset({
    "assertion.algorithm", "assertion.claim.aud", "assertion.claim.exp.seconds", "assertion.claim.iss",
    "assertion.claim.jti.include", "assertion.claim.nbf.seconds", "assertion.claim.sub", "assertion.file",
    "assertion.private.key.file", "assertion.private.key.passphrase", "client.credentials.client.id",
    "client.credentials.client.secret", "scope", "sub.claim.name", "token.endpoint.url",
})  # fmt: skip
"""What both call the same."""
_OAUTH_KAFKA: Final = frozenset({
    "assertion.template.file", "clock.skew.seconds", "expected.audience", "expected.issuer",
    "header.urlencode", "jwks.endpoint.refresh.ms", "jwks.endpoint.retry.backoff.max.ms",
    "jwks.endpoint.retry.backoff.ms", "jwks.endpoint.url", "jwt.retriever.class", "jwt.validator.class",
    "scope.claim.name",
})  # fmt: skip
_OAUTH_LIBRDKAFKA: Final = frozenset({
    "assertion.jwt.template.file", "assertion.private.key.pem", "client.id", "client.secret", "config",
    "extensions", "grant.type", "metadata.authentication.type", "method",
})  # fmt: skip
_KAFKA: Final = frozenset({
    "security.protocol", "security.providers",
    "sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.callback.handler.class", "sasl.login.class", "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
    "sasl.mechanism",
    "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm", "ssl.engine.factory.class", "ssl.key.password",
    "ssl.keymanager.algorithm", "ssl.keystore.certificate.chain", "ssl.keystore.key",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.certificates",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
})  # fmt: skip
_LIBRDKAFKA: Final = frozenset({
    "sasl.kerberos.keytab", "sasl.kerberos.principal", "sasl.mechanisms", "sasl.password", "sasl.username",
    "ssl.ca.certificate.stores", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location",
    "ssl.certificate.pem", "ssl.crl.location", "ssl.curves.list", "ssl.engine.id", "ssl.engine.location",
    "ssl.key.location", "ssl.key.pem", "ssl.providers", "ssl.sigalgs.list",
})  # fmt: skip

OF_LIBRDKAFKA: Final = _LIBRDKAFKA | {f"sasl.oauthbearer.{n}" for n in _OAUTH_LIBRDKAFKA}
"""Names that only librdkafka has."""
SECURITY: Final = _KAFKA | OF_LIBRDKAFKA | {f"sasl.oauthbearer.{n}" for n in _OAUTH | _OAUTH_KAFKA}
"""All names."""
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Values of ``security.protocol``."""


def is_misspelt(name: str) -> bool:
    """Whether a name looks like a security property, but is not one."""
    return name.startswith(PREFIXES) and name not in SECURITY
