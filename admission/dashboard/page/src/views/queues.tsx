// Queues by cohort, with what each has of each resource: its own quota, what it borrowed and lent, and what waits.

import type { JSX } from 'preact';
import type { CohortEntry, QueueEntry, QueueQuota } from '../api/wire';
import { queues } from '../live';
import { Domained, Note, Waiting } from '../parts';
import { link, route } from '../route';
import { amountText, countText, plural } from '../text';
import { byName } from '../tree/model';

export function QueuesView(): JSX.Element {
  const { data, error, again } = queues.answer.value;
  if (data === null) return <div class="sheet"><Waiting error={error} again={again} what="the queues" /></div>;
  if (data.clusterQueues.length === 0) {
    return (
      <div class="sheet">
        <Note title="No ClusterQueue">There is none yet, or you may not list ClusterQueues.</Note>
      </div>
    );
  }
  const wanted = route.value.query.get('queue');
  const groups = new Map<string, QueueEntry[]>();
  for (const queue of data.clusterQueues) {
    if (wanted !== null && queue.name !== wanted) continue;
    groups.set(queue.cohort, [...(groups.get(queue.cohort) ?? []), queue]);
  }
  const cohorts = new Map(data.cohorts.map((cohort) => [cohort.name, cohort]));
  return (
    <div class="sheet">
      <div class="row">
        <h1>{wanted === null ? 'Queues' : `Queue ${wanted}`}</h1>
        {wanted !== null && <a href={link(['queues'])}>Show all queues</a>}
        <Keys />
      </div>
      {wanted !== null && groups.size === 0 && <Note title={`No ClusterQueue ${wanted}`}><a href={link(['queues'])}>Show all queues</a></Note>}
      {[...groups].sort(([a], [b]) => (a === '' ? 1 : b === '' ? -1 : byName(a, b))).map(([cohort, members]) => (
        <section key={cohort} class="card">
          <Cohort name={cohort} entry={cohorts.get(cohort)} members={members} />
          {[...members].sort((a, b) => byName(a.name, b.name)).map((queue) => <Queue key={queue.name} queue={queue} />)}
        </section>
      ))}
    </div>
  );
}

const Keys = (): JSX.Element => (
  <p class="keys">
    <span><i class="swatch used" /> used of its own</span>
    <span><i class="swatch borrowed" /> borrowed</span>
    <span><i class="swatch lent" /> lent to others</span>
    <span><i class="swatch free" /> free</span>
    <span>dashed: pending</span>
    <span>│ nominal quota</span>
  </p>
);

function Cohort({ name, entry, members }: { name: string; entry: CohortEntry | undefined; members: QueueEntry[] }): JSX.Element {
  return (
    <div class="row">
      <h2 class="name">{name === '' ? 'Without a cohort' : `Cohort ${name}`}</h2>
      <span class="faint">
        {plural(members.length, 'queue')}
        {entry !== undefined && entry.parent !== '' && <> · below {entry.parent}</>}
        {entry?.quotas.filter((quota) => quota.nominal > 0).map((quota) => (
          <> · {amountText(quota.resource, quota.nominal)} {quota.resource} of {quota.flavor} for all</>
        ))}
      </span>
    </div>
  );
}

function Queue({ queue }: { queue: QueueEntry }): JSX.Element {
  return (
    <article class="queue" aria-label={`ClusterQueue ${queue.name}`}>
      <div class="row">
        <h3 class="name"><a href={link(['queues'], { queue: queue.name })}>{queue.name}</a></h3>
        {!queue.active && <span class="tag bad">inactive</span>}
        {queue.strategy === 'StrictFIFO' && <span class="tag" title="The first workload must start before the next one">StrictFIFO</span>}
        <span class="soft">{plural(queue.admitted, 'runs', 'run')} · {queue.pending === 0 ? 'none waits' : <a href={link(['waiting'], { queue: queue.name })}>{countText(queue.pending)} {queue.pending === 1 ? 'waits' : 'wait'}</a>}</span>
      </div>
      {!queue.active && queue.message !== '' && <p class="soft name">{queue.message}</p>}
      <div class="scroll">
        <table class="quotas">
          <thead>
            <tr>
              <th scope="col">Flavor</th><th scope="col">Resource</th><th scope="col" class="num">used</th><th scope="col" class="num">nominal</th>
              <th scope="col" class="num">borrowed</th><th scope="col" class="num">lent</th><th scope="col" class="num">pending</th><th scope="col" class="wide"><span class="hidden">bar</span></th>
            </tr>
          </thead>
          <tbody>
            {queue.quotas.map((quota) => {
              const text = (amount: number): string => (amount === 0 ? '–' : amountText(quota.resource, amount));
              return (
                <tr key={`${quota.flavor} ${quota.resource}`}>
                  <td class="name">{quota.flavor}</td>
                  <td><Domained name={quota.resource} /></td>
                  <td class="num">{text(quota.used)}</td>
                  <td class="num">{text(quota.nominal)}</td>
                  <td class="num" title={quota.borrowingLimit === null ? 'no limit' : `at most ${amountText(quota.resource, quota.borrowingLimit)}`}>{text(quota.borrowed)}</td>
                  <td class="num" title={quota.lendingLimit === null ? 'no limit' : `at most ${amountText(quota.resource, quota.lendingLimit)}`}>{text(quota.lent)}</td>
                  <td class="num">{text(quota.pending)}</td>
                  <td class="wide"><Bar quota={quota} /></td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {(queue.localQueues.length > 0 || (queue.others?.localQueues ?? 0) > 0) && (
        <p class="faint name">
          LocalQueues: {queue.localQueues.map((local, index) => (
            <>{index > 0 && ', '}<a href={link(['waiting'], { queue: queue.name, namespace: local.namespace })}>{local.namespace}/{local.name}</a>{local.pending > 0 && ` (${local.pending} wait)`}</>
          ))}
          {queue.others !== undefined && queue.others.localQueues > 0 && (
            <>{queue.localQueues.length > 0 && ' and '}{countText(queue.others.localQueues)} of other namespaces{queue.others.pending > 0 && ` (${countText(queue.others.pending)} wait)`}</>
          )}
        </p>
      )}
    </article>
  );
}

/** One line: own use, borrowed beyond the nominal quota, lent from its end, pending after all. Decorative: the row says the same. */
function Bar({ quota }: { quota: QueueQuota }): JSX.Element {
  const whole = Math.max(quota.nominal, quota.used + quota.pending, 1);
  // Much that waits would press the rest into nothing: it takes at most half of the bar.
  const drawn = quota.nominal > 0 ? Math.min(whole, Math.max(quota.nominal, quota.used) * 2) : whole;
  const x = (amount: number): number => (300 * Math.min(amount, drawn)) / drawn;
  const own = quota.used - quota.borrowed;
  return (
    <svg class="quota" viewBox="0 0 300 18" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" x="0.5" y="3.5" width={Math.max(0, x(quota.nominal) - 1)} height="11" />
      <rect class="used" x="0" y="4" width={x(own)} height="10" />
      <rect class="lent" x={x(Math.max(0, quota.nominal - quota.lent))} y="4" width={x(quota.lent)} height="10" />
      <rect class="borrowed" x={x(own)} y="4" width={x(quota.borrowed)} height="10" />
      {quota.pending > 0 && <rect class="pending" x={x(quota.used) + 0.5} y="1.5" width={Math.max(1, x(quota.used + quota.pending) - x(quota.used) - 1)} height="15" />}
      <line x1={x(quota.nominal)} x2={x(quota.nominal)} y1="0" y2="18" />
    </svg>
  );
}
