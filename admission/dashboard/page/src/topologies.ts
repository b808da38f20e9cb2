// The trees of all flavors that someone looks at.

import { useEffect } from 'preact/hooks';
import { signal } from '@preact/signals';
import type { FlavorEntry, TreeChange, WireTree } from './api/wire';
import { Source } from './answers';
import { route } from './route';
import { changed, treeOf } from './tree/read';
import type { Tree } from './tree/model';

const list = new Source<FlavorEntry[]>('api/v1/topology', (body: never) => {
  const found = (body as { flavors: FlavorEntry[] }).flavors;
  ahead(found);
  return found;
});
export const flavors = list.answer;

/** The flavor that the topology shows by default. */
export const chosen = (known: readonly FlavorEntry[], wanted: string | undefined): string | null =>
  wanted === undefined ? (known[0]?.name ?? null) : (known.find((one) => one.name === wanted)?.name ?? null);

/** Asks for the tree that the topology will show at once, without a turn of painting in between. */
function ahead(known: readonly FlavorEntry[]): void {
  const [view = 'topology', wanted] = route.value.path;
  const flavor = view === 'topology' ? chosen(known, wanted) : null;
  if (flavor === null) return;
  const { source } = of(flavor);
  const { data, error, loading } = source.answer.value;
  if (data === null && error === null && !loading) source.refresh();
}

/** What is known of one flavor; changes that come while its tree is being read are applied after it. */
interface Kept {
  source: Source<{ tree: Tree; version: number }>;
  early: TreeChange[];
  /** Changes that the next showing takes together. */
  next: TreeChange[];
  /** When changes were last shown. */
  shown: number;
  /** What a tree must have at least: older ones lack changes from before the events began. */
  least: number;
}

const kept = new Map<string, Kept>();
/** The trees that were read, for the search. */
export const loaded = signal<readonly string[]>([]);

function of(flavor: string): Kept {
  let entry = kept.get(flavor);
  if (entry === undefined) {
    const made: Kept = {
      early: [],
      next: [],
      shown: -Infinity,
      least: -Infinity,
      source: new Source(`api/v1/topology/${encodeURIComponent(flavor)}`, (body: never) => {
        const wire = body as WireTree;
        const begun = performance.now();
        let tree = treeOf(wire);
        for (const change of made.early) if (change.version > wire.version) tree = changed(tree, change) ?? tree;
        made.early = [];
        if (wire.version < made.least) made.source.refresh();
        made.least = -Infinity;
        performance.measure('stowage:read', { start: begun });
        return { tree, version: wire.version };
      }),
    };
    entry = made;
    kept.set(flavor, entry);
    loaded.value = [...kept.keys()];
  }
  return entry;
}

export function treeNow(flavor: string): Tree | null {
  return kept.get(flavor)?.source.answer.value.data?.tree ?? null;
}

export function useTree(flavor: string): { tree: Tree | null; error: Error | null; again: () => void } {
  const { source } = of(flavor);
  const { data, error, again, loading } = source.answer.value;
  useEffect(() => {
    if (data === null && error === null && !loading) source.refresh();
  }, [source, data, error, loading]);
  return { tree: data?.tree ?? null, error, again };
}

export function refresh(): void {
  list.refresh();
  for (const { source } of kept.values()) source.refresh();
}

/** Reads the flavors, and so the tree that is shown, before the events have begun: `confirm` finds what that missed. */
export function begin(): void {
  list.refresh();
}

/** Reads those trees again that are older than the events, which began with these versions by flavor. */
export function confirm(versions: Readonly<Record<string, number>>): void {
  list.refresh();
  for (const [flavor, entry] of kept) {
    const least = versions[flavor] ?? -Infinity;
    const { data, loading } = entry.source.answer.value;
    if (loading) entry.least = least;
    else if (data === null || data.version < least) entry.source.refresh();
  }
}

export function structure(flavor: string): void {
  list.refresh();
  kept.get(flavor)?.source.refresh();
}

/** How many changes may wait for the tree that they belong to; with more of them it is read once more. */
const EARLY = 500;

export function change(one: TreeChange): void {
  const entry = kept.get(one.flavor);
  if (entry === undefined) return;
  const { data, loading } = entry.source.answer.value;
  if (loading) entry.early.push(one);
  if (loading && entry.early.length > EARLY) {
    entry.early = [];
    entry.source.refresh();
  }
  if (data === null) return;
  if (entry.next.push(one) === 1) setTimeout(() => show(entry), Math.max(0, entry.shown + PAUSE - performance.now()));
}

/** In a storm of changes the picture is computed ten times per second, not once per change. Milliseconds. */
const PAUSE = 100;

function show(entry: Kept): void {
  const { data } = entry.source.answer.value;
  const changes = entry.next;
  entry.next = [];
  entry.shown = performance.now();
  if (data === null) return;
  let { tree, version } = data;
  for (const one of changes) {
    if (one.version <= version) continue;
    const next = changed(tree, one);
    if (next === null) {
      entry.source.refresh();
      return;
    }
    tree = next;
    version = one.version;
  }
  if (tree !== data.tree) entry.source.set({ tree, version });
}

export function clear(): void {
  list.clear();
  for (const { source } of kept.values()) source.clear();
}
