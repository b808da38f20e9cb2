"""Checks the subject of a commit: `python -m hack.commit_message FILE`, the hook `commit-msg` of pre-commit.

The subject has at most 72 characters, no full stop at its end, a blank line below it, and no code that only the author
can read: a number in parentheses such as `(20, 1)`, `Issue 20`, `#20`, or a letter with a number at its end such as
`, B10`. Numbers of public trackers (`kueue#13148`) are no such code. What git itself writes (a merge, a fixup, a revert)
passes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

LONGEST: Final = 72
_OF_GIT: Final = re.compile(r"(Merge |Revert \"|fixup! |squash! |amend! )")
_CODES: Final = (
    re.compile(r"\(\d+(?:\.\d+)?(?:[,;:]| and )[^)]*\)$"),
    re.compile(r"\((?:\d+|[A-Z]\d+)\)$"),
    re.compile(r"\bissues? #?\d+", re.IGNORECASE),
    re.compile(r"(?<![\w-])#\d+"),
    re.compile(r"(?:, |: )[A-Z]\d{1,2}$"),
)
_SCISSORS: Final = "# ------------------------ >8 ------------------------"
USAGE: Final = "usage: python -m hack.commit_message FILE"


def problems(message: str) -> list[str]:
    """What is wrong with the message; comments and what git puts below its line of scissors do not count."""
    written = [line for line in message.partition(_SCISSORS)[0].splitlines() if not line.startswith("#")]
    while written and not written[0].strip():
        del written[0]
    if not written:
        return ["the message has no subject"]
    subject = written[0]
    if _OF_GIT.match(subject):
        return []
    wrong = []
    if len(subject) > LONGEST:
        wrong.append(f"the subject has {len(subject)} characters, {LONGEST} are allowed")
    if subject.endswith("."):
        wrong.append("the subject ends with a full stop")
    if any(code.search(subject) for code in _CODES):
        wrong.append("the subject has a code that no file explains: say the matter")
    if written[1:] and written[1].strip():
        wrong.append("the line below the subject is not blank")
    return wrong


def main(arguments: list[str]) -> int:
    """Prints what is wrong; 1 if anything is."""
    if len(arguments) != 1:
        print(USAGE, file=sys.stderr)
        return 2
    wrong = problems(Path(arguments[0]).read_text(encoding="utf-8", errors="replace"))
    for problem in wrong:
        print(f"commit message: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
