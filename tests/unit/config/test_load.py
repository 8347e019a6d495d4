from __future__ import annotations

from pathlib import Path
import pickle

import pytest

from drkit.config import ClusterSettings, load, read
from drkit.errors import ConfigError
from tests.support.config.places import setting_in
from tests.support.errors import coded, sentence

CLUSTERS = """
[clusters.primary]
bootstrap_servers = "p1:9092, p2:9092"
client = { "security.protocol" = "SASL_SSL", "sasl.password" = "${env:PASSWORD}", "a.flag" = true }
[clusters.standby]
bootstrap_servers = ["s1:9092"]
"""
FLOW = '[[flows]]\nsource = "primary"\ntarget = "standby"\n'
ONE = '[clusters.x]\nbootstrap_servers = "p:1"\n'
ENV = {"PASSWORD": "top-secret"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "drkit.toml"


def problem(file: Path, text: str, env: dict[str, str] = ENV) -> ConfigError:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, env)
    assert caught.value.exit_code == 2
    assert "top-secret" not in str(caught.value.as_dict())
    return caught.value


def test_an_unset_variable_hides_no_other_problem(file: Path):
    error = problem(file, CLUSTERS + FLOW + "tasks = 100000000\ntopcs = []\n", env={})
    assert error.what == sentence("config_problems", count=3)
    for found in ("PASSWORD", "less than or equal to 10000", "'topics'"):
        assert found in error.evidence


def test_what_is_written_is_read(file: Path):
    file.write_text(CLUSTERS + FLOW + 'topics = ["orders.*", "payments"]\ngroups = "a, b"\ntasks = 4\n')
    settings = load(file, ENV)
    primary = settings.cluster("primary")
    assert primary.alias == "primary"
    assert primary.bootstrap_servers == "p1:9092,p2:9092"
    assert primary.client["sasl.password"] == "top-secret"
    assert primary.client["a.flag"] == "true"
    flow = settings.flow("primary -> standby")
    assert (flow.name, flow.tasks, flow.groups) == ("primary->standby", 4, ("a", "b"))
    assert flow.copies("orders-eu")
    assert not flow.copies("users")
    assert not flow.copies("__consumer_offsets")


def test_settings_never_show_secrets(file: Path):
    file.write_text(CLUSTERS)
    settings = load(file, ENV)
    for text in (repr(settings), str(settings), repr(settings.cluster("primary")), f"{settings.clusters}"):
        assert "top-secret" not in text
        assert "p1:9092" in text


def test_settings_travel_to_workers():
    settings = ClusterSettings(alias="a", bootstrap_servers="h:1", client={"sasl.password": "x"})
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301  our own bytes


@pytest.mark.parametrize(
    ("text", "where", "what", "hint"),
    [
        (FLOW + 'topcs = ["a"]', "flows[0].topcs", "unknown setting", "'topics'"),
        (FLOW + '"topics.exclude" = "a"', 'flows[0]."topics.exclude"', "unknown setting", "'topics_exclude'"),
        ("[flws]", "flws", "unknown setting", "'flows'"),
        (FLOW + 'topics = ["ok", "("]', "flows[0].topics[1]", "not a regular expression", ""),
        (FLOW + "tasks = 0", "flows[0].tasks", "greater than 0", ""),
        (FLOW + "replication_factor = 0", "flows[0].replication_factor", "at least 1", ""),
        (FLOW + 'naming = "other"', "flows[0].naming", "'identity' or 'prefix'", ""),
        (FLOW.replace("standby", "stanby"), "flows[0].target", "no cluster 'stanby'", "'standby'"),
        (FLOW.replace("standby", "primary"), "flows[0]", "both 'primary'", "another cluster"),
        (FLOW + 'separator = "::"', "flows[0].separator", "'.', '-' or '_'", ""),
        (FLOW + 'naming = "com.acme.Own:Policy."', "flows[0].naming", "cannot be used", ""),
        (
            FLOW + 'target_admin = { "ssl.key.path" = "x" }',
            'flows[0].target_admin."ssl.key.path"', "no property", "",
        ),
        (
            '[clusters.a_b]\nbootstrap_servers = "p:1"\n'
            + FLOW.replace("standby", "a_b")
            + 'naming = "prefix"\nseparator = "_"',
            "flows[0]", "alias", "set",
        ),
        (FLOW + FLOW, "flows[1]", "already primary->standby", "join"),
        ('[clusters.x]\nbootstrap_servers = "p1"', "clusters.x.bootstrap_servers", "host:port", "commas"),
        (ONE + 'bootstrap = "p:1"', "clusters.x.bootstrap", "unknown", "'bootstrap_servers'"),
        ("[clusters.x]", "clusters.x.bootstrap_servers", "needed", ""),
        ('[clusters."a.b"]\nbootstrap_servers = "p:1"', 'clusters."a.b"', "letters, digits", ""),
        ('[failover]\nmode = "manual"', "failover.mode", "'approve' or 'auto'", ""),
        ('[failover]\nrepoint = [{ kind = "file" }]', "failover.repoint[0]", "needs 'path'", ""),
    ],
)  # fmt: skip
def test_a_problem_is_named_with_its_place(file: Path, text: str, where: str, what: str, hint: str):
    error = problem(file, CLUSTERS + text)
    assert setting_in(error.where, file, CLUSTERS + text) == where
    assert what in error.what
    assert hint in error.hint
    assert error.hint, "what to do is always said"


@pytest.mark.parametrize(
    ("value", "what", "hint"),
    [
        ("${env:NOT_THERE}", "NOT_THERE is not set", "${file:PATH}"),
        ("${file:nowhere}", "cannot read nowhere", "relative ones start at"),
        ("${file:there:password}", "no key 'password'", "password=..."),
        ("${vault:x}", "${vault:...} is unknown", "${env:NAME}"),
    ],
)
def test_a_reference_that_leads_nowhere(file: Path, value: str, what: str, hint: str):
    (file.parent / "there").write_text("user=me\n")
    error = problem(file, f'[clusters.x]\nbootstrap_servers = "p:1"\nclient = {{ "a.b" = "{value}" }}\n')
    assert what in error.what
    assert hint in error.hint


@pytest.mark.parametrize(
    ("name", "value", "what", "hint"),
    [
        ("security.protcol", "SSL", "no client of Kafka's", "'security.protocol'"),
        ("sasl.mechanisme", "PLAIN", "no client of Kafka's", "'sasl.mechanism'"),
        ("ssl.truststore.path", "/t", "no client of Kafka's", "ssl.truststore"),
        ("security.protocol", "TLS", "'TLS' is not one of PLAINTEXT, SSL", "drkit explain security"),
    ],
)
def test_nothing_about_security_is_passed_over(file: Path, name: str, value: str, what: str, hint: str):
    """Without it a client would connect in plain text, or without credentials."""
    client = f'{{ "{name}" = "{value}" }}'
    text = f'[clusters.x]\nbootstrap_servers = "p:1"\nclient = {client}\n'
    error = problem(file, text)
    assert setting_in(error.where, file, text) == f'clusters.x.client."{name}"'
    assert what in error.what
    assert hint in error.hint
    listener = '[[detection.listeners]]\ncluster = "x"\nname = "l"\nbootstrap_servers = "p:1"\n'
    assert what in problem(file, f"{ONE}{listener}client = {client}\n").what


def test_a_misspelt_client_property_is_noted(file: Path):
    properties = '"client.idd" = "x", "client.id" = "y", "broker.address.family" = "v4", "ssl.ca.pem" = "z"'
    properties += ', "security.protocol" = "SSL"'
    file.write_text(f'[clusters.x]\nbootstrap_servers = "p:1"\nclient = {{ {properties} }}\n')
    (note,) = read(file, {}).notes
    assert note.at == 'clusters.x.client."client.idd"'
    assert note.hint == "did you mean 'client.id'?"


def test_all_problems_are_named_at_once(file: Path):
    error = problem(file, CLUSTERS + FLOW + "tasks = 0\ntopcs = 1\n")
    assert error.what == sentence("config_problems", count=2)
    assert "flows[0].tasks" in error.evidence
    assert "did you mean 'topics'" in error.evidence


def test_two_flows_that_write_one_topic(file: Path):
    """P7: two flows that would copy the same topic twice are refused when the file is read."""
    third = '[clusters.third]\nbootstrap_servers = "t:1"\n'
    error = problem(
        file, CLUSTERS + third + FLOW + FLOW.replace("primary", "third") + 'topics = "orders.*"\n'
    )
    assert "would both write topic 'orders' of standby" in error.what
    assert error.where.endswith("flows[1].topics")


def test_a_ring(file: Path):
    """P8: a ring of same-named flows is refused when the file is read."""
    third = '[clusters.third]\nbootstrap_servers = "t:1"\n'
    ring = [("primary", "standby"), ("standby", "third"), ("third", "primary")]
    flows = "".join(f'[[flows]]\nsource = "{a}"\ntarget = "{b}"\n' for a, b in ring)
    assert "primary -> standby -> third -> primary" in problem(file, CLUSTERS + third + flows).what


def test_both_directions_are_fine(file: Path):
    file.write_text(CLUSTERS + FLOW + '[[flows]]\nsource = "standby"\ntarget = "primary"\n')
    assert len(load(file, ENV).flows) == 2


def test_references(file: Path):
    (file.parent / "secret.txt").write_text("from-file\n")
    (file.parent / "secrets.properties").write_text("# comment\nuser = u1\npassword=a=b\n")
    file.write_text(
        '[clusters.a]\nbootstrap_servers = "${env:HOST}:9092"\nclient = { "a" = "${file:secret.txt}",'
        ' "b" = "${file:secrets.properties:password}", "c" = "x-${env:HOST}-${env:HOST}" }'
    )
    loaded = read(file, {"HOST": "h"})
    assert loaded.settings.cluster("a").client == {"a": "from-file", "b": "a=b", "c": "x-h-h"}
    assert loaded.settings.cluster("a").bootstrap_servers == "h:9092"
    assert loaded.origins["clusters.a.client.a"] == "drkit.toml:3 ${file:secret.txt}"
    assert loaded.origins["clusters.a.bootstrap_servers"] == "drkit.toml:2 ${env:HOST}"


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        ("${env:MISSING}", "environment variable MISSING is not set"),
        ("${file:none.txt}", "cannot read none.txt: No such file"),
        ("${file:there.properties:none}", "there.properties has no key 'none'"),
        ("${vault:x}", "${vault:...} is unknown"),
    ],
)
def test_a_reference_to_nothing(file: Path, reference: str, what: str):
    (file.parent / "there.properties").write_text("a=b")
    error = problem(file, f'[clusters.a]\nbootstrap_servers = "h:1"\nclient = {{ "x.y" = "{reference}" }}')
    assert what in error.what
    assert error.where.endswith('clusters.a.client."x.y"')


def test_not_toml(file: Path):
    error = problem(file, "a = 1\nflows = [}")
    assert error.code == "config_not_toml"
    assert "line 2" in error.evidence


def test_where_the_file_is_looked_for(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(file.parent)
    with pytest.raises(ConfigError, check=coded("config_not_given")) as none:
        load(None, {})
    assert "drkit demo" in none.value.hint
    with pytest.raises(ConfigError) as missing:
        load(None, {"DRKIT_CONFIG": "other.toml"})
    assert missing.value.evidence == "named by DRKIT_CONFIG"
    with pytest.raises(ConfigError) as named:
        load("third.toml", {"DRKIT_CONFIG": "other.toml"})
    assert (named.value.where, named.value.evidence) == ("third.toml", "named by --config")
    file.write_text(CLUSTERS)
    assert len(load(None, ENV).clusters) == 2


def test_unknown_flow_and_cluster(file: Path):
    file.write_text(CLUSTERS + FLOW)
    settings = load(file, ENV)
    with pytest.raises(ConfigError) as flow:
        settings.flow("primary->standy")
    assert flow.value.hint == "did you mean 'primary->standby'?"
    with pytest.raises(ConfigError) as cluster:
        settings.cluster("zzz")
    assert cluster.value.hint == "known: primary, standby"


def test_drills_have_no_note(file: Path):
    drill = '[[drills]]\nname = "n"\nkind = "readiness"\ncron = "0 6 1 * *"\n'
    file.write_text(CLUSTERS + FLOW + 'topics = "a"\ngroups = "b"\n' + drill)
    assert not read(file, ENV).notes


def test_flows_by_name_or_all(file: Path):
    file.write_text(CLUSTERS + FLOW)
    settings = load(file, ENV)
    assert settings.chosen_flows([]) == settings.chosen_flows(["primary->standby"]) == [*settings.flows]
    file.write_text(CLUSTERS)
    with pytest.raises(ConfigError) as caught:
        load(file, ENV).chosen_flows([])
    assert caught.value.evidence == "clusters: primary, standby"
    assert "A->B.enabled = true" in caught.value.hint


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("PLAINTEXT://p1:9092, SASL_SSL://p2:9093", "p1:9092,p2:9093"),
        ("[fd00::1]:9092", "[fd00::1]:9092"),
        ("host-1.example_2:9092", "host-1.example_2:9092"),
    ],
)
def test_a_server_is_an_address_without_the_protocol_that_kafkas_clients_allow(written: str, read: str):
    """The copy, the probe, the fence and the failover read the same address."""
    assert ClusterSettings(alias="x", bootstrap_servers=written).bootstrap_servers == read
    role = ClusterSettings(alias="x", bootstrap_servers="p:1").with_client({"bootstrap.servers": written})
    assert role.servers == read.split(",")


@pytest.mark.parametrize("server", ["a:9092;b:9092", "PLAINTEXT://:9092", "a:b:9092x", "a:0", "a b:9092"])
def test_what_is_no_address_is_refused(server: str):
    with pytest.raises(ValueError, match="is not host:port"):
        ClusterSettings(alias="x", bootstrap_servers=server)
