"""The service of one flow's failovers and returns: what each begins with, and its dry run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drkit.failover.checks.run_opening import least_term
from drkit.failover.checks.scope import choose
from drkit.failover.checks.survey import survey
from drkit.failover.core.commands import UNTIL_EXPORT
from drkit.failover.core.context import Context, Scope
from drkit.failover.core.request import RunRequest
from drkit.failover.core.reverse import begin_unreturned, reverse_flow
from drkit.failover.fencing.methods import SIZE
from drkit.failover.interpreter import request_errors
from drkit.failover.proposal import Confirm, ConfirmReturn, Proposal, Rehearsal, ReturnProposal, rehearse
from drkit.failover.returning.deciding import still_undecided
from drkit.failover.returning.return_plan import Outlook, outlook
from drkit.failover.returning.scope import choose as choose_return
from drkit.failover.returning.scope import promoted
from drkit.failover.runs import NAMED, NO_DECISION, NO_SCOPE, Runs
from drkit.failover.steps.fence import FenceStep
from drkit.failover.steps.snapshot import refusals_of
from drkit.journal.journal import NoJournal
from drkit.journal.machine import FAILOVER, RETURN, StepName


class FailoverService(Runs):
    """One flow's failovers and returns in one process. Use it from one thread, in a ``with``."""

    def begin(
        self,
        groups: Sequence[str],
        request: RunRequest,
        confirm: Confirm = lambda _: None,
        decision: Mapping[str, Any] = NO_DECISION,
        *,
        topics: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Fail over some groups and topics, or everything when none is named; return the report.

        :param topics: by their names on the source, also those that no group reads
        :param confirm: called before anything is begun
        :param decision: who decided, and why; journalled. Empty: the caller, and the current votes
        :raises Refused: by a gate or a step; `report` shows how far the run came
        :raises DrkitError: a step failed
        """
        self.refuse_under_way()
        context = self._new_context(NO_SCOPE, request, NoJournal(), decision)
        with request_errors():
            recorded = None
            if not decision:  # an automatic failover opens what was copied
                accepted = bool(request.accept_data_loss)
                recorded = begin_unreturned(context, (*groups, *topics), accepted=accepted)
            chosen = choose(context, groups, topics, recorded)
            context = self._context = replace(context, scope=chosen.scope)
            seen = survey(context, chosen.readings)
            refusals = refusals_of(context, seen)
        for _, refusal in refusals:
            raise refusal
        confirm(Proposal(self.flow.name, chosen, seen, context.settings.flow_back(self.flow)))
        return self._begun(context, {"asked": chosen.to_json()}, decision)

    def begin_return(
        self,
        request: RunRequest,
        confirm: ConfirmReturn = lambda _: None,
        *,
        topics: Sequence[str] = (),
        decides_later: bool = False,
        until_export: bool = False,
    ) -> dict[str, Any]:
        """Make the old primary the standby of the new one; return the report.

        :param confirm: called before anything is begun, with what would be done
        :param topics: by their names on the old primary, or empty for all that a failover has promoted
        :param decides_later: begin also while a decision is missing: the run keeps what the old
            primary has, exports it, and is held then
        :param until_export: on request of a person: printed commands repeat the option
        :raises Undecided: a decision is missing
        :raises Refused: a step refuses, or there is nothing to return
        :raises DrkitError: a step failed
        """
        proposal = self.rehearse_return(
            request, topics, until_export=until_export
        )  # a refusal leaves no run behind
        context = self._context
        assert context is not None  # noqa: S101  of the rehearsal
        if not (decides_later or until_export) and (error := still_undecided(context)) is not None:
            raise error
        confirm(proposal)
        # On record: a run that is resumed and ends without a change prints the command that begins it again.
        words = [*(f"{NAMED}{topic}" for topic in topics), *([UNTIL_EXPORT] if until_export else [])]
        return self._begun(context, {"table": RETURN.name, "words": words}, NO_DECISION)

    def rehearse_return(
        self, request: RunRequest, topics: Sequence[str] = (), *, until_export: bool = False
    ) -> ReturnProposal:
        """Return what each step of a failback would do. Changes nothing.

        :param until_export: as for :meth:`begin_return`
        :raises DrkitError: a step would refuse, or a cluster does not answer
        """
        self.refuse_under_way()
        with request_errors():
            context = self._return_of(request, topics, until_export=until_export)
            lines, back = rehearse(context, self._steps[RETURN.name], RETURN), reverse_flow(context)
            error = still_undecided(context)
        return ReturnProposal(
            back.target, back.source, back.name, context.scope.topics, lines,
            undecided=error.evidence if error is not None else "",
        )  # fmt: skip

    def switch_by_size(self, topics: Collection[str]) -> list[str]:
        """Return the topics that a switchover would fence by size, so that its failback needs `clients_cut`.

        Empty if that was stated for other topics of the flow: it counts for these, too.

        :param topics: by their names on the source
        :raises DrkitError: which fence they get is unknown
        """
        scope = Scope({t: t for t in topics}, (), whole_flow=False)
        context = self._new_context(scope, RunRequest(planned=True), NoJournal(), NO_DECISION)
        with request_errors():
            if any(role.clients_cut for name, role in promoted(context).items() if name not in topics):
                return []
            method = FenceStep().method(context)
        return sorted(topics) if method is not None and method.name == SIZE else []

    def outlook(self, request: RunRequest, topics: Sequence[str] = ()) -> Outlook:
        """Return what a failback would do, topic by topic; the old primary may be away. Raises DrkitError."""
        with request_errors():
            return outlook(self._return_of(request, topics, while_away=True))

    def _return_of(
        self, request: RunRequest, topics: Sequence[str], *, until_export: bool = False,
        while_away: bool = False,
    ) -> Context:  # fmt: skip
        context = self._new_context(NO_SCOPE, request, NoJournal(), NO_DECISION)
        chosen = choose_return(context, topics, while_away=while_away)
        scope = Scope(chosen, (), whole_flow=False)
        self._context = replace(context, scope=scope, named_topics=tuple(topics), until_export=until_export)
        return self._context

    def rehearse(self, groups: Sequence[str], request: RunRequest, topics: Sequence[str] = ()) -> Rehearsal:
        """Return what each step would do and what would be refused. Changes nothing.

        :raises Refused: a run is under way
        :raises DrkitError: a cluster does not answer
        """
        self.refuse_under_way()
        journal = NoJournal()
        context = self._new_context(NO_SCOPE, request, journal, NO_DECISION)
        with request_errors():
            recorded = begin_unreturned(context, (*groups, *topics), accepted=False)
            chosen = choose(context, groups, topics, recorded)
            known = self._topic.history.term + 1
            term = max(least_term(context, self._folder), known, request.term)
            context = self._context = replace(context, scope=chosen.scope, term=term)
            seen = survey(context, chosen.readings)
            journal.found[StepName.SNAPSHOT] = seen.to_json()
            refusals = refusals_of(context, seen)
            lines = rehearse(context, self._steps[FAILOVER.name])
            return Rehearsal(chosen, seen, lines, refusals, context.settings.flow_back(self.flow))
