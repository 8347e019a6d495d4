"""``drkit reprotect``: make the old primary the standby of the new one, resume that, or roll it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Unpack

from drkit.cli.actions.back.choices import Decisions, decided_on_terminal, request_of, said_of
from drkit.cli.actions.failover import reported
from drkit.cli.configuration import configuration
from drkit.cli.questions import ask, can_ask
from drkit.cli.render import emit
from drkit.cli.screens.failover import Progressing, rows_of
from drkit.cli.screens.holding import show_held, show_put_back
from drkit.cli.screens.outlook import show_outlook
from drkit.cli.screens.reprotect import show_return, verdict_of_return
from drkit.cli.session import session, to_type
from drkit.cli.talk import say
from drkit.cli.waiting_flow import flow_that_waits, only_flow
from drkit.config import FlowSettings, Settings
from drkit.counted import counted, first_of
from drkit.errors import Refused, Usage
from drkit.failover.checks.run_opening import person
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import state_of
from drkit.failover.forgetting import OverTopic, forget, forgettable
from drkit.failover.loss.findings import CopyFate
from drkit.failover.new_primary.costs import CopyRate
from drkit.failover.new_primary.hold import held_now, hold, put_back
from drkit.failover.proposal import ConfirmReturn, ReturnProposal
from drkit.failover.returning.deciding import Undecided
from drkit.failover.returning.return_plan import Outlook
from drkit.failover.service import FailoverService
from drkit.failover.third_cluster import NoFlow, ThirdCluster, failed_over, third_cluster
from drkit.journal.file import folder_of
from drkit.journal.journal import NoRun
from drkit.journal.lost import explained
from drkit.journal.machine import RETURN
from drkit.next_command import typed
from drkit.visible import visible

_FORGET: Final = f"{RETURN.command} --forget"


def forget_topics(service: FailoverService, topics: Sequence[str], *, dry_run: bool, yes: bool) -> None:
    """End the promotion of topics, and show it.

    :raises DrkitError: a side has one of them, or a cluster does not answer
    """
    planned = forgettable(service, topics)
    if dry_run or not planned:
        _show(planned, service.flow, done=False)
        return
    if not yes:
        for each in planned:
            say(visible(each.in_words))
        ask(f"Forget the promotion of {counted(len(planned), 'topic')}?", command=_FORGET)
    _show(forget(service, topics, by=person()), service.flow, done=True)


def _show(topics: Sequence[OverTopic], flow: FlowSettings, *, done: bool) -> None:
    answer = {"flow": flow.name, "forgotten": done, "topics": [t._asdict() for t in topics]}
    emit(answer, shown=_lines(topics, flow, done=done))


def _lines(topics: Sequence[OverTopic], flow: FlowSettings, *, done: bool) -> Iterator[str]:
    if not topics:
        yield f"nothing to forget: {flow.source} or {flow.target} has every promoted topic of {flow.name}"
        return
    number, back = counted(len(topics), "topic"), f"{flow.target}->{flow.source}"
    yield (
        f"the promotion of {number} is forgotten" if done else f"the promotion of {number} would be forgotten"
    )
    for each in topics:
        suffix = f"; {back} copies it as a new topic" if each.fate is CopyFate.RECREATED else ""
        yield f"  {each.in_words}{suffix}"


_HOLD: Final = f"{RETURN.command} --hold"


def hold_topics(
    settings: Settings, flow: FlowSettings, topics: Sequence[str], *, dry_run: bool, yes: bool
) -> None:
    """Have the new primary keep everything of promoted topics, after a question.

    :param flow: the flow that was failed over
    :raises DrkitError: nothing was promoted, or the new primary does not answer, or refuses
    """
    planned = hold(settings, flow, topics, by=person(), effects=False)
    changes = sum(bool(t.changes) for t in planned)
    if dry_run or not changes:
        show_held(planned, flow, done=False)
        return
    if not yes:
        show_held(planned, flow, done=False, asks=True)
        ask(f"Suspend retention on {flow.target} for {counted(changes, 'topic')}?", command=_HOLD)
    show_held(hold(settings, flow, topics, by=person()), flow, done=True)


def end_hold(settings: Settings, service: FailoverService) -> None:
    """Put back what is held, and show it; it may be repeated.

    :raises Usage: a return is under way, which copies what is held
    :raises DrkitError: the new primary does not answer, or refuses
    """
    run = service.under_way
    if run is not None and run.table is RETURN:
        evidence = f"run {run.run_id}: {run.state}"
        raise Usage("failback_under_way", where=f"{_HOLD} --abort", evidence=evidence, command=RETURN.command)
    show_put_back(put_back(settings, service.flow), service.flow)


def held_still(settings: Settings, flow: FlowSettings) -> str:
    """Return what is held and the command that ends it, or "" if nothing is held.

    :raises DrkitError: the new primary does not answer
    """
    held = held_now(settings, flow)
    if not held:
        return ""
    end = RETURN.typed("--flow", flow.name, "--hold", "--abort")
    return f"{flow.target} keeps everything of {counted(len(held), 'topic')} still; to end that: {end}"


def with_hold(settings: Settings, flow: FlowSettings, report: dict[str, Any]) -> dict[str, Any]:
    """The report of a return that was rolled back, with what is held still.

    :raises DrkitError: the new primary does not answer
    """
    line = held_still(settings, flow)
    return report | {"next": [*report["next"], line]} if line else report


def show_third(settings: Settings, name: str | None, to: str) -> None:
    """Check a flow to a third cluster, and print what it does and what to type.

    :param name: the flow that was failed over, or None for the only one
    :raises NoFlow: there is no such flow; the table for the configuration was printed
    :raises DrkitError: it is refused, or a cluster does not answer
    """
    there = settings.flow(name) if name is not None else failed_over(settings, to)
    try:
        third = third_cluster(settings, there, to)
    except NoFlow as error:
        if not session().as_json:
            say("add to the configuration:")
        emit({"flow": error.where, "toml": error.toml}, shown=[error.toml])
        raise
    next_ = [to_type(line) for line in next_of(third, there.name)]
    steps = (f"{number}. {line}" for number, line in enumerate(next_, start=1))
    emit({**third.to_json(), "next": next_}, shown=[shown(third, there.target, to), *steps])


def shown(third: ThirdCluster, active: str, to: str) -> dict[str, str]:
    """Return the flow to a third cluster as rows for a person."""
    begin = "copying continues where it stopped" if third.continues else "copied from the start of each log"
    groups = f"positions follow to {to}, exactly" if third.moves_groups else "do not move"
    runs = f"copied by {third.copied_by}" if third.copied_by else "not copied yet: no replicator runs"
    return {
        "flow": third.flow,
        "protects": f"{counted(len(third.topics), 'topic')} of {active}: {first_of(third.topics)}",
        "records": begin,
        "groups": groups,
        "now": runs,
    }


def next_of(third: ThirdCluster, there: str) -> list[str]:
    """Return the commands to type next."""
    start = [] if third.copied_by else [typed("drkit", "replicate", "--flow", third.flow)]
    later = typed("drkit", "failover", "--flow", third.flow, "--all")
    home = typed("drkit", "reprotect", "--flow", there, "--plan")
    return [
        *start,
        f"{typed('drkit', 'status', '--flow', third.flow)}; a later failover: {later}",
        f"the old primary was not asked, and stays as it is; its return: {home}",
    ]


_PLACE: Final = RETURN.command


class _Given(Decisions):
    """The options of the command."""

    flow: str | None
    to: str | None
    plan: bool
    dry_run: bool
    hold: bool
    forget: tuple[str, ...]
    until_export: bool
    resume: bool
    abort: bool
    take_over: bool
    yes: bool
    verbose: bool


def reprotect(**given: Unpack[_Given]) -> None:
    """Run ``drkit reprotect``."""
    request = request_of(given, _PLACE)
    _check(given)
    settings = configuration().settings
    if given["to"] is not None:
        show_third(settings, given["flow"], given["to"])
        return
    chosen = _chosen_flow(settings, given["flow"], is_under_way=given["resume"] or given["abort"])
    if len(settings.flows) > 1:
        session().flow = chosen.name  # printed commands are of this flow, too
    if given["hold"] and not given["abort"]:
        hold_topics(settings, chosen, given["topics"], dry_run=given["dry_run"], yes=given["yes"])
        return
    with FailoverService(settings, chosen, Progressing()) as service:
        if given["hold"]:
            end_hold(settings, service)
        elif given["forget"]:
            forget_topics(service, given["forget"], dry_run=given["dry_run"], yes=given["yes"])
        elif given["plan"]:
            _show_plan(service, request, given["topics"])
        elif given["dry_run"]:
            show_rehearsal(service.rehearse_return(request, given["topics"]))
        else:
            work = partial(_worked, settings, service, request, given)
            reported(service, work, verbose=given["verbose"])


def _show_plan(service: FailoverService, request: RunRequest, topics: tuple[str, ...]) -> None:
    """Print what a return would do; of one that is under way, where it is and what continues it."""
    run = service.under_way
    if run is None or run.table is not RETURN:
        show_outlook(service.outlook(request, topics), service.flow, request, topics)
        return
    try:
        complete = RunRequest.from_json(run.request).plus(request)
        found = service.outlook(complete, sorted(run.scope["topics"]))
    except Refused:  # its topics have begun, or something is in the way: the run says what
        found = Outlook([], CopyRate(0.0))
    show_outlook(found, service.flow, request, run=run)


def _worked(
    settings: Settings, service: FailoverService, request: RunRequest, given: _Given
) -> dict[str, Any]:
    """Begin a return, continue it, or roll it back; asks what is not decided."""
    if given["abort"] or given["resume"]:
        return _again(settings, service, request, given)
    return begun(
        service, request, _PLACE, topics=given["topics"], until_export=given["until_export"], yes=given["yes"]
    )


def _again(
    settings: Settings, service: FailoverService, request: RunRequest, given: _Given
) -> dict[str, Any]:
    _refuse_failover(service)
    try:
        if given["abort"]:
            report = service.abort("asked for by --abort", take_over=given["take_over"])
            return with_hold(settings, service.flow, report)
        resume = partial(service.resume, take_over=given["take_over"])
        return decided_with(resume, request, _PLACE, yes=given["yes"])
    except NoRun as error:
        error.what = f"there is no return to {'resume' if given['resume'] else 'abort'}"
        error.hint = "begin one: drkit reprotect"
        if given["abort"] and (held := held_still(settings, service.flow)):
            error.what, error.hint = "there is no return to abort, so nothing is rolled back", held
        folder = folder_of(settings.failover.journal_folder)
        raise explained(error, folder, service.flow.name) from error


def begun(
    service: FailoverService,
    request: RunRequest,
    place: str,
    *,
    topics: tuple[str, ...],
    yes: bool,
    until_export: bool = False,
) -> dict[str, Any]:
    """Begin a return. On a terminal what is not decided is asked when it is kept and exported: that can wait.

    :param place: the command, for errors
    :param yes: do not ask
    :param until_export: begin also what is not decided, and leave it held
    :raises Undecided: nobody can be asked
    :raises DrkitError: it is refused, held or failed
    """
    asks = can_ask() and not yes and not until_export
    confirm = asking(place, yes=yes)
    try:
        return service.begin_return(
            request, confirm, topics=topics, decides_later=asks, until_export=until_export
        )
    except Undecided as error:
        if not asks:
            raise
        decided = decided_on_terminal(error, request, place)
    if service.under_way is None:  # nothing was kept or exported, so the run has ended
        return service.begin_return(decided, topics=topics)
    return service.resume(decided)


def decided_with(
    work: Callable[[RunRequest], dict[str, Any]], request: RunRequest, place: str, *, yes: bool
) -> dict[str, Any]:
    """Do something that a person may have to decide about first; on a terminal, ask and do it then.

    :param yes: do not ask
    :raises Undecided: nobody can be asked
    :raises DrkitError: as the work
    """
    try:
        return work(request)
    except Undecided as error:
        if yes or not can_ask():
            raise
        request = decided_on_terminal(error, request, place)
    return work(request)


def _check(given: _Given) -> None:
    again = [f"--{name}" for name in ("resume", "abort") if given[name]]
    if wrong := _contradiction(given, again) or _not_with(given, again):
        raise Usage("options_conflict", where=_PLACE, conflict=wrong, place=_PLACE)


def _contradiction(given: _Given, again: list[str]) -> str:
    """Return what contradicts in the options of a return, or "" if nothing does."""
    looks = [f"--{name}" for name in ("plan", "dry-run") if given[name.replace("-", "_")]]  # type: ignore[literal-required]
    wrong = ""
    if len(again) > 1:
        wrong = "--resume and --abort exclude each other"
    elif looks and again:
        wrong = f"{looks[0]} shows a return that would begin, not {again[0]}"
    elif len(looks) > 1:
        wrong = "--plan and --dry-run exclude each other"
    elif given["take_over"] and not again:
        wrong = "--take-over is for --resume or --abort"
    elif given["abort"] and (said := said_of(given)):
        wrong = f"{said[0]} is not for --abort"
    elif given["resume"] and given["topics"]:
        wrong = "--topic is not for --resume: a return that is under way has its topics"
    return wrong


def _not_with(given: _Given, again: list[str]) -> str:
    """Which option means nothing beside one that begins no return, or none to its end; empty: none."""
    if given["until_export"] and (again or given["dispositions"]):
        other = (again or ["--disposition"])[0]
        return f"--until-export is for a return that is decided later, not {other}"
    if given["to"] is not None and (other := _beside(given, again, "hold", "plan", "until-export")):
        return f"--to begins no return, so {other} is not for it"
    if given["forget"] and (other := _beside(given, again, "hold", "plan", "until-export")):
        return f"--forget begins no return, so {other} is not for it"
    if given["hold"] and given["abort"]:
        return "--take-over is for a run, not for --hold" if given["take_over"] else ""
    if given["hold"] and (other := _beside(given, again, "plan", "until-export", without="--topic")):
        later = "to export now and decide later: --until-export"
        return f"--hold begins no return, so {other} is not for it; {later}"
    return ""


def _beside(given: _Given, again: list[str], *names: str, without: str = "") -> str:
    others = [o for o in said_of(given) if o != without]
    others += [f"--{name}" for name in names if given[name.replace("-", "_")]]  # type: ignore[literal-required]
    return next(iter(again + others), "")


def _chosen_flow(settings: Settings, name: str | None, *, is_under_way: bool) -> FlowSettings:
    """The flow of that name; without one, the only flow that waits for a return, or of whose one is open.

    :raises ConfigError: no flow has that name, or it is not clear which is meant
    :raises DrkitError: a cluster does not answer
    """
    if is_under_way:
        return only_flow(
            settings, name, _is_open, "no return of them is under way", "have a return under way"
        )
    return flow_that_waits(settings, name)


def _is_open(settings: Settings, there: FlowSettings, _back: FlowSettings) -> bool:
    with state_of(settings, there) as state:
        if state is None:
            return False
    if held_now(settings, there):
        return True  # --abort ends that
    with FailoverService(settings, there) as service:
        return service.under_way is not None and service.under_way.table is RETURN


def _refuse_failover(service: FailoverService) -> None:
    """Raise Usage if a failover is under way: it is not continued under the name of a return."""
    run = service.under_way
    if run is not None and run.table is not RETURN:
        hint = run.table.next_commands(abortable=run.abortable)
        raise Usage("not_a_failback_run", where=_PLACE, evidence=f"run {run.run_id}: {run.state}", hint=hint)


def show_rehearsal(found: ReturnProposal) -> None:
    """Print a dry run of a return."""
    show_return(found)
    rows, verdict = rows_of(found.lines), verdict_of_return(found)
    emit({"verdict": verdict, "steps": rows, "topics": dict(found.topics)}, shown=[rows, verdict])


def asking(place: str, *, yes: bool) -> ConfirmReturn:
    """What shows a return, and asks unless `yes` was said.

    :param place: the command, for errors
    """

    def confirm(proposal: ReturnProposal) -> None:
        show_return(proposal)
        if not (yes or proposal.undecided):  # that is asked later, before anything is destroyed
            ask(f"Make {proposal.old_primary} the standby?", command=place)

    return confirm
