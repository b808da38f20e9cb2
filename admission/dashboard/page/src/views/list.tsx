// A list of workloads as a table that can be sorted and filtered; what is chosen is part of the address.

import type { ComponentChildren, JSX } from 'preact';
import type { WorkloadRow } from '../api/wire';
import { keyOf, workloads } from '../live';
import { Note, useFirst, useNow, Waiting } from '../parts';
import { choose, link, route } from '../route';
import { countText } from '../text';
import { byName } from '../tree/model';

export interface Column {
  name: string;
  title: string;
  /** Classes of its cells; a column of numbers has `num`. */
  look: string;
  order: (a: WorkloadRow, b: WorkloadRow) => number;
  cell: (row: WorkloadRow, now: number) => ComponentChildren;
  /** What its cells say at more length. */
  tip?: (row: WorkloadRow) => string;
}

export interface Filter {
  name: string;
  title: string;
  of: (row: WorkloadRow) => string;
}

interface Props {
  all: WorkloadRow[] | null;
  columns: readonly Column[];
  /** The column by which the list is sorted at first. */
  first: string;
  filters: readonly Filter[];
  /** The text in which a text is sought. */
  text: (row: WorkloadRow) => string;
  title: (count: number) => string;
  empty: string;
  none: string;
}

export const workloadColumn: Column = {
  name: 'name', title: 'Workload', look: 'name main', order: (a, b) => byName(keyOf(a), keyOf(b)),
  cell: (row) => <a href={link(['workload', row.namespace, row.name])}>{row.namespace}/{row.name}</a>,
};
export const queueFilter: Filter = { name: 'queue', title: 'ClusterQueue', of: (row) => row.clusterQueue };
export const namespaceFilter: Filter = { name: 'namespace', title: 'Namespace', of: (row) => row.namespace };

const listed = (rows: readonly WorkloadRow[], of: (row: WorkloadRow) => string): string[] => [...new Set(rows.map(of))].filter((one) => one !== '').sort(byName);

export function WorkloadList({ all, columns, first, filters, text, title, empty, none }: Props): JSX.Element {
  const { error, again } = workloads.value;
  const now = useNow();
  const { query } = route.value;
  const chosen = filters.map((filter) => query.get(filter.name) ?? '');
  const sought = (query.get('text') ?? '').toLowerCase();
  const sort = columns.find((column) => column.name === query.get('sort')) ?? columns.find((column) => column.name === first)!;
  const back = query.get('order') === 'down';
  const rows = (all ?? []).filter((row) =>
    filters.every((filter, at) => chosen[at] === '' || filter.of(row) === chosen[at]) && (sought === '' || text(row).toLowerCase().includes(sought)));
  rows.sort((a, b) => (back ? -1 : 1) * (sort.order(a, b) || byName(keyOf(a), keyOf(b))));
  const [shown, more] = useFirst(rows.length, 100);
  if (all === null) return <div class="sheet"><Waiting error={error} again={again} what="the workloads" /></div>;

  const head = (column: Column): JSX.Element => (
    <th key={column.name} scope="col" class={column.look.split(' ').includes('num') ? 'num' : ''} aria-sort={sort === column ? (back ? 'descending' : 'ascending') : 'none'}>
      <button type="button" aria-pressed={sort === column} onClick={() => choose({ sort: column.name, order: sort === column && !back ? 'down' : null })}>
        {column.title}{sort === column ? (back ? ' ↓' : ' ↑') : ''}
      </button>
    </th>
  );
  const pick = (filter: Filter, value: string): JSX.Element => (
    <label key={filter.name}>
      {filter.title}
      <select value={value} onChange={(event) => choose({ [filter.name]: event.currentTarget.value })}>
        <option value="">all</option>
        {[...new Set([...listed(all, filter.of), ...(value === '' ? [] : [value])])].map((one) => <option key={one} value={one}>{one}</option>)}
      </select>
    </label>
  );
  const nothing = { text: null, ...Object.fromEntries(filters.map((filter) => [filter.name, null])) };
  return (
    <div class="sheet">
      <div class="row">
        <h1>{title(all.length)}</h1>
        {rows.length < all.length && <span class="faint">{countText(rows.length)} shown</span>}
      </div>
      <div class="row" role="group" aria-label="Filter">
        {filters.map((filter, at) => pick(filter, chosen[at]!))}
        <label>Text <input type="search" value={query.get('text') ?? ''} onInput={(event) => choose({ text: event.currentTarget.value }, true)} /></label>
        {(sought !== '' || chosen.some((one) => one !== '')) && <button type="button" onClick={() => choose(nothing)}>Clear</button>}
      </div>
      {rows.length === 0 ? (
        <Note title={all.length === 0 ? empty : none} />
      ) : (
        <div class="card scroll">
          <table class="waiting">
            <thead><tr>{columns.map(head)}</tr></thead>
            <tbody>
              {rows.slice(0, shown).map((row) => (
                <tr key={keyOf(row)}>
                  {columns.map((column) => (
                    <td key={column.name} class={column.look} {...(column.tip === undefined ? {} : { title: column.tip(row) })}>{column.cell(row, now)}</td>
                  ))}
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
