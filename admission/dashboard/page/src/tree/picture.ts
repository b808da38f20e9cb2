// The canvas with its zoom, pointer and keys. It knows no view: what the user chooses goes out through `Hooks`.

import { interpolateZoom } from 'd3-interpolate';
import { select } from 'd3-selection';
import { zoom, zoomIdentity, ZoomTransform, type D3ZoomEvent, type ZoomBehavior } from 'd3-zoom';
import { palette, type Palette } from './colors';
import { hit, lay } from './layout';
import { looksOf, type Looks, type Mode } from './looks';
import type { Place, Tree } from './model';
import { paint } from './paint';

export interface Hooks {
  choose: (path: string) => void;
  hover: (place: Place | null, x: number, y: number) => void;
  focus: (place: Place | null) => void;
  legend: (looks: Looks) => void;
}

export interface Choice {
  mode: Mode;
  resource: number;
  only: string | null;
  marked: ReadonlySet<string> | null;
}

const MOST = 400;
const LEGIBLE = 15;
const FLIGHT = 450;
const FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';

const same = (a: Choice, b: Choice): boolean =>
  a.mode === b.mode && a.resource === b.resource && a.only === b.only && a.marked === b.marked;

export class Picture {
  private readonly context: CanvasRenderingContext2D;
  private readonly behaviour: ZoomBehavior<HTMLCanvasElement, unknown>;
  private readonly watcher: ResizeObserver;
  private transform: ZoomTransform = zoomIdentity;
  private tree: Tree | null = null;
  private choice: Choice = { mode: 'state', resource: -1, only: null, marked: null };
  private colors: Palette = palette();
  private looks: Looks | null = null;
  private width = 0;
  private height = 0;
  private at: string | null = null;
  private focused: string | null = null;
  private hover: Place | null = null;
  private flight = 0;
  private frame = 0;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly hooks: Hooks) {
    const context = canvas.getContext('2d', { alpha: true });
    if (context === null) throw new Error('this browser gives no canvas');
    this.context = context;
    this.behaviour = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, MOST])
      .clickDistance(4)
      .on('zoom', (event: D3ZoomEvent<HTMLCanvasElement, unknown>) => {
        if (event.sourceEvent !== null) this.flight += 1;
        this.transform = event.transform;
        this.draw();
      });
    // A double click would zoom about the pointer, against the click that flies to a place.
    select(canvas).call(this.behaviour).on('dblclick.zoom', null);
    canvas.addEventListener('click', this.clicked);
    canvas.addEventListener('pointermove', this.moved);
    canvas.addEventListener('pointerleave', this.left);
    canvas.addEventListener('keydown', this.pressed);
    canvas.addEventListener('focus', this.gained);
    canvas.addEventListener('blur', this.lost);
    this.watcher = new ResizeObserver(() => this.sized());
    this.watcher.observe(canvas);
  }

  destroy(): void {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
    this.flight += 1;
    select(this.canvas).on('.zoom', null);
  }

  /**
   * Shows a tree, the first one at the chosen place and at once. One with the same places keeps zoom and focus; new amounts alone
   * move nothing.
   */
  show(tree: Tree, choice: Choice, at: string | null): void {
    const first = this.tree === null;
    if (first) {
      this.at = at;
      this.measure();
    }
    const moved = this.tree === null || this.tree.root !== tree.root;
    if (!moved && this.looks !== null && this.tree === tree && same(choice, this.choice)) return;
    const other = this.tree?.flavor !== tree.flavor;
    this.tree = tree;
    this.choice = choice;
    this.hover = this.hover === null ? null : (tree.places.get(this.hover.path) ?? null);
    if (moved) this.relay(other);
    if (first && at !== null) this.setFocus(at);
    this.look();
    if (first) this.paintNow();
  }

  /** Chooses a place from outside: a link, the table, the way back. */
  select(path: string | null): void {
    if (path === this.at) return;
    this.at = path;
    const place = path === null ? this.tree?.root : this.tree?.places.get(path);
    if (place != null && !this.readable(place)) this.fly(place);
    if (path !== null) this.setFocus(path);
    this.look();
  }

  /** Whether a host is in the window and large enough: then nothing needs to move. */
  private readable(place: Place): boolean {
    if (place.host === null) return false;
    const { x, y, k } = this.transform;
    const [left, top, right, bottom] = [place.x0 * k + x, place.y0 * k + y, place.x1 * k + x, place.y1 * k + y];
    return Math.min(right - left, bottom - top) >= LEGIBLE && left >= 0 && top >= 0 && right <= this.width && bottom <= this.height;
  }

  recolor(): void {
    if (this.tree === null) return;
    this.colors = palette();
    this.look();
  }

  scale(): number {
    return this.transform.k;
  }

  /** Zooms about the focus of the keyboard, if it is in the window, else about the middle; the focus stays in the window. */
  zoomBy(factor: number): void {
    const place = this.cursor();
    const about = place !== null && this.inWindow(place) ? this.middle(place) : undefined;
    select(this.canvas).call(this.behaviour.scaleBy, factor, about);
    this.reveal();
  }

  /** The place that the keyboard is at, while keys go to the picture. */
  private cursor(): Place | null {
    if (document.activeElement !== this.canvas || this.focused === null) return null;
    return this.tree?.places.get(this.focused) ?? null;
  }

  private middle(place: Place): [number, number] {
    const { x, y, k } = this.transform;
    return [((place.x0 + place.x1) / 2) * k + x, ((place.y0 + place.y1) / 2) * k + y];
  }

  /** Whether all of a place is in the window; of one that is larger, whether its middle is. */
  private inWindow(place: Place): boolean {
    const { x, y, k } = this.transform;
    const [left, top, right, bottom] = [place.x0 * k + x, place.y0 * k + y, place.x1 * k + x, place.y1 * k + y];
    if (right - left > this.width || bottom - top > this.height) {
      const [mx, my] = this.middle(place);
      return mx >= 0 && my >= 0 && mx <= this.width && my <= this.height;
    }
    return left >= -1 && top >= -1 && right <= this.width + 1 && bottom <= this.height + 1;
  }

  /** Brings the focus of the keyboard into the window. */
  private reveal(): void {
    const place = this.cursor();
    if (place === null || this.inWindow(place)) return;
    this.flight += 1; // one under way would take it out again
    select(this.canvas).call(this.behaviour.translateTo, (place.x0 + place.x1) / 2, (place.y0 + place.y1) / 2);
  }

  home(): void {
    if (this.tree !== null) this.fly(this.tree.root);
  }

  private relay(other: boolean): void {
    if (this.tree === null || this.width === 0) return;
    lay(this.tree.root, this.width, this.height);
    this.behaviour.translateExtent([[0, 0], [this.width, this.height]]).extent([[0, 0], [this.width, this.height]]);
    const place = this.at === null ? undefined : this.tree.places.get(this.at);
    if (other) this.jump(place === undefined ? zoomIdentity : this.viewOf(place));
    else this.jump(this.transform);
  }

  private look(): void {
    if (this.tree === null) return;
    const { mode, resource, only, marked } = this.choice;
    const within = (this.at === null ? undefined : this.tree.places.get(this.at)) ?? this.tree.root;
    this.looks = looksOf(this.tree, mode, resource, this.colors, only, marked, within);
    this.hooks.legend(this.looks);
    this.draw();
  }

  private sized(): void {
    const first = this.width === 0;
    const [width, height] = [this.width, this.height];
    if (!this.measure()) return;
    const { x, y, k } = this.transform;
    if (!first) this.transform = new ZoomTransform(k, (x * this.width) / width, (y * this.height) / height);
    this.relay(first);
    this.reveal();
    this.paintNow();
  }

  /** Gives the canvas as many pixels as it has on the screen. Reports whether that changed. */
  private measure(): boolean {
    const { clientWidth, clientHeight } = this.canvas;
    if (clientWidth === 0 || clientHeight === 0 || (clientWidth === this.width && clientHeight === this.height)) return false;
    this.width = clientWidth;
    this.height = clientHeight;
    this.canvas.width = Math.round(clientWidth * devicePixelRatio);
    this.canvas.height = Math.round(clientHeight * devicePixelRatio);
    return true;
  }

  /** Paints in the next frame, however often it is asked for. */
  private draw(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => this.paintNow());
  }

  private paintNow(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.tree === null || this.looks === null || this.width === 0) return;
    const begun = performance.now();
    const { x, y, k } = this.transform;
    const place = (path: string | null): Place | null => (path === null ? null : (this.tree?.places.get(path) ?? null));
    paint(
      this.context, this.tree, this.looks, { x, y, k, width: this.width, height: this.height },
      { at: place(this.at), hover: this.hover, focus: document.activeElement === this.canvas ? place(this.focused) : null },
      this.colors, devicePixelRatio, FONT,
    );
    performance.measure('stowage:paint', { start: begun, detail: { hosts: this.tree.leaves.length } });
  }

  /** A host is shown among its neighbours. */
  private viewOf(chosen: Place): ZoomTransform {
    const place = chosen.host !== null && chosen.parent !== null ? chosen.parent : chosen;
    if (place.depth === 0) return zoomIdentity;
    const k = Math.max(1, Math.min(MOST, this.width / ((place.x1 - place.x0) * 1.06), this.height / ((place.y1 - place.y0) * 1.06)));
    const x = Math.min(0, Math.max(this.width * (1 - k), this.width / 2 - (k * (place.x0 + place.x1)) / 2));
    const y = Math.min(0, Math.max(this.height * (1 - k), this.height / 2 - (k * (place.y0 + place.y1)) / 2));
    return new ZoomTransform(k, x, y);
  }

  private jump(to: ZoomTransform): void {
    select(this.canvas).call(this.behaviour.transform, to);
  }

  private fly(place: Place): void {
    if (this.width === 0) return;
    const to = this.viewOf(place);
    const from = this.transform;
    this.flight += 1;
    const flight = this.flight;
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) {
      this.jump(to);
      return;
    }
    const seen = (at: ZoomTransform): [number, number, number] => [
      (this.width / 2 - at.x) / at.k, (this.height / 2 - at.y) / at.k, this.width / at.k,
    ];
    this.left();
    const path = interpolateZoom(seen(from), seen(to));
    const begun = performance.now();
    const step = (now: number): void => {
      if (flight !== this.flight) return;
      const done = Math.min(1, Math.max(0, (now - begun) / FLIGHT));
      const eased = done < 1 ? 1 - (1 - done) ** 3 : 1;
      const [cx, cy, wide] = path(eased);
      const k = this.width / wide;
      this.jump(done < 1 ? new ZoomTransform(k, this.width / 2 - cx * k, this.height / 2 - cy * k) : to);
      if (done < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  private pointed(event: MouseEvent): Place | null {
    if (this.tree === null) return null;
    const box = this.canvas.getBoundingClientRect();
    const { x, y, k } = this.transform;
    return hit(this.tree.root, (event.clientX - box.left - x) / k, (event.clientY - box.top - y) / k);
  }

  /** A click on a host that can be read chooses it; else it goes one level down, towards the pointer. */
  private readonly clicked = (event: MouseEvent): void => {
    const place = this.pointed(event);
    if (place === null || place.depth === 0) return;
    const legible = (one: Place): boolean => Math.min(one.x1 - one.x0, one.y1 - one.y0) * this.transform.k >= LEGIBLE;
    const line: Place[] = [];
    for (let one: Place | null = place; one !== null && one.depth > 0; one = one.parent) line.unshift(one);
    if (legible(place)) {
      this.pick(place);
      return;
    }
    const inside = line.findIndex((one) => one.path === this.at);
    this.pick(line[Math.min(line.length - 1, inside + 1)]!);
  };

  private pick(place: Place): void {
    this.focused = place.path;
    this.hooks.focus(place);
    this.hooks.choose(place.path);
  }

  private readonly moved = (event: PointerEvent): void => {
    const place = this.pointed(event);
    const found = place === null || place.depth === 0 ? null : place;
    const changed = found !== this.hover;
    this.hover = found;
    const box = this.canvas.getBoundingClientRect();
    this.hooks.hover(found, event.clientX - box.left, event.clientY - box.top);
    if (changed) this.draw();
  };

  private readonly left = (): void => {
    this.hover = null;
    this.hooks.hover(null, 0, 0);
    this.draw();
  };

  private setFocus(path: string): void {
    this.focused = path;
    this.hooks.focus(this.tree?.places.get(path) ?? null);
    this.draw();
  }

  private readonly gained = (): void => {
    const root = this.tree?.root;
    const known = this.focused !== null && this.tree?.places.has(this.focused) === true;
    if (!known && root?.children[0] !== undefined) this.setFocus(root.children[0].path);
    // A click gives the focus too, to what the pointer is at: the picture must not move under it.
    if (this.canvas.matches(':focus-visible')) this.reveal();
    this.draw();
  };

  private readonly lost = (): void => this.draw();

  /** Arrows move among places of one level by where they lie, Enter goes down, Escape up. */
  private readonly pressed = (event: KeyboardEvent): void => {
    if (this.tree === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = this.focused === null ? undefined : this.tree.places.get(this.focused);
    const act = (): boolean => {
      switch (event.key) {
        case '+': case '=': this.zoomBy(1.5); return true;
        case '-': this.zoomBy(1 / 1.5); return true;
        case '0': this.home(); return true;
        default:
      }
      if (place === undefined) return false;
      switch (event.key) {
        case 'ArrowRight': case 'ArrowLeft': case 'ArrowUp': case 'ArrowDown': {
          const next = neighbour(place, event.key);
          if (next !== null) this.move(next);
          return true;
        }
        case 'Home': case 'End': {
          const next = place.parent?.children.at(event.key === 'Home' ? 0 : -1);
          if (next !== undefined) this.move(next);
          return true;
        }
        case 'Enter': case ' ':
          if (this.at === place.path && place.children[0] !== undefined) this.pick(place.children[0]);
          else this.pick(place);
          return true;
        case 'Escape': case 'Backspace':
          if (place.parent === null || place.parent.depth === 0) {
            if (this.at === null) return event.key === 'Backspace';
            this.hooks.choose('');
          } else this.pick(place.parent);
          return true;
        default: return false;
      }
    };
    if (act()) {
      this.left();
      event.preventDefault();
      event.stopPropagation();
    }
  };

  /** Moves the focus; what lies outside of the window comes into it. */
  private move(place: Place): void {
    this.setFocus(place.path);
    this.flight += 1;
    this.reveal();
  }
}

/** The nearest place of the same parent in a direction, else of the neighbouring parent. */
function neighbour(place: Place, key: string): Place | null {
  const [right, down] = key === 'ArrowRight' ? [1, 0] : key === 'ArrowLeft' ? [-1, 0] : key === 'ArrowDown' ? [0, 1] : [0, -1];
  const cx = (place.x0 + place.x1) / 2;
  const cy = (place.y0 + place.y1) / 2;
  const nearest = (places: readonly Place[]): Place | null => {
    let best: Place | null = null;
    let least = Infinity;
    for (const other of places) {
      if (other === place) continue;
      const dx = (other.x0 + other.x1) / 2 - cx;
      const dy = (other.y0 + other.y1) / 2 - cy;
      const ahead = dx * right + dy * down;
      const aside = Math.abs(dx * down) + Math.abs(dy * right);
      if (ahead <= 0.01 || aside > ahead * 2) continue;
      const far = ahead + 2 * aside;
      if (far < least) {
        least = far;
        best = other;
      }
    }
    return best;
  };
  const beside = nearest(place.parent?.children ?? []);
  if (beside !== null) return beside;
  const over = place.parent === null || place.parent.parent === null ? null : neighbour(place.parent, key);
  return over === null ? null : over.children.length === 0 ? null : nearest(over.children);
}
