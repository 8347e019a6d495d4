"""One observer of one flow: senses, votes, and the verdict of every moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from drkit.clock import Millis, wall_ms
from drkit.config import FlowSettings, Settings
from drkit.config.tables.auto_proof import fenced_within_seconds
from drkit.detect import votes
from drkit.detect.agents import AgentNote, Agents, why_stale
from drkit.detect.awake import AwakeClock
from drkit.detect.note_kinds import LOOK, Automatic, KnownBrokers
from drkit.detect.notes import Note, Speakers
from drkit.detect.noticeboard import Noticeboard
from drkit.detect.verdict import AutoFacts, Picture, Verdict, judge
from drkit.detect.votes import Heard, Says, Tally, Vote, VoteRules, tally
from drkit.model import FlowAliases
from drkit.watch.identity import ObserverIdentity
from drkit.watch.senses import Sensed, Senses

_START_SECONDS: Final = 10.0
"""A target has this long until its first answer is missed."""
_ENDED_MS: Final = 24 * 3600 * 1000
_SHOWN: Final = 5
"""Maximum number of shown notes that do not count."""


class Moment(NamedTuple):
    """One observer's conclusion at one moment."""

    aliases: FlowAliases
    at_ms: int
    verdict: Verdict
    picture: Picture
    vote: Vote
    sensed: Sensed
    votes: tuple[Vote, ...]
    """Votes of all observers, including our own and those that do not count."""
    agents: tuple[AgentNote, ...]
    automatic: Automatic | None

    @property
    def flow(self) -> str:
        """The flow's name."""
        return self.aliases.name

    def as_dict(self) -> dict[str, Any]:
        """As plain data: what is printed, posted and journalled."""
        return {
            "flow": self.flow,
            "at_ms": self.at_ms,
            **self.verdict.as_dict(),
            "observer": self.vote.observer,
            "source_last_seen_ms": max(
                (v.alive_ms for v in self.votes if v.alive_ms is not None), default=None
            ),
            "lost_at_ms": self.at_ms - round(self.picture.gone_for * 1000)
            if self.verdict.primary_lost
            else None,
            "dead_since_ms": self._dead_since_ms(),
            "copied_ms": self.sensed.loss.sighting.copied_ms,
            "looked_ms": self.sensed.loss.sighting.looked_ms,
            "fence_owed": self.picture.fence_owed,
            "risk_seconds": self.picture.risk.seconds,
            "risk_if_dead_seconds": self.picture.risk.if_dead_seconds,
            "risk_records": self.picture.risk.records,
            "phi": self.picture.phi,
            "votes": [v.to_json() for v in self.votes],
            "agents": [a.to_json() for a in self.agents],
            "ignored": list(self.picture.tally.ignored),
            "findings": [f._asdict() for f in self.sensed.findings],
        }

    def _dead_since_ms(self) -> int | None:
        """Time from which the lost primary took no writes, or None if no fence agents prove it."""
        dead_for = self.picture.dead_for
        if dead_for is None or not self.verdict.primary_lost:
            return None
        return self.at_ms - round(dead_for * 1000)


class Observer:
    """Looks, votes, hears the others. Ask :meth:`look` at least every vote interval, from one thread."""

    def __init__(
        self,
        settings: Settings,
        flow: FlowSettings,
        identity: ObserverIdentity,
        clock: AwakeClock,
        wall: Millis = wall_ms,
    ) -> None:
        self.flow = flow
        self.identity = identity
        self._settings, self._clock, self._wall = settings, clock, wall
        watch = settings.watch
        self.senses = Senses(settings, flow, clock)
        aliases = dict.fromkeys(a for a in (flow.target, watch.third) if a is not None)
        speakers = Speakers.of(settings)
        self.boards = [
            Noticeboard(settings.cluster(a), flow, clock, watch.vote_ttl_seconds, speakers=speakers)
            for a in aliases
        ]
        self._rules = VoteRules(watch.vote_ttl_seconds, watch.clock_margin_seconds, watch.observer_count)
        self._agents = Agents(settings.fence_agent.ttl_seconds)
        self._began = self._renewed = self._published = clock.now()
        self._sequence = 0
        self._alive_ms: int | None = None
        self._said: Says | None = None
        self._known: KnownBrokers | None = None

    def start(self) -> None:
        """Start all threads."""
        for board in self.boards:
            board.start()
        self.senses.start()

    def stop(self) -> None:
        """Stop all threads."""
        self.senses.stop()
        for board in self.boards:
            board.stop()

    def look(self) -> Moment:
        """Judge this moment, and publish a vote."""
        sensed = self.senses.sensed()
        self._hear_agents()
        vote = self._vote(sensed.picture)
        heard = list(self._heard())
        counted = tally(
            vote, heard, self._clock.now(), self._rules, votes=self.identity.votes, dropped=self._dropped()
        )
        automatic = self.target_board.automatic  # people's notes are on the target only
        picture = self._picture(sensed, counted, automatic)
        self._share_known()
        others = {h.vote.observer: h.vote for h in heard if h.live and h.vote.observer != vote.observer}
        return Moment(
            aliases=self.flow.aliases,
            at_ms=self._wall(),
            verdict=judge(picture),
            picture=picture,
            vote=vote,
            sensed=sensed,
            votes=(vote, *(others[n] for n in sorted(others))),
            agents=tuple(self._agents.newest_notes()),
            automatic=automatic,
        )

    @property
    def is_ready(self) -> bool:
        """Whether a probe has ended."""
        return any(p is not None for p in self.senses.probes.newest().values())

    @property
    def is_settled(self) -> bool:
        """Whether the flow and its target were checked, or a target that does not answer had its time."""
        if self.target_board.silent_seconds() is None:
            return self._clock.now() - self._began >= _START_SECONDS
        return self.senses.has_checked_target

    @property
    def target_board(self) -> Noticeboard:
        """The topic on the flow's target."""
        return self.boards[0]

    def _vote(self, picture: Picture) -> Vote:
        now, says = self._clock.now(), votes.MEANS[picture.seen.sight]
        if picture.seen.since is None and says is not Says.UNSURE:
            self._alive_ms = self._wall()
        renews = {} if says is Says.GONE else self._agents.renewals(now)
        if says is not Says.GONE:
            self._renewed = now
        self._sequence += 1
        vote = Vote(
            observer=self.identity.name, run=self.identity.run, sequence=self._sequence, at_ms=self._wall(),
            sight=picture.seen.sight, evidence=picture.seen.evidence, phi=picture.phi,
            quiet_seconds=picture.moved_ago, abstained_seconds=now - self._renewed, alive_ms=self._alive_ms,
            renews=renews, mode=self._settings.failover.mode,
        )  # fmt: skip
        if now - self._published >= self._settings.watch.vote_interval_seconds or says is not self._said:
            self._published, self._said = now, says
            key = Vote.key(self.identity.name) if self.identity.votes else LOOK
            for board in self.boards:
                board.publish(key, vote)
                self._forget_ended(board, vote)
        return vote

    def _forget_ended(self, board: Noticeboard, own: Vote) -> None:
        """Delete votes of observers that ended: without configured names, each machine leaves one."""
        for note in board.all(Vote) if self.identity.votes else ():
            if own.at_ms - note.body.at_ms > _ENDED_MS:
                board.publish(Vote.key(note.body.observer), None)

    def _heard(self) -> Iterable[Heard]:
        for board in self.boards:
            for note in board.all(Vote):
                doubt = note.doubt.at(self._clock.now())
                yield Heard(note.body, note.arrived, note.wall_ms, note.live, doubt)

    def _dropped(self) -> list[str]:
        """Recent notes that do not count because of their writer or age, in words."""
        seconds, now = self._settings.watch.vote_ttl_seconds, self._clock.now()
        found = {key: why for board in self.boards for key, why in board.strangers(seconds).items()}
        for board in self.boards:
            for note in board.all(AgentNote):
                if why := note.doubt.at(now) or self._stale(note):
                    found[AgentNote.key(note.body.agent)] = why
        told = [f"{key}: {why}" for key, why in sorted(found.items())]
        return [*told[:_SHOWN], *([f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else [])]

    def _hear_agents(self) -> None:
        notes = [note for board in self.boards for note in board.all(AgentNote)]
        doubted = {note.body.agent for note in notes if note.doubt.at(self._clock.now())}
        for name in doubted:
            self._agents.forget(name)
        for note in notes:
            if note.live and note.body.agent not in doubted:
                self._agents.take(note.body, note.arrived, self._stale(note))

    def _stale(self, note: Note[AgentNote]) -> str:
        ttl, margin = self._settings.fence_agent.ttl_seconds, self._settings.watch.clock_margin_seconds
        return why_stale(note.body, note.wall_ms, ttl, margin) if note.live else ""

    def _picture(self, sensed: Sensed, counted: Tally, automatic: Automatic | None) -> Picture:
        settings = self._settings
        silent = self.target_board.silent_seconds()
        allowed = max(settings.watch.vote_ttl_seconds, 3 * settings.watch.vote_interval_seconds)
        young = silent is None and self._clock.now() - self._began < _START_SECONDS
        picture = replace(
            sensed.picture,
            threshold=settings.detection.phi_threshold,
            still_seconds=settings.detection.confirm_seconds,
            target_answers=young or (silent is not None and silent <= allowed),
            target_error=self.target_board.why,
            tally=counted,
            paused=self.target_board.pause,
            rpo_seconds=settings.failover.rpo_seconds,
            auto=self._auto(sensed.picture.gone_for, automatic) if settings.failover.mode == "auto" else None,
        )
        return replace(picture, risk=sensed.loss.risk(picture.dead_for))

    def _auto(self, gone_for: float, automatic: Automatic | None) -> AutoFacts:
        lost_at = self._clock.now() - gone_for
        agent, watch = self._settings.fence_agent, self._settings.watch
        return AutoFacts(
            last_seconds=(self._wall() - automatic.at_ms) / 1000 if automatic else None,
            acknowledged=automatic is None or automatic.acknowledged_ms is not None,
            window_seconds=watch.window_seconds,
            agents=agent.agent_count,
            agents_armed=self._agents.armed(lost_at),
            agents_fenced=self._agents.fenced(lost_at),
            delay_seconds=watch.failover_delay_seconds,
            fenced_within_seconds=fenced_within_seconds(watch, agent),
        )

    def _share_known(self) -> None:
        """Publish the primary's brokers on the boards, and read them from there."""
        notes = [note for board in self.boards if (note := board.one(KnownBrokers)) is not None]
        self.senses.probes.remember(note.body for note in notes)
        known = self.senses.probes.known()
        if known != self._known and known.brokers and all(b.is_read for b in self.boards[:1]):
            self._known = known
            for board in self.boards if self.identity.votes else ():
                board.publish(KnownBrokers.KEY, known)
