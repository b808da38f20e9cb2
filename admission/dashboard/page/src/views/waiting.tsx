// All workloads that wait: why, since when, and when they are expected to start.

import type { JSX } from 'preact';
import type { WorkloadRow } from '../api/wire';
import { keyOf, waiting } from '../live';
import { Swatch } from '../parts';
import { agoText, countText, halves, momentText, plural, startMoments, startText } from '../text';
import { byName } from '../tree/model';
import { namespaceFilter, queueFilter, workloadColumn, WorkloadList, type Column } from './list';

const far = (time: string | null): number => (time === null ? Infinity : Date.parse(time));

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

const COLUMNS: readonly Column[] = [
  { ...workloadColumn, cell: (row, now) => <>{workloadColumn.cell(row, now)}{row.job !== '' && <div class="faint">{row.job}</div>}</> },
  {
    name: 'queue', title: 'ClusterQueue', look: 'name', cell: (row) => row.clusterQueue,
    order: (a, b) => byName(a.clusterQueue, b.clusterQueue) || (a.position ?? Infinity) - (b.position ?? Infinity),
  },
  { name: 'position', title: '#', look: 'num', cell: (row) => row.position ?? '–', order: (a, b) => (a.position ?? Infinity) - (b.position ?? Infinity) || 0 },
  { name: 'priority', title: 'priority', look: 'num', cell: (row) => row.priority, order: (a, b) => b.priority - a.priority },
  { name: 'pods', title: 'pods', look: 'num', cell: (row) => countText(row.pods), order: (a, b) => b.pods - a.pods },
  {
    name: 'since', title: 'waits', look: 'num', cell: (row, now) => agoText(row.created, now), order: (a, b) => far(a.created) - far(b.created),
    tip: (row) => momentText(row.created),
  },
  {
    name: 'reason', title: 'Why it waits', look: 'why', order: (a, b) => byName(reasonOf(a), reasonOf(b)),
    cell: (row) => <><span class="tag warn">{reasonOf(row)}</span><Hint row={row} /></>,
  },
  {
    name: 'start', title: 'expected start', look: 'num start',
    order: (a, b) => (far(a.expectedStart) < far(b.expectedStart) ? -1 : far(a.expectedStart) > far(b.expectedStart) ? 1 : 0),
    cell: (row, now) => startText(row.earliestStart, row.expectedStart, now) || '–', tip: (row) => startMoments(row.earliestStart, row.expectedStart),
  },
];
const FILTERS = [namespaceFilter, queueFilter, { name: 'reason', title: 'Reason', of: reasonOf }];

export function WaitingView(): JSX.Element {
  return (
    <WorkloadList
      all={waiting.value}
      columns={COLUMNS}
      first="queue"
      filters={FILTERS}
      text={(row) => `${keyOf(row)} ${row.job} ${row.message} ${row.hint} ${row.notes.map((note) => note.message).join(' ')}`}
      title={(count) => (count === 0 ? 'Nothing waits' : `${countText(count)} ${count === 1 ? 'workload waits' : 'workloads wait'}`)}
      empty="Every workload that you may see runs or has ended"
      none="No waiting workload matches the filter"
    />
  );
}
