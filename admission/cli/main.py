"""The command `stowage`. Each subcommand has its own module; this one declares names and options."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from admission.cli.demo import demo as demo_command

if TYPE_CHECKING:
    from admission.world.rules import WorldRules

INTERRUPTED, NOT_SET_UP = 130, 2


class _Commands(TyperGroup):
    """Ends any command on Ctrl-C with exit code 130, as after a signal, and on invalid settings with 2."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; prints one line if it was interrupted or the settings are invalid. Raises typer.Exit."""
        from api.process.environment import BAD_SETTINGS, faults

        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BAD_SETTINGS as bad:
            typer.echo(faults(bad), err=True)
            raise typer.Exit(NOT_SET_UP) from None


app = typer.Typer(name="stowage", cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def stowage() -> None:
    """Topology-aware gang admission for Kubernetes."""


@app.command()
def demo(
    deadline: Annotated[float, typer.Option(min=1, help="Seconds within which every job must reach its state.")] = 60.0,
    pace: Annotated[float, typer.Option(min=0, help="Pause in seconds after each job.")] = 1.0,
    page: Annotated[
        bool, typer.Option("--page", help="Serve the dashboard's page, and keep the cluster until Ctrl-C.")
    ] = False,
) -> None:
    """Run a small datacenter on an embedded API server: jobs that require racks, and one that waits with a reason."""
    raise typer.Exit(demo_command.run(deadline, pace, page=page))


def seconds(text: str | float) -> float:
    """Parses a duration option to seconds: `90s`, `1h30m`, or a number of seconds. Defaults are numbers already."""
    from api.text.duration import seconds as parsed

    if isinstance(text, float):
        return text
    try:
        return parsed(f"{text}s" if text.isascii() and text.replace(".", "", 1).isdigit() else text)
    except ValueError as bad:
        raise typer.BadParameter(str(bad)) from None


def rules() -> WorldRules:
    """Returns rules from the controller's settings (STOWAGE_CONFIG, environment), so that answers match its decisions."""
    from admission.settings import AdmissionSettings
    from admission.world.rules import rules_of

    return rules_of(AdmissionSettings())


Kubeconfig = Annotated[Path | None, typer.Option(help="The cluster's kubeconfig; else as kubectl finds it.")]
Context = Annotated[str | None, typer.Option(help="The kubeconfig's context.")]


@app.command()
def simulate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Manifests, output of kubectl get -o yaml, or a snapshot; folders; - for stdin."),
    ] = None,
    extra: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Would this job run now? On the live cluster unless files are named."),
    ] = None,
    snapshot: Annotated[Path | None, typer.Option(help="A snapshot, as `stowage snapshot` writes it.")] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Print the next decisions at the snapshot's moment.")
    ] = False,
    run_for: Annotated[
        float, typer.Option(parser=seconds, metavar="DURATION", help="Run time of jobs that declare none.")
    ] = 600.0,
    until: Annotated[float, typer.Option(parser=seconds, metavar="DURATION", help="Stop at this time.")] = inf,
    moves: Annotated[
        bool, typer.Option("--moves", help="Simulate also with moves, as controller.moves makes them, and compare.")
    ] = False,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            parser=seconds,
            metavar="DURATION",
            help="Time between checkpoints of jobs that declare none, from which stopped jobs continue; by default none.",
        ),
    ] = inf,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every workload.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the occupancy of the tree to NAME.svg or NAME.png.")
    ] = None,
    picture_at: Annotated[
        float | None,
        typer.Option(parser=seconds, metavar="DURATION", help="Time of the picture; by default the fullest moment."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Simulate jobs and nodes from files on virtual time, or one more job on the live cluster. Changes nothing."""
    from admission.cli import simulate as command

    if moves and (replay or extra):
        raise typer.BadParameter("--moves excludes --replay and --with: it compares two simulations of all jobs")
    if checkpoint_every <= 0:
        raise typer.BadParameter("--checkpoint-every: must be more than 0")
    arguments = command.SimulateArguments(
        files=[*(files or ()), *([snapshot] if snapshot else ())],
        extra=extra or (),
        run_for=run_for,
        until=until,
        as_json=as_json,
        all_rows=all_rows,
        picture=picture,
        picture_at=picture_at,
        replay=replay,
        moves=moves,
        save_every=checkpoint_every,
        kubeconfig=kubeconfig,
        context=context,
    )
    raise typer.Exit(command.run(arguments, rules()))


@app.command()
def snapshot(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Read these files instead of the live cluster.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Save the controller's state to a file; `stowage simulate --snapshot` makes the same decisions from it. Only reads."""
    from admission.cli import snapshot as command

    raise typer.Exit(command.run(output, rules(), files=files or (), kubeconfig=kubeconfig, context=context))


@app.command()
def explain(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="Of a Workload or its job.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    snapshot: Annotated[Path | None, typer.Option(help="A snapshot instead of the live cluster.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain why a workload waits, level by level, and which changes would admit it; each was tried. Only reads."""
    from admission.cli import explain as command

    arguments = command.ExplainArguments(
        name, as_json=as_json, snapshot=snapshot, kubeconfig=kubeconfig, context=context
    )
    raise typer.Exit(command.run(arguments, rules()))


@app.command()
def defrag(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Read these files, or a snapshot, instead of the live cluster.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the moves and change nothing: the default.")] = False,
    make: Annotated[
        bool,
        typer.Option("--apply", help="Print the moves, then have the controller make them. Not with files or --for."),
    ] = False,
    jobs: Annotated[
        list[Path] | None, typer.Option("--for", help="A file with a job that shall start; else the first that waits.")
    ] = None,
    domain: Annotated[
        str, typer.Option(help="Make one domain of this level free; with --for, as if the job required the level.")
    ] = "",
    snapshot: Annotated[Path | None, typer.Option(help="A snapshot, as `stowage snapshot` writes it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Plan which running workloads move so that a gang gets its domain: moves, work lost, what then fits."""
    from admission.cli.defrag import command

    if make and (plan or files or snapshot or jobs):
        raise typer.BadParameter("--apply excludes --plan, --for, --snapshot and files: it changes a live cluster")
    arguments = command.DefragArguments(
        [*(files or ()), *([snapshot] if snapshot else ())], jobs or (), domain, as_json, kubeconfig, context, make
    )
    raise typer.Exit(command.run(arguments, rules()))


@app.command()
def doctor(
    preflight: Annotated[
        bool, typer.Option("--preflight", help="Before a migration from Kueue: what it has that Stowage does not do.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    all_rows: Annotated[bool, typer.Option("--all", help="Show every finding.")] = False,
    namespace: Annotated[str, typer.Option(help="Where Stowage (with --preflight: Kueue) is installed.")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check the installation and the cluster: what is wrong, why it matters, how to fix it. Changes nothing."""
    from admission.cli import doctor as command

    arguments = command.DoctorArguments(
        namespace, preflight=preflight, as_json=as_json, all_rows=all_rows, kubeconfig=kubeconfig, context=context
    )
    raise typer.Exit(command.run(arguments))


@app.command()
def dashboard(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0 selects a free one.")] = 8080,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the cluster as a live page on this machine: topology, queues, waiting jobs, what-if. Only reads."""
    from admission.cli import dashboard as command
    from admission.settings import AdmissionSettings

    arguments = command.DashboardArguments(port, open_page=open_page, kubeconfig=kubeconfig, context=context)
    raise typer.Exit(command.run(arguments, AdmissionSettings()))


@app.command()
def mcp(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Serve the dashboard's answers as MCP tools on stdin and stdout, for an assistant that starts this. Only reads."""
    from admission.cli import mcp as command
    from admission.settings import AdmissionSettings

    raise typer.Exit(command.run(command.McpArguments(kubeconfig, context), AdmissionSettings()))


@app.command("support-bundle")
def support_bundle(
    output: Annotated[Path, typer.Option("--output", "-o", help="The archive to write (.tgz).")],
    namespace: Annotated[str, typer.Option(help="Where Stowage is installed.")] = "stowage-system",
    snapshot: Annotated[bool, typer.Option(help="Add a snapshot of the controller's state.")] = True,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write one archive for support: objects, statuses, logs, metrics, doctor's report; secrets are removed."""
    from admission.cli import support_bundle as command

    arguments = command.BundleArguments(output, namespace, snapshot=snapshot, kubeconfig=kubeconfig, context=context)
    raise typer.Exit(command.run(arguments, rules()))


@app.command()
def version(
    client: Annotated[bool, typer.Option("--client", help="Ask no cluster.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print the version of this command, of the API server, and of Stowage in the cluster."""
    from admission.cli import version as command

    arguments = command.VersionArguments(client=client, as_json=as_json, kubeconfig=kubeconfig, context=context)
    raise typer.Exit(command.run(arguments))


topology = typer.Typer(no_args_is_help=True, help="Topologies from the labels that nodes have.")
app.add_typer(topology, name="topology")


@topology.command("init")
def topology_init(
    files: Annotated[list[Path] | None, typer.Argument(help="Files with nodes instead of the cluster's.")] = None,
    name: Annotated[str, typer.Option(help="The name of the Topology.")] = "default",
    flavor_by: Annotated[str, typer.Option(help="The label that tells kinds of machines apart.", metavar="KEY")] = "",
    source: Annotated[str, typer.Option(help="Whose labels to use, if nodes have those of several.")] = "",
    level: Annotated[
        list[str] | None,
        typer.Option(help="The label of a level, the widest first, in place of a known source's.", metavar="KEY"),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Write the objects instead of printing them.")] = False,
    topology_only: Annotated[bool, typer.Option("--topology-only", help="No ResourceFlavors.")] = False,
    label_nodes: Annotated[bool, typer.Option(help="Also label nodes that lack a level.")] = True,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Make Topology and ResourceFlavors from the labels of nodes (clouds, Topograph); show the tree and what is odd."""
    from admission.cli import topology as command

    arguments = command.InitArguments(
        files=files or (),
        name=name,
        flavor_by=flavor_by,
        source=source,
        levels=level or (),
        apply=apply,
        topology_only=topology_only,
        label_nodes=label_nodes,
        kubeconfig=kubeconfig,
        context=context,
    )
    raise typer.Exit(command.run(arguments))


jobkind = typer.Typer(
    no_args_is_help=True, help="Kinds of job that data describes: try one on a sample, print its rights."
)
app.add_typer(jobkind, name="jobkind")

KindFile = Annotated[Path, typer.Argument(metavar="FILE", help="A file with a JobKind.")]


@jobkind.command("test")
def jobkind_test(
    file: KindFile, sample: Annotated[Path, typer.Argument(metavar="SAMPLE", help="A file with an object of the kind.")]
) -> None:
    """Print what a JobKind reads from a sample: pod sets, requests, state, and the patches of start and stop."""
    from admission.cli import jobkind as command

    raise typer.Exit(command.test(file, sample))


@jobkind.command("rbac")
def jobkind_rbac(file: KindFile) -> None:
    """Print the ClusterRoles that Stowage's processes need for jobs of the kind, for `kubectl apply -f -`."""
    from admission.cli import jobkind as command

    raise typer.Exit(command.rbac(file))


@app.command()
def uninstall(
    keep_crds: Annotated[
        bool, typer.Option("--keep-crds", help="Leave CRDs, queues and Workloads to the Kueue that takes over.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    namespace: Annotated[str, typer.Option(help="Where Stowage is installed.")] = "stowage-system",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Remove Stowage from the cluster in an order that leaves no object stuck on a finalizer. Asks first."""
    from admission.cli import uninstall as command

    def confirm(what: str) -> bool:
        typer.echo(what)
        return yes or typer.confirm("Go on?")

    arguments = command.UninstallArguments(namespace, keep_crds=keep_crds, kubeconfig=kubeconfig, context=context)
    raise typer.Exit(command.run(arguments, confirm))
