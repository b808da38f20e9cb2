// Small pieces that several views use.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Refused } from './api/client';

export function Note({ title, children, bad = false }: { title: string; children?: ComponentChildren; bad?: boolean }): JSX.Element {
  return (
    <div class={bad ? 'note bad' : 'note'} role={bad ? 'alert' : 'status'}>
      <h2>{title}</h2>
      {children !== undefined && <div class="soft">{children}</div>}
    </div>
  );
}

/** What a view shows while there is no answer, or none came. */
export function Waiting({ error, again, what }: { error: Error | null; again: () => void; what: string }): JSX.Element {
  if (error === null) return <Note title={`Loading ${what}…`} />;
  const status = error instanceof Refused ? error.status : -1;
  const title =
    status === 403 ? `You may not see ${what}` : status === 404 ? `Not found: ${what}` : `No answer for ${what}`;
  return (
    <Note title={title} bad>
      <p class="name">{error.message}</p>
      {status !== 403 && (
        <p>
          <button type="button" onClick={again}>Try again</button>
        </p>
      )}
    </Note>
  );
}

export interface Slice {
  name: string;
  amount: number;
}

/** A bar of a whole; the words beside it say the same, so it is hidden from screen readers. */
export function Meter({ slices, total, small = false }: { slices: Slice[]; total: number; small?: boolean }): JSX.Element {
  return (
    <span class={small ? 'meter small' : 'meter'} aria-hidden="true">
      {slices.map(({ name, amount }) => {
        const share = total > 0 ? Math.max(0, Math.min(100, (100 * amount) / total)) : 0;
        // The policy of the page permits no style attribute in markup; a property set by script is not one.
        return share === 0 ? null : <i key={name} class={name} ref={(made) => { if (made !== null) made.style.width = `${share}%`; }} />;
      })}
    </span>
  );
}

export const Swatch = ({ color }: { color: string }): JSX.Element => (
  <span class="swatch" aria-hidden="true" ref={(made) => { if (made !== null) made.style.background = color; }} />
);

/** A name of a resource or level, which may break after its domain and nowhere else. */
export function Domained({ name }: { name: string }): JSX.Element {
  const at = name.indexOf('/') + 1;
  return at === 0 ? <>{name}</> : <>{name.slice(0, at)}<wbr />{name.slice(at)}</>;
}

/** The present time, which moves on so that ages on the screen do. */
export function useNow(every = 15_000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

/** Shows the first rows of a long list, and more of them when asked. */
export function useFirst(count: number, step: number): [number, JSX.Element | null] {
  const [shown, setShown] = useState(step);
  const rest = count - shown;
  return [
    Math.min(count, shown),
    rest <= 0 ? null : (
      <p class="row">
        <button type="button" onClick={() => setShown(shown + step * 4)}>Show {Math.min(rest, step * 4)} more</button>
        <span class="faint">{rest} not shown</span>
      </p>
    ),
  ];
}
