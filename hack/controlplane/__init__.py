"""A real Kubernetes control plane on loopback, for tests and benchmarks: started in about five seconds, gone in two.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok (plays nodes and kubelets), the JobSet controller
and kubectl are built from the sources that go.mod and go.sum pin, once per machine, into a cache folder; the LeaderWorkerSet
controller from leaderworkerset/go.mod, and the operators of job kinds from operators/*/go.mod, the first time that a cluster
asks for them. Linux only (the servers die with their parent by prctl).

    python -m hack.controlplane build [--lws] [--operators]  build if need be (5 to 15 minutes each), print the folder
    python -m hack.controlplane up   [--jobset] [--lws] [--dir D]  start, print the KUBECONFIG line, return
    python -m hack.controlplane ps   [--dir D]             memory of each server, start times
    python -m hack.controlplane down [--dir D]             stop what `up` started
    python -m hack.controlplane run  [--jobset] -- CMD...  start, run CMD with KUBECONFIG set, stop

In Python:

    with ControlPlane(folder, Options(jobset=True)) as cluster:
        cluster.add_nodes([node("n1", labels={"example.com/rack": "r1"})])
        cluster.kubectl("apply", "-k", "config/default")
        kubeconfig = cluster.service_account("stowage-system", "stowage-controller")

and in tests/e2e the fixture `cluster`. RBAC is on; nothing listens outside 127.0.0.1.

A pod on a kwok node runs for ever, unless annotated `stowage.test/run-for: 5s` (a Go duration; then it succeeds, or
fails with `stowage.test/exit-code: "3"`). A node labelled `stowage.test/node-down` is left alone by kwok: see
nodes.fail_node and nodes.heal_node.

Modules: toolchain (which Go), build (the cache), manifests (what the modules of JobSet and LeaderWorkerSet ship), pki,
kubeconfig, options, flags (argv of every server), processes, api (small blocking client), nodes, jobset, lws, operators (of
job kinds), cluster (ties them together), fixtures (pytest), __main__ (the commands).
"""
