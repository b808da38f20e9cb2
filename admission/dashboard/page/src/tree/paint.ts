// Draws the picture for one position of the zoom. Cells of one color are drawn together: a change of color costs more than a cell.

import type { Palette } from './colors';
import type { Looks } from './looks';
import { free, tightest, type Place, type Tree } from './model';
import { amountText } from '../text';

export interface View {
  x: number;
  y: number;
  k: number;
  width: number;
  height: number;
}

export interface Emphasis {
  at: Place | null;
  hover: Place | null;
  focus: Place | null;
}

const SEGMENTS_FROM = 5;
const NAME_FROM_WIDTH = 46;
const NAME_FROM_HEIGHT = 24;
const NAME_LINE = 14;
const WORK_FROM_WIDTH = 60;
const WORK_LINE = 13;

/** A text cut to a width; the width of a character of the font's middle is close enough and costs no measurement. */
function cut(text: string, width: number, size: number): string {
  const fits = Math.floor(width / (size * 0.56));
  if (text.length <= fits) return text;
  // Names of hosts and workloads differ at their ends.
  if (fits < 5) return '';
  if (fits < 14) return `…${text.slice(text.length - fits + 1)}`;
  return `${text.slice(0, Math.ceil(fits / 3) - 1)}…${text.slice(text.length - (fits - Math.ceil(fits / 3)))}`;
}

export function paint(
  context: CanvasRenderingContext2D, tree: Tree, looks: Looks, view: View, emphasis: Emphasis, colors: Palette, ratio: number,
  font: string,
): void {
  const { x, y, k, width, height } = view;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);

  const buckets: number[][] = looks.colors.map(() => []);
  const heads: [string, number, number, number, number][] = [];
  const texts: [string, number, number, string][] = [];
  const crosses: number[] = [];
  const hatches: number[] = [];
  const corners: number[] = [];
  const boxes: number[][] = [[], []];
  let index = 0;

  const cell = (place: Place, number: number): void => {
    const left = place.x0 * k + x;
    const top = place.y0 * k + y;
    const across = (place.x1 - place.x0) * k;
    const down = (place.y1 - place.y0) * k;
    if (left > width || top > height || left + across < 0 || top + down < 0) return;
    const inset = Math.min(1.5, across * 0.07, down * 0.07);
    const cx = left + inset;
    const cy = top + inset;
    const cw = across - 2 * inset;
    const ch = down - 2 * inset;
    const look = looks.cells[number]!;
    const host = place.host!;
    if (ch < SEGMENTS_FROM || cw < SEGMENTS_FROM || look.segments.length === 0) {
      buckets[look.small]!.push(cx, cy, cw, ch);
    } else {
      buckets[looks.free]!.push(cx, cy, cw, ch);
      const named = cw >= NAME_FROM_WIDTH && ch >= NAME_FROM_HEIGHT + 10;
      const room = named ? ch - NAME_LINE : ch;
      let bottom = cy + ch;
      for (const segment of look.segments) {
        const part = Math.min(segment.share * room, bottom - cy - (named ? NAME_LINE : 0));
        if (part <= 0) break;
        bottom -= part;
        buckets[segment.color]!.push(cx, bottom, cw, part);
        if (segment.work !== null && part >= WORK_LINE && cw >= WORK_FROM_WIDTH) {
          const text = cut(segment.work.key.slice(segment.work.key.indexOf('/') + 1) || 'another namespace', cw - 6, 10);
          texts.push([text, cx + 4, bottom + part / 2, looks.light[segment.color] === true ? '#111' : '#fff']);
        }
      }
    }
    const line = Math.min(cw, ch);
    if (host.health === 'failed' && line >= 7) crosses.push(cx, cy, cw, ch);
    if (host.health === 'cordoned' && line >= 7) hatches.push(cx, cy, cw, ch);
    if (host.reserved.length > 0 && line >= 4) {
      const side = Math.max(2, Math.min(12, line * 0.3));
      corners.push(cx + cw - side, cy, side, side);
    }
    if (cw >= NAME_FROM_WIDTH && ch >= NAME_FROM_HEIGHT) {
      const on = look.segments.length === 0 ? looks.light[look.small] === true : !colors.dark;
      texts.push([cut(place.name, cw - 6, 10), cx + 4, cy + 8, host.health === 'failed' ? (on ? '#111' : '#fff') : colors.text]);
      if (cw >= 150 && host.health === 'ok') {
        const resource = tightest(host, tree.resources);
        const told = `${amountText(tree.resources[resource]!, free(host, resource))} of ${amountText(tree.resources[resource]!, host.total[resource]!)} free`;
        if (told.length * 5.6 < cw - place.name.length * 5.8 - 16) texts.push([told, cx + cw - 4 - told.length * 5.1, cy + 8, colors.faint]);
      }
    }
  };

  const visit = (place: Place): void => {
    if (place.host !== null) {
      cell(place, index);
      index += 1;
      return;
    }
    const left = place.x0 * k + x;
    const top = place.y0 * k + y;
    const right = place.x1 * k + x;
    const bottom = place.y1 * k + y;
    if (left > width || top > height || right < 0 || bottom < 0) {
      index += place.hosts;
      return;
    }
    if (place.depth > 0) {
      const gap = place.depth === 1 ? 1.5 : 0.5;
      if (right - left > 6) boxes[place.depth === 1 ? 0 : 1]!.push(left + gap, top + gap, right - left - 2 * gap, bottom - top - 2 * gap);
      const head = place.head * k;
      const size = Math.min(20, head < 16 ? Math.min(12, head - 2) : 12 + (head - 16) * 0.2);
      if (size >= 8 && right - left > 26) heads.push([place.name, Math.max(left, 0) + 6, top + gap + head / 2 + 0.5, right - Math.max(left, 0) - 10, size]);
    }
    for (const child of place.children) visit(child);
  };
  visit(tree.root);

  const fill = (style: string, rectangles: number[]): void => {
    if (rectangles.length === 0) return;
    context.fillStyle = style;
    for (let at = 0; at < rectangles.length; at += 4) {
      context.fillRect(rectangles[at]!, rectangles[at + 1]!, rectangles[at + 2]!, rectangles[at + 3]!);
    }
  };
  fill(colors.block, boxes[0]!);
  fill(colors.rack, boxes[1]!);
  // Free first: segments lie upon it.
  fill(looks.colors[looks.free]!, buckets[looks.free]!);
  buckets.forEach((rectangles, color) => {
    if (color !== looks.free) fill(looks.colors[color]!, rectangles);
  });

  const strokes = (rectangles: number[], style: string, path: (left: number, top: number, w: number, h: number) => void): void => {
    if (rectangles.length === 0) return;
    context.strokeStyle = style;
    context.lineWidth = 1;
    context.beginPath();
    for (let at = 0; at < rectangles.length; at += 4) {
      path(rectangles[at]!, rectangles[at + 1]!, rectangles[at + 2]!, rectangles[at + 3]!);
    }
    context.stroke();
  };
  // Signs beside colors: not everyone tells red from green.
  strokes(crosses, colors.dark ? '#1b0b0a' : '#fff', (left, top, w, h) => {
    const size = Math.min(w, h) * 0.22;
    const cx = left + w / 2;
    const cy = top + h / 2;
    context.moveTo(cx - size, cy - size);
    context.lineTo(cx + size, cy + size);
    context.moveTo(cx + size, cy - size);
    context.lineTo(cx - size, cy + size);
  });
  strokes(hatches, colors.text, (left, top, w, h) => {
    context.moveTo(left, top + h);
    context.lineTo(left + w, top);
  });

  // Whatever runs on it now, a reserved host is not for everyone.
  fill(colors.reservedSign, corners);

  context.textBaseline = 'middle';
  for (const [name, left, middle, room, size] of heads) {
    const text = cut(name, room, size);
    context.font = `600 ${size}px ${font}`;
    context.fillStyle = colors.text;
    context.fillText(text, left, middle);
  }
  context.font = `10px ${font}`;
  for (const [text, left, middle, style] of texts) {
    context.fillStyle = style;
    context.fillText(text, left, middle);
  }

  const frame = (place: Place | null, style: string, thick: number): void => {
    if (place === null || place.depth === 0) return;
    context.strokeStyle = style;
    context.lineWidth = thick;
    // Of a place that is larger than the window, the part in the window gets the frame.
    const [left, top] = [Math.max(0, place.x0 * k + x), Math.max(0, place.y0 * k + y)];
    const [right, bottom] = [Math.min(width, place.x1 * k + x), Math.min(height, place.y1 * k + y)];
    if (right <= left || bottom <= top) return;
    context.strokeRect(left + thick / 2, top + thick / 2, right - left - thick, bottom - top - thick);
  };
  frame(emphasis.at, colors.accent, 2);
  frame(emphasis.hover, colors.text, 1);
  if (emphasis.focus !== null && emphasis.focus !== emphasis.at) frame(emphasis.focus, colors.accent, 3);
}
