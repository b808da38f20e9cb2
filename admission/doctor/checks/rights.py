"""Rights of the ServiceAccounts: what config/rbac grants is in effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from admission.doctor.checks.settings import issues_certificates
from admission.doctor.expected import Right
from admission.doctor.finding import Check, Finding
from admission.doctor.question import Question
from admission.doctor.view import View
from admission.engine.listed import listed
from api.kube.resources import CONFIG_MAPS, DEPLOYMENTS


def _found(view: View) -> Iterator[Finding]:
    needed = {*view.expected.rights, *(view.expected.certificates if issues_certificates(view) else ())}
    by_file: defaultdict[tuple[str, str], list[Right]] = defaultdict(list)
    for right in view.refused:
        if right in needed:
            by_file[right.account, right.file].append(right)
    for (account, file), missing in sorted(by_file.items()):
        what = f"may not {listed([str(right) for right in missing], 3)}"
        command = view.command("apply", "--server-side", "--force-conflicts", "-f", file)
        yield Finding(f"ServiceAccount {account}", what, command)


CHECKS: Final = (
    Check(
        "rights",
        (Question.RIGHTS, DEPLOYMENTS, CONFIG_MAPS),
        "A process lacks a right that it needs. For rights that Stowage's roles do not grant, the API server is asked whether "
        "others do (SubjectAccessReview).",
        "Its lists, watches or writes are refused: jobs wait, or stay as they are.",
        "applies the roles and bindings of config/rbac",
        _found,
    ),
)
