// From the server's columns to the tree, and from its changes to a new state of the same tree.

import type { Reservation, TreeChange, WireHost, WireTree } from '../api/wire';
import { byName, finish, newPlace, type Health, type Host, type Place, type Run, type Tree, type Work } from './model';

const NONE: Reservation[] = [];
const NOBODY: Work[] = [];
const HEALTH: readonly Health[] = ['ok', 'cordoned', 'failed'];

/** The leaves in the order of the server, which its changes name by position. */
const sent = new WeakMap<Place, Place[]>();

export function treeOf(wire: WireTree): Tree {
  const root = newPlace('', null, null);
  const domains = wire.domains.map((): Place | null => null);
  wire.domains.forEach(([name, parent], at) => {
    domains[at] = newPlace(name, parent < 0 ? root : (domains[parent] ?? root), null);
  });
  const width = wire.resources.length;
  const column = (columns: number[][], at: number): number[] => {
    const amounts = new Array<number>(width);
    for (let resource = 0; resource < width; resource += 1) amounts[resource] = columns[resource]?.[at] ?? 0;
    return amounts;
  };
  // Neighbours have mostly the same: they share an array, which nobody changes.
  const sharing = (columns: number[][]): ((at: number) => number[]) => {
    let last: number[] = [];
    return (at) => {
      for (let resource = 0; resource < width; resource += 1) {
        if (last[resource] !== (columns[resource]?.[at] ?? 0)) return (last = column(columns, at));
      }
      return last;
    };
  };
  const [total, used, foreign, held] = [sharing(wire.hosts.total), sharing(wire.hosts.used), sharing(wire.hosts.foreign), sharing(wire.hosts.held)];
  const ran = sharing(wire.runs.amounts);
  const hosts = wire.hosts.name.map((name, at): Host => ({
    name,
    health: HEALTH[wire.hosts.state[at] ?? 0] ?? 'ok',
    why: wire.hosts.why[String(at)] ?? '',
    total: total(at),
    used: used(at),
    foreign: foreign(at),
    held: held(at),
    runs: [],
    reserved: wire.hosts.reserved[String(at)]?.map((one) => wire.reservations[one]!) ?? NONE,
    heldFor: NOBODY,
  }));
  const leaves = hosts.map((host, at) => newPlace(host.name, domains[wire.hosts.domain[at] ?? -1] ?? root, host));
  const works = wire.workloads.map(([key, queue]): Work => ({ key, queue, pods: 0 }));
  for (const [at, waiting] of Object.entries(wire.hosts.heldFor)) {
    const host = hosts[Number(at)];
    if (host !== undefined) host.heldFor = waiting.map((one) => works[one]!);
  }
  const { runs } = wire;
  for (let at = 0; at < runs.host.length; at += 1) {
    const host = hosts[runs.host[at]!];
    const work = works[runs.workload[at]!];
    if (host === undefined || work === undefined) continue;
    work.pods += runs.pods[at]!;
    host.runs.push({ work, pods: runs.pods[at]!, amounts: ran(at) });
  }
  sent.set(root, leaves);
  return {
    flavor: wire.flavor, topology: wire.topology, levels: wire.levels, resources: wire.resources, root, ...finish(root),
    works: new Map(works.map((work) => [identity(work.key, work.queue), work])), queues: queuesOf(works),
  };
}

/** Workloads that the user may not see have no key: they are one of each queue. */
const identity = (key: string, queue: string): string => `${key} ${queue}`;

const queuesOf = (works: Iterable<Work>): string[] =>
  [...new Set([...works].map((work) => work.queue))].filter((queue) => queue !== '').sort(byName);

/** The same places with what changed on their hosts. Null if the change does not belong to this tree: it must be read anew. */
export function changed(tree: Tree, change: TreeChange): Tree | null {
  const leaves = sent.get(tree.root);
  if (leaves === undefined) return null;
  let queues = tree.queues;
  const workOf = (key: string, queue: string): Work => {
    const known = tree.works.get(identity(key, queue));
    if (known !== undefined) return known;
    const work = { key, queue, pods: 0 };
    tree.works.set(identity(key, queue), work);
    if (queue !== '' && !queues.includes(queue)) queues = [...queues, queue].sort(byName);
    return work;
  };
  for (const wire of change.hosts) {
    const leaf = leaves[wire.i];
    if (leaf?.host == null) return null;
    take(leaf.host, wire, workOf);
    for (let one = leaf.parent; one !== null; one = one.parent) one.sum = null;
  }
  return { ...tree, queues };
}

function take(host: Host, wire: WireHost, workOf: (key: string, queue: string) => Work): void {
  host.health = HEALTH[wire.state] ?? 'ok';
  host.why = wire.why;
  host.total = wire.total;
  host.used = wire.used;
  host.foreign = wire.foreign;
  host.held = wire.held;
  host.reserved = wire.reserved;
  host.heldFor = wire.heldFor.map(([key, queue]) => workOf(key, queue));
  for (const run of host.runs) run.work.pods -= run.pods;
  host.runs = wire.runs.map(([key, queue, pods, amounts]): Run => {
    const work = workOf(key, queue);
    work.pods += pods;
    return { work, pods, amounts };
  });
}
