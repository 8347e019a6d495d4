"""The commands that a refused failback prints: they repeat its request. No broker."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
import pytest

from drkit.cli.actions.back.choices import request_of
from drkit.cli.commands.back.reprotect import reprotect
from drkit.cli.commands.failover import failover
from drkit.config import FlowSettings
from drkit.errors import Refused
from drkit.failover.core.commands import (
    NOTHING,
    UNTIL_EXPORT,
    begin_command,
    decision_commands,
    is_held,
    retry_command,
    return_command,
)
from drkit.failover.core.request import Disposition, Method, RunRequest, option_of
from drkit.failover.fencing.methods import ACL, SIZE
from drkit.failover.loss.findings import DivergenceState, PartitionDivergence
from drkit.failover.old_primary import fence
from drkit.failover.old_primary.fence import nothing_keeps_off
from drkit.failover.returning import contact, deciding, gates, replays, scope
from drkit.failover.returning.compare import NeedsMethod, to_json
from drkit.failover.returning.deciding import undecided
from drkit.failover.returning.exporting import ExportStep
from drkit.journal.machine import FAILOVER, RETURN, StepName, Table
from drkit.kafka.access.acls import NoAuthorizer
from drkit.model import TopicPartition
from drkit.next_command import WHY, Placeholder
from drkit.replay.compare import Origin, TailFlag
from drkit.replay.plan import NotKept, refuse_repeats
from drkit.replay.tail import Tail
from tests.support.cli.parsed import parsed
from tests.support.errors import coded

FLOW = FlowSettings(source="p", target="s", topics=(".*",))
AT = TopicPartition("t", 0)
TAIL = NeedsMethod(PartitionDivergence("t", 0, DivergenceState.DIVERGED, 5, 9, records=4), "diverged")
BEGIN = "drkit reprotect --flow 'p->s'"
CUT, PLACE = "the listener's port is closed", "/saved here"
CLIENTS_CUT, EXPORT_TO = shlex.join(["--clients-cut", CUT]), shlex.join(["--export-to", PLACE])


def returning(request: RunRequest = NOTHING, **more: Any) -> Any:
    """The context of a return of one topic."""
    fields: dict[str, Any] = {
        "flow": FLOW, "request": request, "named_topics": (), "until_export": False,
        "run_id": "", "effects": lambda _: {},
        "scope": SimpleNamespace(topics={"t": "t"}), "source_settings": None,
        "result": {StepName.COMPARE: {"unsound": to_json([TAIL])}}.get,
        "journal": SimpleNamespace(result=lambda _: None),
    }  # fmt: skip
    return SimpleNamespace(**fields | more)


def held(request: RunRequest = NOTHING, **more: Any) -> Any:
    """As :func:`returning`, of a run that has changed something."""
    return returning(request, **{"run_id": "r1", "effects": lambda _: {"hold": {}}} | more)


@pytest.fixture
def no_authorizer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise NoAuthorizer("no_authorizer", where="p", alias="p")

    monkeypatch.setattr(fence, "list_acls", refuse)


@pytest.mark.usefixtures("no_authorizer")
def test_commands_typed_as_printed_lead_to_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refusal asks for one more option, and none loses those that were given."""
    monkeypatch.setattr(deciding, "gone_of", lambda *_: {})
    asked = nothing_keeps_off(returning(), ["t"]).hint
    assert asked.endswith(f': {BEGIN} --clients-cut "HOW"')
    said = RunRequest(clients_cut=CUT)
    with pytest.raises(Refused) as place:
        ExportStep().plan(returning(said))
    assert place.value.hint.endswith(f": {BEGIN} {CLIENTS_CUT} --export-to PLACE")
    said = said._replace(export_to=PLACE)
    open_ = undecided(returning(said), [TAIL], {})
    assert open_ is not None
    assert open_.hint == (
        f"{BEGIN} {CLIENTS_CUT} {EXPORT_TO} --disposition 't=discard|replay|quarantine' --reason \"WHY\""
    )


@pytest.mark.usefixtures("no_authorizer")
def test_a_run_that_is_held_is_continued_and_needs_only_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deciding, "gone_of", lambda *_: {})
    said = RunRequest(export_to=PLACE)
    asked = nothing_keeps_off(held(said), ["t"]).hint
    assert asked.endswith(': drkit reprotect --resume --clients-cut "HOW"')
    open_ = undecided(held(said), [TAIL], {})
    assert open_ is not None
    assert open_.hint.startswith("drkit reprotect --resume --disposition 't=")


def test_a_run_that_ends_with_its_refusal_is_begun_again() -> None:
    """Before the first change a refusal leaves no run behind, so there is nothing to resume."""
    assert not is_held(returning(run_id="r1"))
    assert str(retry_command(returning(RunRequest(clients_cut=CUT), run_id="r1"))) == f"{BEGIN} {CLIENTS_CUT}"
    decided = SimpleNamespace(result=lambda step: {} if step is StepName.DECIDE else None)
    assert is_held(returning(run_id="r1", journal=decided)), "the roles may be written"


@pytest.mark.parametrize(
    ("first", "added", "printed"),
    [
        ({"methods": {"t": "delta"}}, {"methods": {"t": "rebuild"}}, "--method t=rebuild"),
        (
            {"methods": {"*": "delta"}},
            {"methods": {"t": "rebuild"}},
            "--method '*=delta' --method t=rebuild",
        ),
        ({"dispositions": {"t": "discard"}}, {"dispositions": {"t": "replay"}}, "--disposition t=replay"),
        ({"reason": "w h y"}, {"reason": WHY}, "--reason 'w h y'"),
        ({"same": "none"}, {"same": "content"}, "--same content"),
        ({"evict_readers": True}, {"evict_readers": True}, "--evict-readers"),
        (
            {"give_up_history": ("a",)},
            {"give_up_history": ("a", "b")},
            "--give-up-history a --give-up-history b",
        ),
        ({"export_to": PLACE}, {"export_to": Placeholder("PLACE")}, EXPORT_TO),
    ],
)
def test_no_option_is_printed_twice(first: dict[str, Any], added: dict[str, Any], printed: str) -> None:
    assert str(retry_command(returning(RunRequest(**first)), RunRequest(**added))) == f"{BEGIN} {printed}"


def test_named_topics_are_named_again() -> None:
    cut = RunRequest(clients_cut=CUT)
    named = returning(cut, named_topics=("a", "b"), until_export=True)
    assert str(retry_command(named)) == f"{BEGIN} --topic a --topic b {CLIENTS_CUT} {UNTIL_EXPORT}"
    assert str(begin_command(named, cut, ["TOPIC"])) == f"{BEGIN} --topic TOPIC {CLIENTS_CUT} {UNTIL_EXPORT}"
    decided = retry_command(named, RunRequest(dispositions={"a": "replay"}))
    assert UNTIL_EXPORT not in decided.argv, "it is decided before the export"
    assert str(begin_command(named, NOTHING)) == f"{BEGIN} --topic a --topic b {UNTIL_EXPORT}"


def test_without_a_topic_that_cannot_return_its_choices_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that was printed kept them, and was refused for them."""
    roles = {t: SimpleNamespace(run_id="r1") for t in ("late", "t")}
    monkeypatch.setattr(scope, "promoted", lambda _: roles)
    monkeypatch.setattr(scope, "begun", lambda _: {"late": "r1"})
    monkeypatch.setattr(scope, "_stopped", lambda *_: {})
    said = RunRequest(
        clients_cut=CUT, dispositions={"late": "replay", "t": "discard", "*": "discard"},
        methods={"late": "rebuild"}, give_up_history=("late", "t"), reason="why",
    )  # fmt: skip
    known = SimpleNamespace(topics={t: (t, None) for t in roles})
    with pytest.raises(Refused, check=coded("nothing_to_protect_in_topics")) as caught:
        scope.choose(returning(said, known=known), ["late"])
    assert caught.value.hint.endswith(
        f"leave it out: {BEGIN} {CLIENTS_CUT} --disposition t=discard --disposition '*=discard'"
        " --give-up-history t --reason why"
    )


def test_what_replaces_the_method_keep_has_what_was_said_of_the_return() -> None:
    """Also where it is decided, so that only another return may empty the topic."""
    said = RunRequest(clients_cut=CUT, methods={"t": "keep"}, dispositions={"t": "replay"})
    rebuilt = "--disposition t=replay --method t=rebuild --same content appends what is missing"
    anew_ = f"drkit reprotect --abort; then {BEGIN} --topic t {CLIENTS_CUT} {rebuilt}"
    kept = Tail(Origin("c", AT, "r1"), UUID(int=1), 5, 9, 4, lambda _: iter(()), 1)
    decided: Any = {StepName.DECIDE: {"t": {}}}.get
    for context, command in (
        (held(said), f"drkit reprotect --resume {rebuilt}"),
        (held(said, named_topics=("t",), result=decided), anew_),
    ):
        with pytest.raises(NotKept) as caught, replays._way_out_of_keep(context):
            refuse_repeats(kept, bytes([TailFlag.ALIKE]), "s", None)
        assert caught.value.hint.endswith(f"if they are the same: {command}")


def test_what_is_given_up_by_name_and_what_keeps_the_rest_are_two_commands() -> None:
    request = RunRequest(export_to=PLACE, reason="why")
    choice = "--disposition 'a=discard|replay|quarantine' --disposition"
    assert decision_commands(returning(request), ["a", "t"], ["t"]) == (
        f"{BEGIN} {EXPORT_TO} {choice} t=discard --reason why; or, to keep what is left:"
        f" {BEGIN} {EXPORT_TO} {choice} 't=replay|quarantine' --give-up-history t --reason why"
    )
    assert decision_commands(returning(), [str(n) for n in range(11)], []) == (
        f"{BEGIN} --disposition '*=discard|replay|quarantine' --reason \"WHY\""
    )


@pytest.mark.parametrize("held_by", [returning, held])
def test_a_choice_that_is_typed_as_printed_is_refused_and_decides_nothing(held_by: Any) -> None:
    """Without quotation marks a shell took it for a pipe: the command ran with the first choice, discard."""
    line = decision_commands(held_by(), ["t"], [])
    words = [*shlex.shlex(line, posix=True, punctuation_chars=True)]  # with the operators of a shell
    assert [w for w in words if w.startswith("t=")] == ["t=discard|replay|quarantine"]
    assert parsed(words[1:])[1]["dispositions"] == ("t=discard|replay|quarantine",)


def test_replicas_that_lag_do_not_cost_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = SimpleNamespace(in_sync=[1], replicas=[1, 2])
    topics = {"t": SimpleNamespace(leaders={0: partition})}
    monkeypatch.setattr(gates, "describe_topics", lambda *_: topics)
    said = RunRequest(clients_cut=CUT, export_to=PLACE, dispositions={"t": "discard"}, reason="why")
    with pytest.raises(Refused, check=coded("replicas_out_of_sync")) as caught:
        gates.refuse_lagging_replicas(returning(said, target_admin=lambda: None), ["t"])
    command = caught.value.hint.partition("then: ")[2]
    assert command == f"{BEGIN} {CLIENTS_CUT} {EXPORT_TO} --disposition t=discard --reason why"


TOPICS = st.sampled_from(["t", "*", "two words", "it's"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda text: not text.startswith("-")
)


FIELDS: dict[str, Any] = dict.fromkeys(("clients_cut", "reason", "export_to", "new_primary"), TEXTS) | {
    "dispositions": st.dictionaries(TOPICS, st.sampled_from([*Disposition])),
    "methods": st.dictionaries(TOPICS, st.sampled_from([*Method])),
    "same": st.sampled_from(["", "content", "none"]),
    "export_format": st.sampled_from(["", "jsonl", "parquet"]),
    "evict_readers": st.booleans(),
    "give_up_history": st.lists(TOPICS, unique=True).map(tuple),
    "copy_limit": st.integers(0, 1 << 50),
}


@given(st.fixed_dictionaries(FIELDS).map(lambda fields: RunRequest(**fields)))
def test_the_options_of_a_request_are_read_as_that_request(request: RunRequest) -> None:
    """By click, for every option that a failback has."""
    _, options = parsed([*return_command("p->s", ["a"], request).argv][1:])
    assert request_of(cast("Any", options), "drkit reprotect") == request
    assert options["topics"] == ("a",)


@pytest.mark.parametrize("table", [FAILOVER, RETURN], ids=lambda table: table.name)
def test_what_ends_a_run_can_be_typed(table: Table) -> None:
    for command, verb in ((table.resume, "resume"), (table.abort, "abort")):
        said, options = parsed(command.plus("--flow", "it's->s").argv[1:])
        assert (options[verb], options["flow"]) == (True, "it's->s")
        assert not said.as_json
    assert table.next_commands(abortable=False) == str(table.resume)
    assert shlex.split(str(table.resume.plus("--reason", WHY)))[-1] == "WHY"


def test_the_options_of_a_failover_are_read_as_its_request() -> None:
    texts = dict.fromkeys(
        ("accept_data_loss", "despite_signs_of_life", "without_quorum", "clients_cut"), "it's"
    )
    flags = dict.fromkeys(("planned", "evict_members", "keep_positions", "repoint_others"), True)
    request = RunRequest(**texts, **flags, leave_behind=("a", "b"), acls_only_home="keep")  # type: ignore[arg-type]
    _, options = parsed(FAILOVER.typed("--all", *request.options()).argv[1:])
    assert {name: options[name] for name in request.given()} == request.given()


def test_every_field_of_a_request_is_an_option_of_a_command() -> None:
    """A new field that no command has an option for fails here."""
    known = {option for command in (reprotect, failover) for each in command.params for option in each.opts}
    assert {option_of(field) for field in RunRequest._fields} <= known


@pytest.mark.parametrize(
    ("method", "recorded", "cut"),
    [
        (SIZE, {}, True),
        (SIZE, {"t": None}, True),
        (ACL, {}, False),
        (ACL, {"t": None}, False),
        ("", {}, False),
    ],
    ids=["will be by size", "is by size", "will be by ACL", "an ACL replaces it", "none is wanted"],
)
def test_a_fence_that_refuses_drkit_is_foreseen(
    monkeypatch: pytest.MonkeyPatch, method: str, recorded: dict[str, None], *, cut: bool
) -> None:
    """Of an old primary that died unfenced the return fences by size only after it has begun."""
    found = SimpleNamespace(name=method, details=lambda topics: {"sizes": dict.fromkeys(topics)})
    monkeypatch.setattr(fence.LateFence, "method", lambda *_: found if method else None)
    monkeypatch.setattr(fence, "recorded_sizes", lambda _: recorded)
    monkeypatch.setattr(contact, "is_another", lambda _: False)
    monkeypatch.setattr(contact, "unplanned", lambda _: {"t": None})
    monkeypatch.setattr(contact, "_cut", lambda _: "")
    scoped = lambda topics: returning(scope=SimpleNamespace(topics=dict.fromkeys(topics)), state=None)  # noqa: E731
    monkeypatch.setattr(contact, "_of", lambda _, topics: scoped(topics))
    assert contact.fenced_by_size(returning(state=None)) == ["t"] * cut
