// The picture as a component: the canvas, its tip, its buttons, and what a screen reader reads in its stead.

import type { JSX } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { dark } from '../theme';
import { amountText, momentText, percentText, plural } from '../text';
import type { Looks, Mode } from './looks';
import { free, presences, sum, tightest, type Host, type Place, type Tree } from './model';
import { Picture } from './picture';

export interface CanvasProps {
  tree: Tree;
  mode: Mode;
  resource: number;
  only: string | null;
  marked: ReadonlySet<string> | null;
  at: string | null;
  choose: (path: string) => void;
  legend: (looks: Looks) => void;
}

interface Tip {
  place: Place;
  x: number;
  y: number;
}

export function TreeCanvas(props: CanvasProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const picture = useRef<Picture | null>(null);
  const [tip, setTip] = useState<Tip | null>(null);
  const [focus, setFocus] = useState<Place | null>(null);
  const hooks = useRef(props);
  hooks.current = props;
  const id = useId();

  useLayoutEffect(() => {
    if (canvas.current === null) return undefined;
    const made = new Picture(canvas.current, {
      choose: (path) => hooks.current.choose(path),
      hover: (place, x, y) => setTip(place === null ? null : { place, x, y }),
      focus: setFocus,
      legend: (looks) => hooks.current.legend(looks),
    });
    picture.current = made;
    return () => {
      made.destroy();
      picture.current = null;
    };
  }, []);

  const { tree, mode, resource, only, marked, at } = props;
  useLayoutEffect(() => picture.current?.show(tree, { mode, resource, only, marked }, at), [tree, mode, resource, only, marked]);
  useLayoutEffect(() => picture.current?.select(at), [at, tree.flavor]);
  const isDark = dark.value;
  const painted = useRef(isDark);
  useEffect(() => {
    if (painted.current !== isDark) picture.current?.recolor();
    painted.current = isDark;
  }, [isDark]);

  // The places of the hovered tip and of the focus are of an older tree after a change: take the new ones.
  const fresh = (place: Place | null | undefined): Place | null => (place == null ? null : (tree.places.get(place.path) ?? null));
  const focused = fresh(focus);
  const hovered = fresh(tip?.place);
  const line: Place[] = [];
  for (let one: Place | null = focused; one !== null && one.parent !== null; one = one.parent) line.unshift(one);

  return (
    <>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="tree"
        aria-label={`Picture of ${tree.flavor}: ${tree.levels.map(short).join(', ')}`}
        aria-describedby={`${id}-keys`}
        {...(focused === null ? {} : { 'aria-activedescendant': `${id}-at` })}
      >
        {line.map((place) => (
          <div
            key={place.path}
            id={place === focused ? `${id}-at` : undefined}
            role="treeitem"
            aria-level={place.depth}
            aria-posinset={place.index + 1}
            aria-setsize={place.parent?.children.length}
            aria-selected={place.path === at}
            {...(place.host === null ? { 'aria-expanded': place !== focused } : {})}
          >
            {place === focused ? spoken(tree, place, resource) : place.name}
          </div>
        ))}
      </canvas>
      <p id={`${id}-keys`} class="hidden">
        Arrow keys move, Enter goes into a place, Escape goes out, plus and minus zoom, 0 shows all. The table beside the picture says
        the same in words.
      </p>
      <div class="zoom">
        <button type="button" class="icon" aria-label="Zoom in" title="Zoom in (+)" onClick={() => picture.current?.zoomBy(1.6)}>+</button>
        <button type="button" class="icon" aria-label="Zoom out" title="Zoom out (−)" onClick={() => picture.current?.zoomBy(1 / 1.6)}>−</button>
        <button type="button" class="icon" title="Show all (0)" onClick={() => { picture.current?.home(); props.choose(''); }}>All</button>
      </div>
      {tip !== null && hovered !== null && <TipBox tree={tree} place={hovered} x={tip.x} y={tip.y} resource={resource} />}
    </>
  );
}

/** What a place of this depth is called; below the lowest level lie nodes. */
export const levelAt = (tree: Tree, depth: number): string => (depth > tree.levels.length ? 'node' : short(tree.levels[depth - 1] ?? ''));

export const short = (level: string): string => {
  const name = level.slice(level.lastIndexOf('/') + 1);
  return name === 'hostname' ? 'host' : name.replace(/^topology-/, '');
};

function spoken(tree: Tree, place: Place, chosen: number): string {
  const level = levelAt(tree, place.depth);
  const totals = sum(place, tree.resources.length);
  const resource = chosen >= 0 ? chosen : mainResource(tree, totals.total);
  const name = tree.resources[resource] ?? '';
  const parts = [`${level} ${place.name}`];
  if (place.host === null) parts.push(plural(place.hosts, 'host'));
  else if (place.host.health !== 'ok') parts.push(place.host.health);
  parts.push(`${amountText(name, totals.free[resource] ?? 0)} of ${amountText(name, totals.total[resource] ?? 0)} ${name} free`);
  if (totals.failed > 0 && place.host === null) parts.push(`${totals.failed} failed`);
  if (totals.left > 0) parts.push(place.host === null ? `${totals.left} held for workloads that wait` : heldText(place.host));
  if (totals.reserved > 0) parts.push(place.host === null ? `${totals.reserved} reserved` : 'reserved');
  if (place.host !== null) {
    const runs = presences(place);
    parts.push(runs.length === 0 ? 'nothing runs here' : runs.slice(0, 3).map(({ work, pods }) => `${plural(pods, 'pod')} of ${work.key || 'another namespace'}`).join(', '));
  }
  return parts.join(', ');
}

/** For whom others are leaving a host. */
const heldText = (host: Host): string => `held for ${host.heldFor.map((work) => work.key || 'a workload of another namespace').join(', ')}, until others have left`;

/** The resource that a summary speaks of: the first device, else cpu. */
export function mainResource(tree: Tree, total: readonly number[]): number {
  const device = tree.resources.findIndex((name, at) => name.includes('/') && total[at]! > 0);
  if (device >= 0) return device;
  const cpu = tree.resources.indexOf('cpu');
  return cpu >= 0 ? cpu : 0;
}

const TIP_RUNS = 6;

function TipBox({ tree, place, x, y, resource }: { tree: Tree; place: Place; x: number; y: number; resource: number }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const made = box.current;
    const frame = made?.parentElement;
    if (made == null || frame == null) return;
    // Beside the pointer, on the side with room.
    const left = x + 16 + made.offsetWidth > frame.clientWidth ? x - 12 - made.offsetWidth : x + 16;
    const top = y + 14 + made.offsetHeight > frame.clientHeight ? y - 10 - made.offsetHeight : y + 14;
    made.style.left = `${Math.max(0, left)}px`;
    made.style.top = `${Math.max(0, top)}px`;
  });
  const host = place.host;
  const runs = presences(place);
  const at = host === null ? 0 : resource >= 0 ? resource : tightest(host, tree.resources);
  return (
    <div class="tip" ref={box} aria-hidden="true">
      <div class="where">{place.path.split('/').slice(0, -1).join(' › ')}</div>
      <strong class="name">{place.name}</strong>
      {host !== null && host.health !== 'ok' && <div><span class="tag bad">{host.health}</span> {host.why}</div>}
      {host !== null && tree.resources[at] !== undefined && (
        <div class="soft">
          {amountText(tree.resources[at], free(host, at))} of {amountText(tree.resources[at], host.total[at]!)} {tree.resources[at]} free
          {' '}({percentText(free(host, at), host.total[at]!)})
        </div>
      )}
      {host !== null && host.reserved.length > 0 && (
        <div class="soft">reserved{host.reserved.map(({ name, start }) => name === '' ? '' : ` from ${momentText(start)}: ${name}`).join(',')}</div>
      )}
      {host !== null && host.heldFor.length > 0 && <div class="soft">{heldText(host)}</div>}
      <div class="runs">
        {runs.slice(0, TIP_RUNS).map(({ work, pods }) => (
          <div key={`${work.key} ${work.queue}`}><span class="name">{work.key || 'another namespace'}</span><span class="faint">{plural(pods, 'pod')}</span></div>
        ))}
        {runs.length > TIP_RUNS && <div class="faint">and {runs.length - TIP_RUNS} more</div>}
        {host !== null && runs.length === 0 && <div class="faint">no workload</div>}
      </div>
    </div>
  );
}
export type { Mode };
