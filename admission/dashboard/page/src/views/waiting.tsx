// All workloads that wait: why, since when, and when they are expected to start.

import type { JSX } from 'preact';
import type { WorkloadRow } from '../api/wire';
import { keyOf, waiting, workloads } from '../live';
import { Note, Swatch, useFirst, useNow, Waiting } from '../parts';
import { choose, link, route } from '../route';
import { agoText, countText, halves, momentText, plural, startMoments, startText } from '../text';
import { byName } from '../tree/model';

type Column = 'name' | 'queue' | 'priority' | 'pods' | 'position' | 'since' | 'start' | 'reason';

const far = (time: string | null): number => (time === null ? Infinity : Date.parse(time));
const ORDER: Record<Column, (a: WorkloadRow, b: WorkloadRow) => number> = {
  name: (a, b) => byName(keyOf(a), keyOf(b)),
  queue: (a, b) => byName(a.clusterQueue, b.clusterQueue) || (a.position ?? Infinity) - (b.position ?? Infinity),
  priority: (a, b) => b.priority - a.priority,
  pods: (a, b) => b.pods - a.pods,
  position: (a, b) => (a.position ?? Infinity) - (b.position ?? Infinity) || 0,
  since: (a, b) => far(a.created) - far(b.created),
  start: (a, b) => (far(a.expectedStart) < far(b.expectedStart) ? -1 : far(a.expectedStart) > far(b.expectedStart) ? 1 : 0),
  reason: (a, b) => byName(reasonOf(a), reasonOf(b)),
};

const listed = (rows: readonly WorkloadRow[], of: (row: WorkloadRow) => string): string[] => [...new Set(rows.map(of))].filter((one) => one !== '').sort(byName);

/** Why it does not run: what its state says, or what holds its pods back though it is admitted. */
const reasonOf = (row: WorkloadRow): string => row.notes[0]?.type ?? (row.reason || row.state);

function Hint({ row }: { row: WorkloadRow }): JSX.Element {
  if (row.notes.length > 0) return <>{row.notes.map((note) => <div key={note.type} class="clamp soft" title={note.message}>{note.message}</div>)}</>;
  const [why, remedy] = halves(row.hint);
  return (
    <>
      <div class="clamp soft" title={row.message}>{why || row.message}</div>
      {row.heldHosts > 0 && <div class="row fine"><Swatch color="var(--cell-held)" />{plural(row.heldHosts, 'host')} held for it, until others have left</div>}
      {remedy !== '' && <div class="clamp" title={remedy}>Would be admitted if {remedy}</div>}
    </>
  );
}

export function WaitingView(): JSX.Element {
  const { error, again } = workloads.value;
  const all = waiting.value;
  const now = useNow();
  const { query } = route.value;
  const namespace = query.get('namespace') ?? '';
  const queue = query.get('queue') ?? '';
  const reason = query.get('reason') ?? '';
  const text = (query.get('text') ?? '').toLowerCase();
  const sort = (Object.keys(ORDER) as Column[]).find((column) => column === query.get('sort')) ?? 'queue';
  const back = query.get('order') === 'down';
  const rows = (all ?? []).filter((row) =>
    (namespace === '' || row.namespace === namespace) && (queue === '' || row.clusterQueue === queue) && (reason === '' || reasonOf(row) === reason)
    && (text === '' || `${keyOf(row)} ${row.job} ${row.message} ${row.hint} ${row.notes.map((note) => note.message).join(' ')}`.toLowerCase().includes(text)));
  rows.sort((a, b) => (back ? -1 : 1) * (ORDER[sort](a, b) || byName(keyOf(a), keyOf(b))));
  const [shown, more] = useFirst(rows.length, 100);
  if (all === null) return <div class="sheet"><Waiting error={error} again={again} what="the workloads" /></div>;

  const head = (column: Column, title: string, number = false): JSX.Element => (
    <th scope="col" class={number ? 'num' : ''} aria-sort={sort === column ? (back ? 'descending' : 'ascending') : 'none'}>
      <button type="button" aria-pressed={sort === column} onClick={() => choose({ sort: column, order: sort === column && !back ? 'down' : null })}>
        {title}{sort === column ? (back ? ' ↓' : ' ↑') : ''}
      </button>
    </th>
  );
  const pick = (name: string, title: string, values: string[], value: string): JSX.Element => (
    <label>
      {title}
      <select value={value} onChange={(event) => choose({ [name]: event.currentTarget.value })}>
        <option value="">all</option>
        {[...new Set([...values, ...(value === '' ? [] : [value])])].map((one) => <option key={one} value={one}>{one}</option>)}
      </select>
    </label>
  );
  return (
    <div class="sheet">
      <div class="row">
        <h1>{all.length === 0 ? 'Nothing waits' : `${countText(all.length)} ${all.length === 1 ? 'workload waits' : 'workloads wait'}`}</h1>
        {rows.length < all.length && <span class="faint">{countText(rows.length)} shown</span>}
      </div>
      <div class="row" role="group" aria-label="Filter">
        {pick('namespace', 'Namespace', listed(all, (row) => row.namespace), namespace)}
        {pick('queue', 'ClusterQueue', listed(all, (row) => row.clusterQueue), queue)}
        {pick('reason', 'Reason', listed(all, reasonOf), reason)}
        <label>Text <input type="search" value={query.get('text') ?? ''} onInput={(event) => choose({ text: event.currentTarget.value }, true)} /></label>
        {(namespace || queue || reason || text) !== '' && <button type="button" onClick={() => choose({ namespace: null, queue: null, reason: null, text: null })}>Clear</button>}
      </div>
      {rows.length === 0 ? (
        <Note title={all.length === 0 ? 'Every workload that you may see runs or has ended' : 'No waiting workload matches the filter'} />
      ) : (
        <div class="card scroll">
          <table class="waiting">
            <thead>
              <tr>
                {head('name', 'Workload')}{head('queue', 'ClusterQueue')}{head('position', '#', true)}{head('priority', 'priority', true)}
                {head('pods', 'pods', true)}{head('since', 'waits', true)}{head('reason', 'Why it waits')}{head('start', 'expected start', true)}
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, shown).map((row) => (
                <tr key={keyOf(row)}>
                  <td class="name main"><a href={link(['workload', row.namespace, row.name])}>{row.namespace}/{row.name}</a>{row.job !== '' && <div class="faint">{row.job}</div>}</td>
                  <td class="name">{row.clusterQueue}</td>
                  <td class="num">{row.position ?? '–'}</td>
                  <td class="num">{row.priority}</td>
                  <td class="num">{countText(row.pods)}</td>
                  <td class="num" title={momentText(row.created)}>{agoText(row.created, now)}</td>
                  <td class="why"><span class="tag warn">{reasonOf(row)}</span><Hint row={row} /></td>
                  <td class="num start" title={startMoments(row.earliestStart, row.expectedStart)}>{startText(row.earliestStart, row.expectedStart, now) || '–'}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {more}
        </div>
      )}
    </div>
  );
}
