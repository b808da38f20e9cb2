// What each cell of the picture looks like, computed once per change of data, mode or theme, not once per frame.

import { css, fullness, isLight, mix, ofName, ofRank, type Palette, type Rgb } from './colours';
import { free, tightest, type Host, type Tree, type Work } from './model';

export type Mode = 'state' | 'fullness' | 'queue' | 'job';
export const MODES: readonly Mode[] = ['state', 'queue', 'job', 'fullness'];

export interface LegendEntry {
  key: string;
  label: string;
  colour: string;
  /** Hosts on which it is, in part or whole. */
  hosts: number;
}

export interface Segment {
  colour: number;
  share: number;
  work: Work | null;
}

export interface Look {
  /** The colour of the whole cell where it is too small for segments. */
  small: number;
  segments: Segment[];
}

export interface Looks {
  colours: string[];
  light: boolean[];
  cells: Look[];
  legend: LegendEntry[];
  free: number;
  failed: number;
}

const STEPS = 8;
const LEGEND: Record<Mode, number> = { state: 0, fullness: 0, queue: 14, job: 8 };
const UNNAMED = 'another namespace';

export const FREE = 'free';
const STATES: readonly (readonly [string, string])[] = [
  [FREE, 'free'], ['used', 'used by workloads'], ['held', 'held for others'], ['foreign', 'foreign pods'],
  ['cordoned', 'cordoned'], ['failed', 'failed'],
];

interface Part {
  key: string;
  share: number;
  rgb: Rgb;
  work: Work | null;
}

/** `only` dims all but one entry of the legend; `marked` all but these workloads. */
export function looksOf(
  tree: Tree, mode: Mode, resource: number, colours: Palette, only: string | null, marked: ReadonlySet<string> | null,
): Looks {
  const table: string[] = [];
  const light: boolean[] = [];
  const numbers = new Map<string, number>();
  const intern = (rgb: Rgb): number => {
    const text = css(rgb);
    let number = numbers.get(text);
    if (number === undefined) {
      number = table.length;
      numbers.set(text, number);
      table.push(text);
      light.push(isLight(rgb));
    }
    return number;
  };
  const ranks = new Map(tree.queues.map((name, rank) => [name, rank]));
  const named = new Map<string, Rgb>();
  const rgbOf = (key: string): Rgb => {
    let rgb = named.get(key);
    if (rgb === undefined) {
      rgb = mode === 'queue' ? ofRank(ranks.get(key) ?? 0, colours) : ofName(key, colours);
      named.set(key, rgb);
    }
    return rgb;
  };
  const counts = new Map<string, { hosts: number; colour: string }>();
  const count = (key: string, rgb: Rgb): void => {
    const entry = counts.get(key);
    if (entry === undefined) counts.set(key, { hosts: 1, colour: css(rgb) });
    else entry.hosts += 1;
  };
  const shown = (part: Part): Rgb => {
    const dimmed = only !== null ? part.key !== only : marked !== null && !(part.work !== null && marked.has(part.work.key));
    if (!dimmed) return part.rgb;
    // Beside one workload all others are of no interest: they lose their colours as well.
    return mix(marked === null ? part.rgb : colours.cordoned, colours.free, marked === null ? 0.82 : 0.68);
  };

  const partsOf = (host: Host): Part[] => {
    const at = resource >= 0 ? resource : tightest(host, tree.resources);
    const total = host.total[at]!;
    if (total <= 0) return [];
    const parts: Part[] = [];
    const add = (key: string, amount: number, rgb: Rgb, work: Work | null = null): void => {
      if (amount > 0) parts.push({ key, share: Math.min(1, amount / total), rgb, work });
    };
    if (mode === 'state' && marked === null) add('used', host.used[at]!, colours.used);
    else {
      let told = 0;
      for (const run of host.runs) {
        const key = mode === 'queue' ? run.work.queue : run.work.key || UNNAMED;
        const rgb = mode === 'state' ? colours.used : key === UNNAMED ? colours.foreign : rgbOf(key);
        add(mode === 'state' ? 'used' : key, run.amounts[at] ?? 0, rgb, run.work);
        told += run.amounts[at] ?? 0;
      }
      add('used', host.used[at]! - told, colours.used);
    }
    add('held', host.held[at]!, colours.held);
    add('foreign', host.foreign[at]!, colours.foreign);
    return parts;
  };

  const cells = tree.leaves.map(({ host }): Look => {
    if (host === null) throw new Error('a leaf without a host');
    if (mode === 'fullness') {
      const at = resource >= 0 ? resource : tightest(host, tree.resources);
      const share = host.total[at]! > 0 ? 1 - free(host, at) / host.total[at]! : 0;
      const rgb = fullness(Math.round(share * 16) / 16, colours);
      if (host.health === 'failed') {
        count('failed', colours.failed);
        return { small: intern(shown({ key: 'failed', share: 1, rgb: colours.failed, work: null })), segments: [] };
      }
      const number = intern(rgb);
      return { small: number, segments: [{ colour: number, share: 1, work: null }] };
    }
    const parts = partsOf(host);
    for (const key of new Set(parts.map((part) => part.key))) count(key, parts.find((part) => part.key === key)!.rgb);
    let occupied = 0;
    let largest: Part | undefined;
    const segments: Segment[] = [];
    for (const part of parts) {
      occupied += part.share;
      if (largest === undefined || part.share > largest.share) largest = part;
      segments.push({ colour: intern(shown(part)), share: part.share, work: part.work });
    }
    if (host.health !== 'ok') {
      const rgb = colours[host.health];
      count(host.health, rgb);
      const part = { key: host.health as string, share: 1, rgb, work: null };
      return { small: intern(shown(part)), segments: host.health === 'failed' ? [] : segments };
    }
    if (largest === undefined) {
      count(FREE, colours.free);
      return { small: intern(colours.free), segments };
    }
    if (occupied < 0.999) count(FREE, colours.free);
    const step = Math.round(Math.min(1, occupied) * STEPS) / STEPS;
    return { small: intern(mix(colours.free, shown(largest), step)), segments };
  });

  const legend: LegendEntry[] = [];
  const listed = (key: string, label: string): void => {
    const entry = counts.get(key);
    if (entry !== undefined) legend.push({ key, label, ...entry });
  };
  const fixed = new Set(STATES.map(([key]) => key));
  if (mode === 'state') for (const [key, label] of STATES) listed(key, label);
  else {
    const keys = [...counts.keys()].filter((key) => !fixed.has(key));
    keys.sort((a, b) => counts.get(b)!.hosts - counts.get(a)!.hosts || (a < b ? -1 : 1));
    for (const key of keys.slice(0, LEGEND[mode])) listed(key, key);
    if (keys.length > LEGEND[mode]) legend.push({ key: '', label: `${keys.length - LEGEND[mode]} more`, colour: '', hosts: 0 });
    for (const [key, label] of STATES) if (key !== 'used' || counts.has('used')) listed(key, label);
  }
  return { colours: table, light, cells, legend, free: intern(colours.free), failed: intern(colours.failed) };
}
