// Gives each place its rectangle: a treemap whose areas are numbers of hosts.

import { hierarchy, treemap, treemapSquarify, type HierarchyRectangularNode } from 'd3-hierarchy';
import type { Place } from './model';

const GAP = 5;
const HEAD = 15;
const LEAST_HEAD_WIDTH = 34;

interface Box {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

/**
 * Rows of equal cells for `count` children, of which some may be missing: hosts look alike, so their cells must. Squarified cells
 * of one size would differ in shape.
 */
function grid(children: readonly Box[], count: number, x0: number, y0: number, x1: number, y1: number): void {
  const width = x1 - x0;
  const height = y1 - y0;
  let columns = 1;
  let least = Infinity;
  for (let tried = 1; tried <= count; tried += 1) {
    const rows = Math.ceil(count / tried);
    const shape = Math.abs(Math.log(width / tried / (height / rows)));
    const cost = shape + 1.5 * ((rows * tried - count) / count);
    if (cost < least) {
      least = cost;
      columns = tried;
    }
    if (width / tried < height / rows / 4) break;
  }
  const rows = Math.ceil(count / columns);
  const across = width / columns;
  const down = height / rows;
  children.forEach((child, index) => {
    child.x0 = x0 + (index % columns) * across;
    child.x1 = child.x0 + across;
    child.y0 = y0 + Math.floor(index / columns) * down;
    child.y1 = child.y0 + down;
  });
}

type Node = HierarchyRectangularNode<Place>;

function tile(node: Node, x0: number, y0: number, x1: number, y1: number): void {
  const children = node.children ?? [];
  if (children.length === 0) return;
  if (alike(children)) grid(children, places(node), x0, y0, x1, y1);
  else treemapSquarify(node, x0, y0, x1, y1);
}

/** A block with fewer racks than its neighbours leaves the rest of its area empty: its hosts are no larger than theirs. */
function places(node: Node): number {
  const siblings = node.parent?.children ?? [node];
  const most = alike(siblings) ? Math.max(...siblings.map((one) => one.data.children.length)) : 0;
  return Math.max(most, node.data.children.length);
}

/** Siblings of about one size make rows, which read like a floor plan; others need areas that tell their sizes. */
function alike(siblings: readonly Node[]): boolean {
  let most = 0;
  let sum = 0;
  for (const { data } of siblings) {
    most = Math.max(most, data.hosts);
    sum += data.hosts;
  }
  return most * siblings.length <= 1.4 * sum;
}

const lowest = (place: Place): boolean => place.children[0]?.host != null;
/** Hosts without domains beside them, nearly all: the treemap need not know of them. */
const plain = (place: Place): boolean => place.children.every((child) => child.host !== null);

export function lay(root: Place, width: number, height: number): void {
  const small = (node: Node): number => Math.max(0.4, Math.min(node.x1 - node.x0, node.y1 - node.y0) * 0.035);
  const tree = hierarchy<Place>(root, (place) => (plain(place) ? null : place.children));
  // A domain's area is that of its hosts.
  const laying = tree.sum((place) => (plain(place) ? place.hosts : 0));
  const head = (node: Node): number => {
    if (node.depth === 0) return 0;
    if (node.depth === 1 && !lowest(node.data)) return node.x1 - node.x0 >= LEAST_HEAD_WIDTH ? HEAD : GAP / 2;
    // Deeper heads grow with the zoom: at the smallest scale they are a margin, later a line of text.
    return Math.min(HEAD, (node.y1 - node.y0) * (lowest(node.data) ? 0.12 : 0.08));
  };
  const margin = (node: Node): number => (node.depth === 0 ? 0 : node.depth === 1 && !lowest(node.data) ? GAP / 2 : small(node));
  const laid = treemap<Place>().size([width, height]).tile(tile).paddingInner(0).paddingOuter(margin).paddingTop(head)(laying);
  laid.each((node) => {
    const place = node.data;
    place.x0 = node.x0;
    place.y0 = node.y0;
    place.x1 = node.x1;
    place.y1 = node.y1;
    place.head = node.data.host === null ? head(node) : 0;
    if (place.host === null && plain(place)) {
      const edge = margin(node);
      const [cx, cy] = [(node.x0 + node.x1) / 2, (node.y0 + node.y1) / 2];
      const [x0, y0] = [Math.min(cx, node.x0 + edge), Math.min(cy, node.y0 + place.head)];
      grid(place.children, places(node), x0, y0, Math.max(cx, node.x1 - edge), Math.max(cy, node.y1 - edge));
    }
  });
}

/** The deepest place at a point of the layout, at most `depth` levels below the root. */
export function hit(root: Place, x: number, y: number, depth = Infinity): Place | null {
  if (x < root.x0 || x >= root.x1 || y < root.y0 || y >= root.y1) return null;
  let place = root;
  while (place.depth < depth) {
    const child = place.children.find((one) => x >= one.x0 && x < one.x1 && y >= one.y0 && y < one.y1);
    if (child === undefined) break;
    place = child;
  }
  return place;
}
