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

/** `only` dims all but one entry of the legend; `marked` all but these workloads. The legend counts hosts of `within`. */
export function looksOf(
  tree: Tree, mode: Mode, resource: number, colors: Palette, only: string | null, marked: ReadonlySet<string> | null, within: Place,
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
    if (entry === undefined) counts.set(key, { hosts: 1, color: css(rgb) });
    else entry.hosts += 1;
  };
  const shown = (part: Part): Rgb => {
    const dimmed = only !== null ? part.key !== only : marked !== null && !(part.work !== null && marked.has(part.work.key));
    if (!dimmed) return part.rgb;
    // Beside one workload all others are of no interest: they lose their colors as well.
    return mix(marked === null ? part.rgb : colors.cordoned, colors.free, marked === null ? 0.82 : 0.68);
  };

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
    return parts;
  };

  const inside = (leaf: Place): boolean => {
    for (let one: Place | null = leaf; one !== null; one = one.parent) if (one === within) return true;
    return false;
  };
  const cells = tree.leaves.map((leaf): Look => {
    const { host } = leaf;
    counted = inside(leaf);
    if (host === null) throw new Error('a leaf without a host');
    if (mode === 'fullness') {
      const at = resource >= 0 ? resource : tightest(host, tree.resources);
      const share = host.total[at]! > 0 ? 1 - free(host, at) / host.total[at]! : 0;
      const rgb = fullness(Math.round(share * 16) / 16, colors);
      if (host.health === 'failed') {
        count('failed', colors.failed);
        return { small: intern(shown({ key: 'failed', share: 1, rgb: colors.failed, work: null })), segments: [] };
      }
      const number = intern(rgb);
      return { small: number, segments: [{ color: number, share: 1, work: null }] };
    }
    const parts = partsOf(host);
    for (const key of new Set(parts.map((part) => part.key))) count(key, parts.find((part) => part.key === key)!.rgb);
    let occupied = 0;
    let largest: Part | undefined;
    const segments: Segment[] = [];
    for (const part of parts) {
      occupied += part.share;
      if (largest === undefined || part.share > largest.share) largest = part;
      segments.push({ color: intern(shown(part)), share: part.share, work: part.work });
    }
    if (host.health !== 'ok') {
      const rgb = colors[host.health];
      count(host.health, rgb);
      const part = { key: host.health as string, share: 1, rgb, work: null };
      return { small: intern(shown(part)), segments: host.health === 'failed' ? [] : segments };
    }
    if (largest === undefined) {
      count(FREE, colors.free);
      return { small: intern(colors.free), segments };
    }
    if (occupied < 0.999) count(FREE, colors.free);
    const step = Math.round(Math.min(1, occupied) * STEPS) / STEPS;
    return { small: intern(mix(colors.free, shown(largest), step)), segments };
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
