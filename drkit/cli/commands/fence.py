"""``drkit fence``: show, apply and lift fences of the old primary."""

from __future__ import annotations

from typing import Any

from drkit.cli import options
from drkit.cli.help import group
from drkit.cli.loading import work

_PENDING = (
    "the only one, else the only one with a pending fence or lift, else the one that waits for its return"
)


@group(
    examples={
        "drkit fence show": "Show fences, and test whether producers are refused",
        "drkit fence pay": "Apply pending fences once the old primary is back",
        "drkit fence lift": "Let clients write to the primary again",
    }
)
def fence() -> None:
    """Show, apply or lift fences of the old primary."""


@fence.command(
    examples={
        "drkit fence show": "Show fences, and test whether producers are refused",
        "drkit fence show --flow 'primary->standby'": "Of one of several flows",
        "drkit fence show --json": "The same as JSON",
    }
)
@options.flow(_PENDING)
def show(**given: Any) -> None:
    """Show active and pending fences, and test them with canaries."""
    work("drkit.cli.actions.fence").show(**given)


@fence.command(
    examples={
        "drkit fence pay --dry-run": "Show what would be done",
        "drkit fence pay": "Apply pending fences and lifts",
        "drkit fence pay --flow 'primary->standby' --yes": "Of one flow, without a question",
    }
)
@options.flow(_PENDING)
@options.dry_run()
@options.yes("Do not ask before restoring a fence that was lifted by hand.")
def pay(**given: Any) -> None:
    """Apply pending fences on the old primary, and pending lifts.

    A fence is applied as in the failover: open transactions are resolved, and a canary on every partition
    proves it. The fence of a failover that was rolled back is lifted. On topics that the new primary owns, a
    fence that was lifted by hand or by drkit fence lift is restored.

    Exit code: 0 applied, or nothing is pending in any flow; 1 the primary does not answer; 3 it still accepts
    writes.
    """
    work("drkit.cli.actions.fence").pay(**given)


@fence.command(
    examples={
        "drkit fence lift --dry-run": "Show what would be done",
        "drkit fence lift --topic orders": "Lift the fence of one topic",
        "drkit fence lift --accept-divergence 'standby is gone'": "Accept that both clusters may take writes",
    }
)
@options.flow()
@options.dry_run()
@options.topics("A topic of the source.")
@options.accept("--accept-divergence", "Accept that both clusters may take writes; the reason is recorded.")
@options.yes()
def lift(**given: Any) -> None:
    """Lift active fences and cancel pending ones.

    An abort does this itself.

    Exit code: 0 lifted, 1 the primary does not answer, 3 the new primary owns these topics.
    """
    work("drkit.cli.actions.fence").lift(**given)
