"""`kubectl stowage ...`: kubectl runs `kubectl-stowage` of the PATH, and `kubectl_complete-stowage` to complete words.

kubectl passes on the words after `stowage` and none of its own options: `kubectl stowage explain --context c a/b`.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys

from typer.main import get_command

from admission.cli.main import app

_NO_FILES = ":4"
"""kubectl's directive that the shell adds no file names of its own."""
_FILES_TOO = ":0"
_OF_A_SHELL = ("install_completion", "show_completion")


def run() -> None:
    """Runs a command under the plugin's name.

    The options that install completion in a shell are left out: for a command of two words they would write a script that no
    shell can run, and put it in the place of kubectl's own.
    """
    command = get_command(app)
    command.params = [each for each in command.params if each.name not in _OF_A_SHELL]
    command(prog_name="kubectl stowage")


def complete() -> None:
    """Prints the completions of the last word, one a line, and kubectl's directive.

    They are computed as for bash, whose completion script sets the same variables.
    """
    words = sys.argv[1:]
    os.environ["COMP_WORDS"] = shlex.join(["stowage", *words])
    os.environ["COMP_CWORD"] = str(max(1, len(words)))
    os.environ["_STOWAGE_COMPLETE"] = "complete_bash"
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        get_command(app).main([], prog_name="stowage", complete_var="_STOWAGE_COMPLETE")
    lines = [line for line in output.getvalue().splitlines() if line]
    print("\n".join([*lines, _NO_FILES if lines else _FILES_TOO]))
