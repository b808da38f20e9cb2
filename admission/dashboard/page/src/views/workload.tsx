// One workload: its state in words, what would admit it, its pods on the tree, its history.

import type { JSX } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import type { WorkloadDetail } from '../api/wire';
import { Source } from '../answers';
import { watch } from '../live';
import { useFirst, useNow, Waiting } from '../parts';
import { link } from '../route';
import { agoText, countText, momentText, startMoments, startText } from '../text';
import { Flavor, Remedies, verdictTitle, Why } from './explanation';
import { Placed } from './placed';

export function WorkloadView({ namespace, name }: { namespace: string; name: string }): JSX.Element {
  const source = useMemo(
    () => new Source(`api/v1/workloads/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`, (body: never) => body as WorkloadDetail),
    [namespace, name],
  );
  useEffect(() => {
    source.refresh();
    const end = watch(`${namespace}/${name}`, () => source.refresh());
    return () => {
      end();
      source.clear();
    };
  }, [source]);
  const now = useNow();
  const { data, error, again } = source.answer.value;
  if (data === null) return <div class="sheet"><Waiting error={error} again={again} what={`workload ${namespace}/${name}`} /></div>;
  return <Detail data={data} now={now} again={again} />;
}

const TONE: Record<string, string> = { Admitted: 'good', Reserved: 'good', Finished: '', Pending: 'warn', Evicted: 'bad' };

function Detail({ data, now, again }: { data: WorkloadDetail; now: number; again: () => void }): JSX.Element {
  const { explanation } = data;
  const waits = explanation !== null && !['Admitted', 'Reserved'].includes(explanation.verdict);
  const facts: [string, JSX.Element | string][] = [
    ['Job', data.job || '–'],
    ['Queue', data.queue],
    ['ClusterQueue', data.clusterQueue === '' ? '–' : ''],
    ['Pods', countText(data.pods)],
    ['Priority', String(data.priority)],
    ['Created', `${agoText(data.created, now)} ago`],
    ['Position in the queue', data.position === null ? '–' : String(data.position)],
    ['Expected start', startText(data.earliestStart, data.expectedStart, now) || '–'],
  ];
  return (
    <div class="sheet">
      <div>
        <p class="faint">Workload in namespace {data.namespace}</p>
        <div class="row">
          <h1>{data.name}</h1>
          <span class={`tag ${TONE[data.state] ?? ''}`}>{data.state}</span>
          {data.notes.map((note) => <span key={note.type} class="tag bad">{note.type}</span>)}
          {data.reason !== '' && data.reason !== data.state && <span class="tag warn">{data.reason}</span>}
        </div>
      </div>
      <section class="card">
        <h2>{explanation === null ? 'State' : verdictTitle(explanation.verdict)}</h2>
        {explanation === null ? <p class="lead">{data.message || data.state}</p> : <Why explanation={explanation} now={now} />}
        {data.notes.map((note) => <p key={note.type} class="name"><strong>{note.reason}:</strong> {note.message}</p>)}
        {explanation !== null && explanation.message !== '' && explanation.message !== explanation.headline && <p class="soft name">{explanation.message}</p>}
      </section>
      {waits && (
        <section class="card">
          <h2>What would admit it, all else equal</h2>
          <Remedies explanation={explanation} />
        </section>
      )}
      <section class="card">
        <dl class="facts">
          {facts.map(([term, value]) => (
            <div key={term}><dt>{term}</dt><dd title={term === 'Created' ? momentText(data.created) : term === 'Expected start' ? startMoments(data.earliestStart, data.expectedStart) : ''}>{term === 'ClusterQueue' && value === '' ? <a href={link(['queues'], { queue: data.clusterQueue })}>{data.clusterQueue}</a> : value}</dd></div>
          ))}
        </dl>
      </section>
      {data.places.length > 0 && <Placed places={data.places} marked={`${data.namespace}/${data.name}`} />}
      {waits && explanation.flavors.map((view) => <Flavor key={view.flavor} view={view} />)}
      <History data={data} />
      {data.podList.length > 0 && <Pods data={data} />}
      <p class="row"><button type="button" onClick={again}>Explain again</button><span class="faint">The explanation is of the moment when it was read; a change of the workload reads it again.</span></p>
    </div>
  );
}

function History({ data }: { data: WorkloadDetail }): JSX.Element {
  const entries = data.conditions.map((one) => (
    { time: one.lastTransitionTime, title: one.type, good: one.status === 'True', status: one.status, reason: one.reason, message: one.message }
  )).sort((a, b) => (a.time === b.time ? 0 : (a.time ?? '') < (b.time ?? '') ? 1 : -1));
  const [shown, more] = useFirst(entries.length, 30);
  return (
    <section class="card">
      <h2>History</h2>
      {entries.length === 0 && <p class="faint">No condition yet: nothing has happened to it.</p>}
      <ol class="timeline">
        {entries.slice(0, shown).map((entry, at) => (
          <li key={at}>
            <time dateTime={entry.time ?? ''}>{momentText(entry.time)}</time>
            <div>
              <span class={entry.good ? 'tag' : 'tag warn'}>{entry.title}{entry.status === '' || entry.status === 'True' ? '' : `: ${entry.status === 'False' ? 'not so' : entry.status}`}</span>
              {entry.reason !== '' && entry.reason !== entry.title && <> <span class="faint">{entry.reason}</span></>}
              <div class="message">{entry.message}</div>
            </div>
          </li>
        ))}
      </ol>
      {more}
    </section>
  );
}

function Pods({ data }: { data: WorkloadDetail }): JSX.Element {
  const [shown, more] = useFirst(data.podList.length, 30);
  return (
    <section class="card">
      <h2>Pods</h2>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col">Pod</th><th scope="col">Pod set</th><th scope="col">Host</th><th scope="col">Phase</th></tr></thead>
          <tbody>
            {data.podList.slice(0, shown).map((pod) => (
              <tr key={pod.name}><td class="name">{pod.name}</td><td class="name">{pod.podSet}</td><td class="name">{pod.host || '–'}</td><td>{pod.phase}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
      {more}
    </section>
  );
}
