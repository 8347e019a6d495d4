"""``drkit completion``: the script by which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from drkit.cli.talk import show
from drkit.errors import Usage

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete drkit's commands and options.

    Add to ~/.bashrc: eval "$(drkit completion bash)"

    Add to ~/.zshrc: eval "$(drkit completion zsh)"

    For fish: drkit completion fish > ~/.config/fish/completions/drkit.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise Usage("shell_unknown", where="drkit completion", shell=shell)
    show(found(context.find_root().command, {}, "drkit", "_DRKIT_COMPLETE").source())
