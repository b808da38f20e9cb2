// What each cell of the picture looks like, computed once per change of data, mode or theme, not once per frame.

import { css, fullness, isLight, mix, ofName, ofRank, type Palette, type Rgb } from './colors';
import { free, tightest, type Host, type Place, type Tree, type Work } from './model';

export type Mode = 'state' | 'fullness' | 'queue' | 'job';
export const MODES: readonly Mode[] = ['state', 'queue', 'job', 'fullness'];

export interface LegendEntry {
  key: string;
  label: string;
  color: string;
  /** Hosts on which it is, in part or whole. */
  hosts: number;
}

export interface Segment {
  color: number;
  share: number;
  work: Work | null;
}

export interface Look {
  /** The color of the whole cell where it is too small for segments. */
  small: number;
  segments: Segment[];
}

export interface Looks {
  colors: string[];
  light: boolean[];
  cells: Look[];
  legend: LegendEntry[];
  free: number;
  failed: number;
}

const STEPS = 8;
const SIXTEENTHS = 16;
const LEGEND: Record<Mode, number> = { state: 0, fullness: 0, queue: 14, job: 8 };
const UNNAMED = 'another namespace';

export const FREE = 'free';
const RESERVED = 'reserved';
const STATES: readonly (readonly [string, string])[] = [
  [FREE, 'free'], ['used', 'used by workloads'], ['held', 'held for others'], ['foreign', 'foreign pods'], [RESERVED, 'reserved for a time'],
  ['cordoned', 'cordoned'], ['failed', 'failed'],
];

interface Part {
  key: string;
  share: number;
  rgb: Rgb;
  work: Work | null;
}

/** What is made of a color, once for each. */
function remembered<T>(made: (rgb: Rgb) => T): (rgb: Rgb) => T {
  const known = new Map<Rgb, T>();
  return (rgb) => {
    let found = known.get(rgb);
    if (found === undefined) known.set(rgb, (found = made(rgb)));
    return found;
  };
}

/** `only` dims all but one entry of the legend; `marked` all but these workloads. The legend counts hosts of `within`. */
export function looksOf(
  tree: Tree, mode: Mode, resource: number, colors: Palette, only: string | null, marked: ReadonlySet<string> | null, within: Place,
): Looks {
  const table: string[] = [];
  const light: boolean[] = [];
  const numbers = new Map<string, number>();
  // Most cells have one of a few colors, each one object: what is made of it once need not be made again for each cell.
  const known = new Map<Rgb, number>();
  const intern = (rgb: Rgb): number => {
    let number = known.get(rgb);
    if (number === undefined) known.set(rgb, (number = numberOf(css(rgb), rgb)));
    return number;
  };
  const numberOf = (text: string, rgb: Rgb): number => {
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
      rgb = mode === 'queue' ? ofRank(ranks.get(key) ?? 0, colors) : ofName(key, colors);
      named.set(key, rgb);
    }
    return rgb;
  };
  const counts = new Map<string, { hosts: number; color: string }>();
  let counted = true;
  const count = (key: string, rgb: Rgb): void => {
    if (!counted) return;
    const entry = counts.get(key);
    if (entry === undefined) counts.set(key, { hosts: 1, color: table[intern(rgb)]! });
    else entry.hosts += 1;
  };
  // Beside one workload all others are of no interest: they lose their colors as well.
  const dim = remembered((rgb) => mix(marked === null ? rgb : colors.cordoned, colors.free, marked === null ? 0.82 : 0.68));
  let alone = false; // a reserved host, when reserved hosts are to be seen alone
  const shown = (part: Part): Rgb => {
    const dimmed = only !== null ? part.key !== only && !alone : marked !== null && !(part.work !== null && marked.has(part.work.key));
    return dimmed ? dim(part.rgb) : part.rgb;
  };
  const steps = remembered(() => remembered((): (number | undefined)[] => []));
  const occupied = (ground: Rgb, rgb: Rgb, share: number): number => {
    const step = Math.round(Math.min(1, share) * STEPS);
    return (steps(ground)(rgb)[step] ??= intern(mix(ground, rgb, step / STEPS)));
  };
  const fullnesses = Array.from({ length: SIXTEENTHS + 1 }, (_, step) => fullness(step / SIXTEENTHS, colors));

  const partsOf = (host: Host): Part[] => {
    const at = resource >= 0 ? resource : tightest(host, tree.resources);
    const total = host.total[at]!;
    if (total <= 0) return [];
    const parts: Part[] = [];
    const add = (key: string, amount: number, rgb: Rgb, work: Work | null = null): void => {
      if (amount > 0) parts.push({ key, share: Math.min(1, amount / total), rgb, work });
    };
    if (mode === 'state' && marked === null) add('used', host.used[at]!, colors.used);
    else {
      let told = 0;
      for (const run of host.runs) {
        const key = mode === 'queue' ? run.work.queue : run.work.key || UNNAMED;
        const rgb = mode === 'state' ? colors.used : key === UNNAMED ? colors.foreign : rgbOf(key);
        add(mode === 'state' ? 'used' : key, run.amounts[at] ?? 0, rgb, run.work);
        told += run.amounts[at] ?? 0;
      }
      add('used', host.used[at]! - told, colors.used);
    }
    add('held', host.held[at]!, colors.held);
    add('foreign', host.foreign[at]!, colors.foreign);
    // What is left of it is free, but not for everyone.
    if (host.reserved.length > 0 && host.health === 'ok') add(RESERVED, free(host, at), colors.reserved);
    return parts;
  };

  const cells = tree.leaves.map((leaf, number): Look => {
    const { host } = leaf;
    counted = number >= within.first && number < within.first + within.hosts;
    if (host === null) throw new Error('a leaf without a host');
    const isReserved = host.reserved.length > 0;
    alone = isReserved && only === RESERVED;
    if (isReserved) count(RESERVED, colors.reserved);
    if (mode === 'fullness') {
      const at = resource >= 0 ? resource : tightest(host, tree.resources);
      const share = host.total[at]! > 0 ? 1 - free(host, at) / host.total[at]! : 0;
      const rgb = fullnesses[Math.round(Math.max(0, Math.min(1, share)) * SIXTEENTHS)]!;
      if (host.health === 'failed') {
        count('failed', colors.failed);
        return { small: intern(shown({ key: 'failed', share: 1, rgb: colors.failed, work: null })), segments: [] };
      }
      const number = intern(rgb);
      return { small: number, segments: [{ color: number, share: 1, work: null }] };
    }
    const parts = partsOf(host);
    parts.forEach((part, at) => {
      if (part.key !== RESERVED && parts.findIndex((one) => one.key === part.key) === at) count(part.key, part.rgb);
    });
    let full = 0;
    let largest: Part | undefined;
    const segments: Segment[] = [];
    for (const part of parts) {
      if (part.key !== RESERVED) {
        full += part.share;
        if (largest === undefined || part.share > largest.share) largest = part;
      }
      segments.push({ color: intern(shown(part)), share: part.share, work: part.work });
    }
    if (host.health !== 'ok') {
      const rgb = colors[host.health];
      count(host.health, rgb);
      const part = { key: host.health as string, share: 1, rgb, work: null };
      return { small: intern(shown(part)), segments: host.health === 'failed' ? [] : segments };
    }
    const reserved = parts.find((part) => part.key === RESERVED);
    const ground = reserved === undefined ? colors.free : shown(reserved);
    if (!isReserved && full < 0.999) count(FREE, colors.free);
    if (largest === undefined) return { small: intern(ground), segments };
    return { small: occupied(ground, shown(largest), full), segments };
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
    if (keys.length > LEGEND[mode]) legend.push({ key: '', label: `${keys.length - LEGEND[mode]} more`, color: '', hosts: 0 });
    for (const [key, label] of STATES) if (key !== 'used' || counts.has('used')) listed(key, label);
  }
  return { colors: table, light, cells, legend, free: intern(colors.free), failed: intern(colors.failed) };
}
