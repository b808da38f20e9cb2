// The tree of one flavor as the picture needs it: places (domains and hosts) with what their hosts hold.

import type { Reservation } from '../api/wire';

export type Health = 'ok' | 'cordoned' | 'failed';

/** A workload that runs on hosts of the tree. `key` is empty where the user may not see its namespace. */
export interface Work {
  key: string;
  queue: string;
  pods: number;
}

/** What a workload has on one host; `amounts` by resource. */
export interface Run {
  work: Work;
  pods: number;
  amounts: number[];
}

/** A host's amounts are arrays by resource, in the resource's base unit. */
export interface Host {
  name: string;
  health: Health;
  why: string;
  total: number[];
  used: number[];
  foreign: number[];
  held: number[];
  runs: Run[];
  reserved: Reservation[];
  /** Workloads that wait until others have left it. */
  heldFor: Work[];
}

export interface Place {
  name: string;
  path: string;
  depth: number;
  parent: Place | null;
  children: Place[];
  /** Only at the lowest level. */
  host: Host | null;
  /** The hosts below it, itself included. */
  hosts: number;
  /** Its position among its siblings, from 0. */
  index: number;
  /** The position of its first host in the leaves of the tree: those below a place follow each other. */
  first: number;
  /** What its hosts have together, until one of them changes. Only of domains. */
  sum: Sum | null;
  // set by the layout, in pixels of the picture at its smallest scale
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  head: number;
}

export interface Tree {
  flavor: string;
  topology: string;
  levels: string[];
  resources: string[];
  root: Place;
  leaves: Place[];
  places: Map<string, Place>;
  works: Map<string, Work>;
  queues: string[];
}

/** Values of levels may hold a slash only if a label could, which it cannot: a path is unambiguous. */
export const SEPARATOR = '/';

const order = new Intl.Collator('en', { numeric: true });

export function newPlace(name: string, parent: Place | null, host: Host | null): Place {
  const path = parent === null ? '' : parent.parent === null ? name : parent.path + SEPARATOR + name;
  const depth = parent === null ? 0 : parent.depth + 1;
  const place = { name, path, depth, parent, children: [], host, hosts: 0, index: 0, first: 0, sum: null, x0: 0, y0: 0, x1: 0, y1: 0, head: 0 };
  parent?.children.push(place);
  return place;
}

/** Sorts children by name with numbers by value, counts hosts, and lists leaves in the order of the picture. */
export function finish(root: Place): { leaves: Place[]; places: Map<string, Place> } {
  const leaves: Place[] = [];
  const places = new Map<string, Place>();
  const visit = (place: Place): number => {
    places.set(place.path, place);
    place.first = leaves.length;
    if (place.host !== null) {
      leaves.push(place);
      place.hosts = 1;
      return 1;
    }
    place.children.sort((a, b) => order.compare(a.name, b.name));
    place.hosts = 0;
    place.children.forEach((child, index) => {
      child.index = index;
      place.hosts += visit(child);
    });
    return place.hosts;
  };
  visit(root);
  return { leaves, places };
}

export const byName = (a: string, b: string): number => order.compare(a, b);

/** Calls back with each host at or below a place. */
function eachHost(place: Place, take: (host: Host) => void): void {
  if (place.host !== null) take(place.host);
  else for (const child of place.children) eachHost(child, take);
}

export interface Sum {
  hosts: number;
  failed: number;
  cordoned: number;
  reserved: number;
  /** Hosts that others are leaving for waiting workloads. */
  left: number;
  total: number[];
  used: number[];
  foreign: number[];
  held: number[];
  /** What usable hosts have left. */
  free: number[];
  /** What hosts that are cordoned or failed have left: nobody can use it. */
  unusable: number[];
}

export const free = (host: Host, resource: number): number =>
  Math.max(0, host.total[resource]! - host.used[resource]! - host.foreign[resource]! - host.held[resource]!);

/** What the hosts of a place have together. Read only: it is kept with the place. */
export function sum(place: Place, resources: number): Sum {
  if (place.sum !== null) return place.sum;
  const zeros = (): number[] => new Array<number>(resources).fill(0);
  const found: Sum = {
    hosts: 0, failed: 0, cordoned: 0, reserved: 0, left: 0,
    total: zeros(), used: zeros(), foreign: zeros(), held: zeros(), free: zeros(), unusable: zeros(),
  };
  if (place.host !== null) {
    count(found, place.host, resources);
    return found;
  }
  for (const child of place.children) {
    if (child.host === null) join(found, sum(child, resources));
    else count(found, child.host, resources);
  }
  place.sum = found;
  return found;
}

function count(into: Sum, host: Host, resources: number): void {
  into.hosts += 1;
  if (host.health === 'failed') into.failed += 1;
  if (host.health === 'cordoned') into.cordoned += 1;
  if (host.reserved.length > 0) into.reserved += 1;
  if (host.heldFor.length > 0) into.left += 1;
  const rest = host.health === 'ok' ? into.free : into.unusable;
  for (let resource = 0; resource < resources; resource += 1) {
    into.total[resource]! += host.total[resource]!;
    into.used[resource]! += host.used[resource]!;
    into.foreign[resource]! += host.foreign[resource]!;
    into.held[resource]! += host.held[resource]!;
    rest[resource]! += free(host, resource);
  }
}

const AMOUNTS = ['total', 'used', 'foreign', 'held', 'free', 'unusable'] as const;

function join(into: Sum, part: Sum): void {
  into.hosts += part.hosts;
  into.failed += part.failed;
  into.cordoned += part.cordoned;
  into.reserved += part.reserved;
  into.left += part.left;
  for (const name of AMOUNTS) part[name].forEach((amount, resource) => { into[name][resource]! += amount; });
}

/** The resource of which the host has the largest part occupied; `pods` only counts where there is nothing else. */
export function tightest(host: Host, resources: string[]): number {
  let best = 0;
  let most = -1;
  for (let resource = 0; resource < resources.length; resource += 1) {
    const total = host.total[resource]!;
    if (total <= 0 || (resources[resource] === 'pods' && resources.length > 1)) continue;
    const share = 1 - free(host, resource) / total;
    if (share > most) {
      most = share;
      best = resource;
    }
  }
  return best;
}

export interface Presence {
  work: Work;
  pods: number;
  hosts: number;
}

export interface Held {
  reservation: Reservation;
  hosts: number;
}

/** What reserves hosts below a place, the soonest first. */
export function reservationsOf(place: Place): Held[] {
  const found = new Map<string, Held>();
  eachHost(place, (host) => {
    for (const reservation of host.reserved) {
      const entry = found.get(reservation.name);
      if (entry === undefined) found.set(reservation.name, { reservation, hosts: 1 });
      else entry.hosts += 1;
    }
  });
  return [...found.values()].sort((a, b) => byName(a.reservation.start, b.reservation.start) || byName(a.reservation.name, b.reservation.name));
}

export interface Awaited {
  work: Work;
  hosts: number;
}

/** The workloads that wait until others have left hosts below a place, the largest first. */
export function awaitedBy(place: Place): Awaited[] {
  const found = new Map<Work, Awaited>();
  eachHost(place, (host) => {
    for (const work of host.heldFor) {
      const entry = found.get(work);
      if (entry === undefined) found.set(work, { work, hosts: 1 });
      else entry.hosts += 1;
    }
  });
  return [...found.values()].sort((a, b) => b.hosts - a.hosts || byName(a.work.key, b.work.key));
}

/** What runs below a place, the largest first. */
export function presences(place: Place): Presence[] {
  const found = new Map<Work, Presence>();
  eachHost(place, (host) => {
    for (const run of host.runs) {
      const entry = found.get(run.work);
      if (entry === undefined) found.set(run.work, { work: run.work, pods: run.pods, hosts: 1 });
      else {
        entry.pods += run.pods;
        entry.hosts += 1;
      }
    }
  });
  return [...found.values()].sort((a, b) => b.pods - a.pods || byName(a.work.key, b.work.key));
}
