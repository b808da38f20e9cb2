// Deep links: the part of the address after # names the view, and its parameters what is chosen there.

import { signal } from '@preact/signals';

export interface Route {
  /** The parts of the path, the view first. */
  path: string[];
  query: URLSearchParams;
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

function read(): Route {
  const text = location.hash.replace(/^#\/?/, '');
  const mark = text.indexOf('?');
  const path = (mark < 0 ? text : text.slice(0, mark)).split('/').filter((part) => part !== '').map(decoded);
  return { path, query: new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1)) };
}

export const route = signal(read());
let shown = location.hash;

/** Takes the address at once: keys may follow each other faster than the browser's event. */
function follow(): void {
  if (location.hash === shown) return;
  shown = location.hash;
  route.value = read();
}
addEventListener('hashchange', follow);

export function link(path: readonly string[], query: Readonly<Record<string, string | null | undefined>> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value != null && value !== '') parameters.set(name, value);
  const text = parameters.toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

/** Changes parameters of the present view. A `replace` adds no step to the history: for what is typed. */
export function choose(changes: Readonly<Record<string, string | null>>, replace = false): void {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') query.delete(name);
    else query.set(name, value);
  }
  go(link(route.value.path, Object.fromEntries(query)), replace);
}

export function go(target: string, replace = false): void {
  if (target === location.hash) return;
  if (replace) history.replaceState(null, '', target);
  else location.hash = target;
  follow();
}
