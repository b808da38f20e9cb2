// The present state of the cluster: read once, then kept up to date by the server's events.

import { computed, effect, signal, untracked } from '@preact/signals';
import { token } from './api/client';
import { listen, type LinkState, type Message } from './api/events';
import type { Queues, Session, TreeChange, WorkloadChange, WorkloadRow } from './api/wire';
import { Source } from './answers';
import * as topologies from './topologies';

export const link = signal<{ state: LinkState; why: string }>({ state: 'connecting', why: '' });

export const session = new Source<Session>('api/v1/session', (body: never) => body as Session);
const rows = new Source<Map<string, WorkloadRow>>('api/v1/workloads?limit=100000', (body: never) => {
  const { items } = body as { items: WorkloadRow[] };
  return new Map(items.map((row) => [keyOf(row), row]));
});
export const workloads = rows.answer;
export const queues = new Source<Queues>('api/v1/queues', (body: never) => body as Queues);

const watchers = new Map<string, Set<() => void>>();

/** Calls back at each change of one workload. Returns how to end it. */
export function watch(key: string, changed: () => void): () => void {
  const callbacks = watchers.get(key) ?? new Set();
  watchers.set(key, callbacks.add(changed));
  return () => {
    callbacks.delete(changed);
    if (callbacks.size === 0) watchers.delete(key);
  };
}

export const keyOf = (row: { namespace: string; name: string }): string => `${row.namespace}/${row.name}`;

const WAITS = new Set(['Pending', 'Evicted', 'Reserved']);
/** Notes of admitted workloads whose pods do not run all the same. */
const HELD_BACK = new Set(['PodsNotCreated', 'PodsUnschedulable', 'PodsHeld', 'Moving']);
export const waiting = computed(() => {
  const all = workloads.value.data;
  return all === null ? null : [...all.values()].filter((row) => WAITS.has(row.state) || row.notes.some((note) => HELD_BACK.has(note.type)));
});

/** Those with quota whose pods run or start. */
export const running = computed(() => {
  const all = workloads.value.data;
  return all === null ? null : [...all.values()].filter((row) => row.state === 'Admitted' && !row.notes.some((note) => HELD_BACK.has(note.type)));
});

/** How long the first reading waits for the events, in milliseconds. */
const PATIENCE = 1500;

const flavorsUnread = (): boolean => topologies.flavors.value.data === null && !topologies.flavors.value.loading;

function everything(): void {
  topologies.refresh();
  allElse();
}

function allElse(): void {
  session.refresh();
  rows.refresh();
  queues.refresh();
  for (const callbacks of watchers.values()) callbacks.forEach((changed) => changed());
}

/** The first event of the first connection has the versions of the trees from which on changes are told. */
function begun(message: Message): void {
  let trees: Record<string, number> | undefined;
  try {
    trees = (JSON.parse(message.data) as { trees?: Record<string, number> }).trees;
  } catch {
    // an older server: what was read may lack something
  }
  if (trees === undefined) topologies.refresh();
  else topologies.confirm(trees);
}

function receive(message: Message): void {
  let data: unknown;
  try {
    data = JSON.parse(message.data);
  } catch {
    return;
  }
  switch (message.event) {
    case 'topology': topologies.change(data as TreeChange); break;
    case 'structure': topologies.structure((data as { flavor: string }).flavor); break;
    case 'workloads': changeRows(data as WorkloadChange); break;
    case 'queues': queues.refresh(); break;
    default:
  }
}

function changeRows(change: WorkloadChange): void {
  const all = workloads.value.data;
  if (all !== null) {
    const next = new Map(all);
    for (const row of change.changed) {
      if (row.state === 'Finished') next.delete(keyOf(row));
      else next.set(keyOf(row), row);
    }
    for (const key of change.removed) next.delete(key);
    rows.set(next);
  }
  for (const key of [...change.changed.map(keyOf), ...change.removed]) watchers.get(key)?.forEach((changed) => changed());
}

/** Connects, and again with each other token. */
export function start(): void {
  let stop: (() => void) | null = null;
  const connect = (): void => {
    stop?.();
    for (const source of [session, rows, queues]) source.clear();
    topologies.clear();
    // Read once events arrive, so that none is missed; where a proxy holds them back, there is a picture all the same. The
    // picture does not wait: the first event says whether it lacks something.
    let first = true;
    const anyway = setTimeout(everything, PATIENCE);
    const end = listen('api/v1/events', {
      opened: () => {
        clearTimeout(anyway);
        if (first) allElse();
        else everything();
      },
      received: (message) => {
        if (first) begun(message);
        else receive(message);
        first = false;
      },
      state: (state, why) => {
        link.value = { state, why };
        if (state === 'lost') {
          clearTimeout(anyway);
          if (flavorsUnread()) everything();
        }
      },
    });
    topologies.begin();
    stop = () => {
      clearTimeout(anyway);
      end();
    };
  };
  effect(() => {
    void token.value;
    untracked(connect);
  });
}
