// The colors of the picture. Fixed ones come from the style sheet, so that both themes are declared there.

export type Rgb = readonly [number, number, number];

export interface Palette {
  dark: boolean;
  ground: Rgb;
  free: Rgb;
  used: Rgb;
  foreign: Rgb;
  held: Rgb;
  reserved: Rgb;
  reservedSign: string;
  failed: Rgb;
  cordoned: Rgb;
  block: string;
  rack: string;
  line: string;
  text: string;
  faint: string;
  accent: string;
  full: Rgb[];
}

const clamp = (value: number): number => Math.max(0, Math.min(255, Math.round(value)));
export const css = ([r, g, b]: Rgb): string => `rgb(${clamp(r)} ${clamp(g)} ${clamp(b)})`;
export const mix = (a: Rgb, b: Rgb, share: number): Rgb => [
  a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share,
];

function fromHex(text: string): Rgb {
  const value = Number.parseInt(text.trim().slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** sRGB of a color in OKLCH: hues of one lightness look equally bright, which HSL cannot give. */
export function oklch(lightness: number, chroma: number, hue: number): Rgb {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const gamma = (value: number): number =>
    255 * (value <= 0.0031308 ? 12.92 * Math.max(0, value) : 1.055 * value ** (1 / 2.4) - 0.055);
  return [
    gamma(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    gamma(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    gamma(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const text = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const rgb = (name: string): Rgb => fromHex(text(name));
  return {
    dark: text('theme') === 'dark',
    ground: rgb('ground'),
    free: rgb('cell-free'),
    used: rgb('cell-used'),
    foreign: rgb('cell-foreign'),
    held: rgb('cell-held'),
    reserved: rgb('cell-reserved'),
    reservedSign: text('reserved-sign'),
    failed: rgb('cell-failed'),
    cordoned: rgb('cell-cordoned'),
    block: text('block'),
    rack: text('rack'),
    line: text('line-strong'),
    text: text('text'),
    faint: text('faint'),
    accent: text('accent'),
    full: ['full-0', 'full-1', 'full-2', 'full-3'].map(rgb),
  };
}

/** The color of a fullness from 0 to 1. */
export function fullness(share: number, colors: Palette): Rgb {
  const scaled = Math.max(0, Math.min(1, share)) * (colors.full.length - 1);
  const step = Math.min(colors.full.length - 2, Math.floor(scaled));
  return mix(colors.full[step]!, colors.full[step + 1]!, scaled - step);
}

// Neighbours in this row are far apart in hue; red is left to failed hosts.
const HUES = [250, 145, 70, 310, 195, 110, 345, 275, 165, 90, 220, 50];

/** The color of the n-th of a sorted list of names; after twelve the same hues come lighter. */
export function ofRank(rank: number, colors: Palette): Rgb {
  const round = Math.floor(rank / HUES.length) % 2;
  const lightness = (colors.dark ? 0.66 : 0.63) + (round === 0 ? 0 : colors.dark ? -0.16 : 0.14);
  return oklch(lightness, 0.12, HUES[rank % HUES.length]!);
}

/** A color that a name keeps whatever else is there. */
export function ofName(name: string, colors: Palette): Rgb {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at += 1) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  const bits = (hash ^ (hash >>> 15)) >>> 0;
  const lightness = (colors.dark ? 0.56 : 0.58) + ((bits >>> 10) % 5) * 0.045;
  return oklch(lightness, 0.11 + ((bits >>> 20) % 3) * 0.015, 40 + (bits % 320));
}

/** Whether dark text is readable on it. */
export const isLight = ([r, g, b]: Rgb): boolean =>
  0.2126 * (r / 255) ** 2.2 + 0.7152 * (g / 255) ** 2.2 + 0.0722 * (b / 255) ** 2.2 > 0.18;
