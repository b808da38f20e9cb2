// All workloads that run: whose they are, since when, and how many GPU hours they have taken.

import type { JSX } from 'preact';
import type { WorkloadRow } from '../api/wire';
import { keyOf, running } from '../live';
import { agoText, countText, hoursText, momentText } from '../text';
import { byName } from '../tree/model';
import { namespaceFilter, queueFilter, workloadColumn, WorkloadList, type Column } from './list';

const startOf = (row: WorkloadRow): number => (row.started === null ? Infinity : Date.parse(row.started));

/** GPU seconds of this run and of those before it; zero for a workload without GPUs. */
const taken = (row: WorkloadRow, now: number): number =>
  row.gpus * ((row.started === null ? 0 : Math.max(0, now - Date.parse(row.started)) / 1000) + row.ranBefore);

const kindOf = (row: WorkloadRow): string => row.job.split(' ', 1)[0] ?? '';

const COLUMNS: readonly Column[] = [
  workloadColumn,
  { name: 'job', title: 'Owner', look: 'name', cell: (row) => row.job || '–', order: (a, b) => byName(a.job, b.job) },
  { name: 'queue', title: 'ClusterQueue', look: 'name', cell: (row) => row.clusterQueue, order: (a, b) => byName(a.clusterQueue, b.clusterQueue) },
  { name: 'priority', title: 'priority', look: 'num', cell: (row) => row.priority, order: (a, b) => b.priority - a.priority },
  { name: 'pods', title: 'pods', look: 'num', cell: (row) => countText(row.pods), order: (a, b) => b.pods - a.pods },
  { name: 'gpus', title: 'GPUs', look: 'num', cell: (row) => (row.gpus === 0 ? '–' : countText(row.gpus)), order: (a, b) => b.gpus - a.gpus },
  { name: 'start', title: 'start', look: 'num start', cell: (row) => momentText(row.started), order: (a, b) => startOf(a) - startOf(b) },
  { name: 'runs', title: 'runs for', look: 'num', cell: (row, now) => agoText(row.started, now), order: (a, b) => startOf(a) - startOf(b) },
  {
    name: 'hours', title: 'GPU hours', look: 'num', cell: (row, now) => (row.gpus === 0 ? '–' : hoursText(taken(row, now))),
    order: (a, b) => taken(b, Date.now()) - taken(a, Date.now()),
  },
];
const FILTERS = [namespaceFilter, queueFilter, { name: 'kind', title: 'Kind', of: kindOf }];

export function RunningView(): JSX.Element {
  return (
    <WorkloadList
      all={running.value}
      columns={COLUMNS}
      first="start"
      filters={FILTERS}
      text={(row) => `${keyOf(row)} ${row.job}`}
      title={(count) => (count === 0 ? 'Nothing runs' : `${countText(count)} ${count === 1 ? 'workload runs' : 'workloads run'}`)}
      empty="No workload that you may see runs"
      none="No running workload matches the filter"
    />
  );
}
