// The frame of all views: header, warnings, the view that the address names.

import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { asked, Refused, signOut, token } from './api/client';
import { link as liveLink, session, waiting } from './live';
import { link, route } from './route';
import { dark, switchTheme } from './theme';
import { countText } from './text';
import { Note } from './parts';
import { flavors } from './topologies';
import { Search } from './views/search';
import { SignIn } from './views/signin';
import { TopologyView } from './views/topology';
import { QueuesView } from './views/queues';
import { RunningView } from './views/running';
import { WaitingView } from './views/waiting';
import { WhatIfView } from './views/whatif';
import { WorkloadView } from './views/workload';

const LIVE = { live: 'live', connecting: 'connecting…', lost: 'not live' } as const;
const TITLES: Record<string, string> = { topology: 'Topology', queues: 'Queues', waiting: 'Waiting', running: 'Running', 'what-if': 'What if' };

export function App(): JSX.Element {
  const main = useRef<HTMLElement>(null);
  const shown = useRef<string | null>(null);
  // A tenant without a right to nodes begins with what waits.
  const hidden = flavors.value.error instanceof Refused && flavors.value.error.status === 403;
  const [view = hidden ? 'waiting' : 'topology', ...rest] = route.value.path;
  useEffect(() => {
    document.title = `${view === 'workload' ? rest.join('/') : (TITLES[view] ?? 'Not found')} · Stowage`;
    main.current?.scrollTo(0, 0);
    // The link that was followed may be gone: keys and screen readers go on in the new view. On loading, they begin at the top.
    if (shown.current !== null) main.current?.focus();
    shown.current = view;
  }, [view, rest.join('/')]);
  if (asked.value !== null) return <SignIn why={asked.value} />;
  const { state, why } = liveLink.value;
  const waits = waiting.value?.length ?? 0;
  return (
    <div class="shell">
      <header>
        <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>To the content</a>
        <div class="top">
          <a class="brand" href={link([])}>
            <svg viewBox="0 0 16 16" aria-hidden="true"><rect width="16" height="16" rx="3" fill="currentColor" opacity=".14" /><path fill="currentColor" d="M3 3h4v4H3zM3 9h4v4H3zM9 9h4v4H9z" /><path fill="none" stroke="currentColor" d="M9.5 3.5h3v3h-3z" /></svg>
            Stowage
          </a>
          <nav aria-label="Views">
            {Object.entries(TITLES).map(([path, title]) => (
              <a key={path} href={link([path])} {...(path === view ? { 'aria-current': 'page' as const } : {})}>
                {title}
                {path === 'waiting' && waits > 0 && <span class="badge">{countText(waits)}</span>}
              </a>
            ))}
          </nav>
          <div class="end">
            <Search />
            <span class="live" data-state={state} role="status" title={why}>{LIVE[state]}</span>
            <button type="button" class="icon" onClick={switchTheme} aria-label={dark.value ? 'Switch to light' : 'Switch to dark'} title={dark.value ? 'Light' : 'Dark'}>
              {dark.value ? '☀' : '☾'}
            </button>
            {token.value !== null && <button type="button" onClick={signOut} title={session.answer.value.data?.user ?? ''}>Sign out</button>}
          </div>
        </div>
        {state === 'lost' && <div class="strip bad" role="alert">Not live: {why} The page shows what it last read and tries again.</div>}
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <View view={view} rest={rest} />
      </main>
    </div>
  );
}

function View({ view, rest }: { view: string; rest: string[] }): JSX.Element {
  switch (view) {
    case 'topology': return <TopologyView />;
    case 'queues': return <QueuesView />;
    case 'waiting': return <WaitingView />;
    case 'running': return <RunningView />;
    case 'what-if': return <WhatIfView />;
    case 'workload': {
      const [namespace, name] = rest;
      // A dot would be resolved as a step of the address, which then is that of another answer.
      const dots = [namespace, name].some((part) => part === '.' || part === '..');
      if (namespace !== undefined && name !== undefined && !dots) return <WorkloadView key={`${namespace}/${name}`} namespace={namespace} name={name} />;
      break;
    }
    default:
  }
  return (
    <div class="sheet">
      <Note title="There is no such page"><a href={link(['topology'])}>To the topology</a></Note>
    </div>
  );
}
