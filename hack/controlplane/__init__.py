"""A real Kubernetes control plane on loopback, for tests and benchmarks. It starts in about five seconds and stops in two.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok (simulates nodes and kubelets), the JobSet controller and
kubectl are built from the sources pinned in go.mod and go.sum, once per machine, into a cache folder. The LeaderWorkerSet
controller (leaderworkerset/go.mod), the operators of job kinds (operators/*/go.mod) and Kueue itself (kueue/go.mod) are built
when a test first needs them. Linux only (prctl ends the servers with their parent).

    python -m hack.controlplane build [--lws] [--operators]  build what is missing (5 to 15 minutes each), print the folder
    python -m hack.controlplane up   [--jobset] [--lws] [--dir D]  start, print the KUBECONFIG line, return
    python -m hack.controlplane ps   [--dir D]             print memory and start time of each server
    python -m hack.controlplane down [--dir D]             stop what `up` started
    python -m hack.controlplane run  [--jobset] -- CMD...  start, run CMD with KUBECONFIG set, stop

In Python:

    with ControlPlane(folder, ClusterOptions(jobset=True)) as cluster:
        cluster.add_nodes([node("n1", labels={"example.com/rack": "r1"})])
        cluster.kubectl("apply", "-k", "config/default")
        kubeconfig = cluster.service_account("stowage-system", "stowage-controller")

and in tests/e2e the fixture `cluster`. RBAC is on; nothing listens outside 127.0.0.1.

A pod on a kwok node runs for ever, unless its annotation `stowage.test/run-for: 5s` (a Go duration) ends it; it then
succeeds, or fails with `stowage.test/exit-code: "3"`. kwok ignores nodes with the label `stowage.test/node-down`: see
nodes.fail_node and nodes.heal_node.

Modules: toolchain (selects Go), build (the cache), manifests (objects that the modules of JobSet and LeaderWorkerSet
contain), pki, kubeconfig, options, flags (arguments of every server), processes, api (a small blocking client), nodes,
jobset, lws, operators (of job kinds), cluster (combines them), fixtures (pytest), __main__ (the commands).
"""
