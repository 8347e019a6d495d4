"""``drkit completion``: the script by which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from drkit.cli.common import COMPLETE
from drkit.cli.help import command
from drkit.cli.talk import show
from drkit.errors import Usage

_SHELLS = ("bash", "zsh", "fish")


@command(
    examples={
        'eval "$(drkit completion bash)"': "Add this line to ~/.bashrc",
        'eval "$(drkit completion zsh)"': "Add this line to ~/.zshrc",
        "drkit completion fish > ~/.config/fish/completions/drkit.fish": "Run this once for fish",
    }
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    It completes commands and options of drkit.
    """
    found = get_completion_class(shell)
    if found is None:
        raise Usage("shell_unknown", where="drkit completion", shell=shell)
    show(found(context.find_root().command, {}, "drkit", COMPLETE).source())
