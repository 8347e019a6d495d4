"""Security settings of one cluster, read from Kafka's property names (librdkafka's are understood too)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import re
from typing import Final, Literal, cast

from drkit.config import ClusterSettings
from drkit.errors import ConfigError
from drkit.kafka.security.keystores import Store, StoreError, is_pem, read_store

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<double>"(?:[^"\\]|\\.)*")
      | (?P<single>'(?:[^'\\]|\\.)*')
      | (?P<word>[^\s=;"']+)
      | (?P<mark>[=;])
    )""",
    re.VERBOSE,
)

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A class name such as ``…PlainLoginModule`` and its options."""

    name: str
    options: dict[str, str]


def parse_jaas(text: str) -> LoginModule:
    """Read the login module of a ``sasl.jaas.config``, as Java's clients write it (KIP-85).

    :raises ValueError: it has another form; the message holds no part of the text, which may be a password
    """
    tokens = _tokens(text)
    if not tokens or tokens[-1] != ("mark", ";"):
        raise ValueError("it does not end with a semicolon")
    words, options = tokens[:2], tokens[2:-1]
    if [kind for kind, _ in words] != ["word", "word"] or words[1][1].lower() not in _FLAGS:
        raise ValueError("it does not begin with a class name and 'required'")
    if len(options) % 3 or any(mark != ("mark", "=") for mark in options[1::3]):
        raise ValueError("after 'required' it needs options of the form name=\"value\"")
    pairs = zip(options[::3], options[2::3], strict=True)
    return LoginModule(words[0][1], {name: value for (_, name), (_, value) in pairs})


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("it has an unclosed quotation mark")
        kind = match.lastgroup or ""
        value = match[kind]
        if kind in {"double", "single"}:
            kind, value = "value", re.sub(r"\\(.)", r"\1", value[1:-1])
        tokens.append((kind, value))
        position = match.end()
    return tokens


Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_PROPERTIES_HINT: Final = "the properties of each protocol and mechanism: drkit explain security"
_PEM_HINT: Final = (
    "check path and password; or export it as PEM with `keytool -exportcert -rfc` or `openssl pkcs12 -nodes`,"
    " then set the .type to PEM and the .location to that file"
)


@dataclass(frozen=True, slots=True)
class Tls:
    """Trusted certificates, and drkit's own certificate and key: files, or PEM text."""

    ca_file: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    certificate_pem: str | None = field(default=None, repr=False)
    key_file: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class OAuth:
    """Client credentials at a token endpoint (KIP-768)."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class Sasl:
    """SASL mechanism and credentials."""

    mechanism: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    oauth: OAuth | None = None
    kerberos_service: str = "kafka"
    principal: str | None = None
    keytab: str | None = None


@dataclass(frozen=True, slots=True)
class Security:
    """All security settings of a cluster."""

    protocol: Protocol
    tls: Tls | None
    sasl: Sasl | None


class UnusableProperty(ValueError):
    """A client property is wrong or missing, or cannot be had outside Java."""

    def __init__(self, name: str, what: str, hint: str = _PROPERTIES_HINT) -> None:
        super().__init__(f"{name}: {what}")
        self.name, self.what, self.hint = name, what, hint


def read_security(settings: ClusterSettings) -> Security:
    """The security settings of a cluster.

    :raises ConfigError: something is missing, or cannot be had outside Java
    """
    client = settings.client
    try:
        protocol = protocol_of(client)
        return Security(
            protocol,
            read_tls(client) if protocol.endswith("SSL") else None,
            read_sasl(client) if protocol.startswith("SASL") else None,
        )
    except UnusableProperty as error:
        where = f"clusters.{settings.alias}.client"
        raise ConfigError(
            "client_property_wrong", where=where, hint=error.hint, key=error.name, problem=error.what
        ) from None


def protocol_of(client: Mapping[str, str]) -> Protocol:
    """Return how brokers are reached. Raises UnusableProperty."""
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise UnusableProperty("security.protocol", f"'{protocol}' is not one of {', '.join(_PROTOCOLS)}")
    return cast("Protocol", protocol)


def mechanism_of(client: Mapping[str, str]) -> str:
    """Return the SASL mechanism, which is Kerberos unless one is set. Raises UnusableProperty."""
    mechanism = client.get(name := _mechanism_name(client), "GSSAPI").upper()
    if mechanism not in _MECHANISMS:
        raise UnusableProperty(name, f"'{mechanism}' is not one of {', '.join(_MECHANISMS)}")
    return mechanism


def _mechanism_name(client: Mapping[str, str]) -> str:
    """Return the spelling of the property: librdkafka's has an ``s``."""
    return next((name for name in ("sasl.mechanism", "sasl.mechanisms") if name in client), "sasl.mechanism")


_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"


def read_tls(client: Mapping[str, str]) -> Tls:
    """Return the TLS settings, with the content of Java's stores. Raises UnusableProperty."""
    trust = _store(client, "truststore")
    own = _store(client, "keystore")
    keystore = None if own else client.get("ssl.keystore.location")
    truststore = None if trust else client.get("ssl.truststore.location", client.get("ssl.ca.location"))
    return Tls(
        ca_file=truststore,
        ca_pem=trust.authorities
        if trust
        else client.get("ssl.truststore.certificates", client.get("ssl.ca.pem")),
        # Kafka's PEM keystore is one file with the key and the chain (KIP-651).
        certificate_file=keystore or client.get("ssl.certificate.location"),
        certificate_pem=own.chain
        if own
        else client.get("ssl.keystore.certificate.chain", client.get("ssl.certificate.pem")),
        key_file=keystore or client.get("ssl.key.location"),
        key_pem=own.key if own else client.get("ssl.keystore.key", client.get("ssl.key.pem")),
        key_password=None if own else client.get("ssl.key.password"),
        verify=client.get("enable.ssl.certificate.verification", "true").lower() != "false",
        check_hostname=_checks_hostname(client),
    )


def _checks_hostname(client: Mapping[str, str]) -> bool:
    """Java switches the check off with an empty text, librdkafka with ``none``; nothing else does."""
    said = client.get(_IDENTIFICATION, "https").strip().lower()
    if said not in {"https", "", "none"}:
        hint = "https checks that the certificate names the broker; none, or an empty text, does not"
        raise UnusableProperty(_IDENTIFICATION, f"'{said}' is not one of https, none", hint)
    return said == "https"


def _store(client: Mapping[str, str], which: str) -> Store | None:
    """The content of a Java store; None when the setting is absent, or names PEM."""
    key = f"ssl.{which}.location"
    path = client.get(key)
    kind = client.get(f"ssl.{which}.type", "").upper()
    if path is None or kind == "PEM" or (not kind and is_pem(path)):
        return None
    if kind not in {"", "JKS", "PKCS12"}:
        raise UnusableProperty(f"ssl.{which}.type", f"'{kind}' is not one of JKS, PKCS12, PEM", _PEM_HINT)
    try:
        found = read_store(path, client.get(f"ssl.{which}.password"), client.get("ssl.key.password"))
    except (OSError, StoreError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise UnusableProperty(key, f"the Java {which} {path} cannot be read: {said}", _PEM_HINT) from None
    if which == "keystore" and not found.key:
        raise UnusableProperty(key, f"the Java keystore {path} holds no private key")
    if which == "truststore" and not found.authorities:
        raise UnusableProperty(key, f"the Java truststore {path} holds no certificate")
    return found


def read_sasl(client: Mapping[str, str]) -> Sasl:
    """Return the SASL settings. Raises UnusableProperty, also for credentials that are missing."""
    mechanism = mechanism_of(client)
    module = _login_module(client)
    if mechanism == "OAUTHBEARER":
        return Sasl(mechanism, oauth=_oauth(client, module))
    if mechanism == "GSSAPI":
        return Sasl(
            mechanism,
            kerberos_service=client.get(
                "sasl.kerberos.service.name", module.options.get("serviceName", "kafka")
            ),
            principal=client.get("sasl.kerberos.principal", module.options.get("principal")),
            keytab=client.get("sasl.kerberos.keytab", module.options.get("keyTab")),
        )
    username = client.get("sasl.username", module.options.get("username"))
    password = client.get("sasl.password", module.options.get("password"))
    if not username or password is None:
        what = f"{mechanism} needs sasl.username and sasl.password, or a sasl.jaas.config with both"
        raise UnusableProperty(_mechanism_name(client), what)
    return Sasl(mechanism, username, password)


def _login_module(client: Mapping[str, str]) -> LoginModule:
    text = client.get("sasl.jaas.config")
    if text is None:
        return LoginModule("", {})
    try:
        return parse_jaas(text)
    except ValueError as error:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        form = f'write it as in: {module} required username="…" password="…";'
        raise UnusableProperty("sasl.jaas.config", f"cannot be read: {error}", form) from None


def _oauth(client: Mapping[str, str], module: LoginModule) -> OAuth:
    def one_of(option: str, *names: str) -> str | None:
        return next((client[n] for n in names if n in client), module.options.get(option))

    url = client.get("sasl.oauthbearer.token.endpoint.url")
    client_id = one_of(
        "clientId", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"
    )
    secret = one_of(
        "clientSecret", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"
    )
    if not url or not client_id or secret is None:
        what = "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url, …client.id and …client.secret"
        raise UnusableProperty(_mechanism_name(client), what)
    return OAuth(
        url, client_id, secret, one_of("scope", "sasl.oauthbearer.scope"), client.get("https.ca.location")
    )
