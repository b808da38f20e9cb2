"""YAML with Helm's actions between its lines.

Actions are marks in the object: the key or the list item `@@ACTION` becomes a line of its own. The value `=@ACTION` becomes
the inserted text, `=>ACTION` an inserted block of YAML and `=|ACTION` an inserted block of text, both indented as their place
needs. A key ends with ` # NAME` where an object needs the same action twice. Everything else is literal text, braces too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

LINE: Final = "@@"
VALUE: Final = "=@"
BLOCK: Final = "=>"
TEXT: Final = "=|"
_OWN_LINE = re.compile(r"(?P<indent> *)(?:- )?(?P<quote>['\"]?)@@(?P<action>.*?)(?P=quote)(?:: null)?")
_INSERTED = re.compile(r"(?P<start> *(?:- )*(?:[^\s:]+: )?)(?P<quote>['\"]?)=(?P<form>[@>|])(?P<action>.*?)(?P=quote)")


def rendered(obj: Mapping[str, Any]) -> str:
    """Returns the text of one template."""
    text = yaml.dump(obj, sort_keys=False, width=10_000, allow_unicode=True, Dumper=_Dumper)
    return "".join(f"{_line(line)}\n" for line in text.splitlines())


def _line(line: str) -> str:
    if found := _OWN_LINE.fullmatch(line):
        return f"{found['indent']}{{{{- {_unquoted(found)} }}}}"
    if found := _INSERTED.fullmatch(line):
        action = _unquoted(found)
        if found["form"] == "@":
            return f"{found['start']}{{{{ {action} }}}}"
        depth = len(found["start"]) - len(found["start"].lstrip(" ")) + 2
        literal = " |" if found["form"] == "|" else ""
        return f"{found['start'].rstrip()}{literal}\n{' ' * depth}{{{{- {action} | nindent {depth} }}}}"
    return re.sub(r"\{\{|\}\}", lambda braces: f'{{{{ "{braces[0]}" }}}}', line)


def _unquoted(match: re.Match[str]) -> str:
    """The action as it was before YAML quoted the scalar."""
    text = f"{match['quote']}{match['action']}{match['quote']}"
    action = str(yaml.safe_load(text)) if match["quote"] else match["action"]
    return action.partition(" # ")[0]


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key, and writes long texts as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value.strip("\n") else None)


_Dumper.add_representer(str, _text)
