// What if this job were submitted now? A form for the usual job, or pasted YAML; the controller's engine answers.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ask } from '../api/client';
import type { WhatIf, WhatIfJob } from '../api/wire';
import { queues, workloads } from '../live';
import { Note, useNow } from '../parts';
import { choose, route } from '../route';
import { short } from '../tree/canvas';
import { byName } from '../tree/model';
import { flavors } from '../topologies';
import { Flavor, Remedies, verdictTitle, Why } from './explanation';
import { Placed } from './placed';

interface Fields {
  queue: string;
  pods: string;
  cpu: string;
  memory: string;
  device: string;
  devices: string;
  level: string;
  levelMode: 'required' | 'preferred' | '';
  priorityClass: string;
  seconds: string;
}

const EMPTY: Fields = { queue: '', pods: '1', cpu: '1', memory: '1Gi', device: 'nvidia.com/gpu', devices: '', level: '', levelMode: '', priorityClass: '', seconds: '' };

function jobOf(fields: Fields): WhatIfJob {
  const [namespace = '', queue = ''] = fields.queue.split('/');
  const requests: Record<string, string> = {};
  for (const [name, amount] of [['cpu', fields.cpu], ['memory', fields.memory], [fields.device, fields.devices]] as const) {
    if (name.trim() !== '' && amount.trim() !== '' && amount.trim() !== '0') requests[name.trim()] = amount.trim();
  }
  return {
    name: 'what-if', namespace, queue, pods: Number(fields.pods), requests, level: fields.levelMode === '' ? '' : fields.level,
    levelMode: fields.level === '' ? '' : fields.levelMode, priorityClass: fields.priorityClass.trim(), seconds: fields.seconds === '' ? null : Number(fields.seconds),
  };
}

export function WhatIfView(): JSX.Element {
  const pasted = route.value.query.get('by') === 'yaml';
  const [fields, setFields] = useState(EMPTY);
  const [yaml, setYaml] = useState('');
  const [answer, setAnswer] = useState<WhatIf | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const now = useNow();
  const shown = (queues.answer.value.data?.clusterQueues ?? []).flatMap((queue) => queue.localQueues.map((local) => `${local.namespace}/${local.name}`));
  // Where ClusterQueues may not be listed, the user's own workloads still name LocalQueues.
  const used = [...(workloads.value.data?.values() ?? [])].filter((row) => row.queue !== '').map((row) => `${row.namespace}/${row.queue}`);
  const locals = [...new Set(shown.length > 0 ? shown : used)].sort(byName);
  const levels = [...new Set((flavors.value.data ?? []).flatMap((flavor) => flavor.levels))];
  const devices = [...new Set((queues.answer.value.data?.clusterQueues ?? []).flatMap((queue) => queue.quotas.map((quota) => quota.resource)))].filter((name) => name.includes('/')).sort(byName);
  const queue = fields.queue || locals[0] || '';

  const send = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const body = pasted ? { yaml } : { job: jobOf({ ...fields, queue }) };
      setAnswer(await ask<WhatIf>('api/v1/what-if', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }));
    } catch (problem) {
      setAnswer(null);
      setError(problem instanceof Error ? problem.message : String(problem));
    } finally {
      setBusy(false);
    }
  };
  const text = (name: keyof Fields, label: string, extra: Record<string, string> = {}): JSX.Element => (
    <>
      <label for={`field-${name}`}>{label}</label>
      <input id={`field-${name}`} value={fields[name]} {...extra} onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value })} />
    </>
  );
  return (
    <div class="sheet">
      <div class="row">
        <h1>What if this job were submitted now?</h1>
        <div class="seg" role="group" aria-label="How to describe the job">
          <button type="button" aria-pressed={!pasted} onClick={() => choose({ by: null })}>Form</button>
          <button type="button" aria-pressed={pasted} onClick={() => choose({ by: 'yaml' })}>YAML</button>
        </div>
      </div>
      <p class="soft">The controller's engine answers from the present state of the cluster. Nothing is created.</p>
      <div class="two">
        <form class="card" onSubmit={(event) => { event.preventDefault(); void send(); }}>
          {pasted ? (
            <>
              <label for="yaml" class="soft">Manifests of one or several jobs, as for <code>kubectl apply</code></label>
              <textarea id="yaml" class="code" spellcheck={false} value={yaml} onInput={(event) => setYaml(event.currentTarget.value)} />
            </>
          ) : (
            <div class="form">
              <label for="field-queue">LocalQueue</label>
              {locals.length > 0 ? (
                <select id="field-queue" value={queue} onChange={(event) => setFields({ ...fields, queue: event.currentTarget.value })}>
                  {locals.map((name) => <option key={name} value={name}>{name}</option>)}
                </select>
              ) : (
                <input id="field-queue" value={fields.queue} placeholder="namespace/queue" onInput={(event) => setFields({ ...fields, queue: event.currentTarget.value })} />
              )}
              {text('pods', 'Pods', { type: 'number', min: '1', max: '100000', required: 'required' })}
              {text('cpu', 'cpu of each pod', { placeholder: '500m' })}
              {text('memory', 'memory of each pod', { placeholder: '1Gi' })}
              {text('device', 'Device', { list: 'devices' })}
              {text('devices', 'Devices of each pod', { type: 'number', min: '0' })}
              <label for="field-mode">Topology</label>
              <div class="row">
                <select id="field-mode" value={fields.levelMode} onChange={(event) => setFields({ ...fields, levelMode: event.currentTarget.value as Fields['levelMode'], level: fields.level || levels[0] || '' })}>
                  <option value="">anywhere</option><option value="required">required in one</option><option value="preferred">preferred in one</option>
                </select>
                {fields.levelMode !== '' && (
                  <select aria-label="Level" value={fields.level} onChange={(event) => setFields({ ...fields, level: event.currentTarget.value })}>
                    {levels.map((level) => <option key={level} value={level}>{short(level)}</option>)}
                  </select>
                )}
              </div>
              {text('priorityClass', 'Priority class', { placeholder: 'none' })}
              {text('seconds', 'Time limit, seconds', { type: 'number', min: '1', placeholder: 'none' })}
              <datalist id="devices">{devices.map((name) => <option key={name} value={name} />)}</datalist>
            </div>
          )}
          <p class="row submit"><button type="submit" class="primary" disabled={busy || (pasted ? yaml.trim() === '' : queue === '')}>{busy ? 'Asking…' : 'Ask'}</button></p>
        </form>
        <div class="answers" role="region" aria-label="Answer" aria-live="polite">
          {error !== null && <Note title="No answer" bad><p class="name">{error}</p></Note>}
          {answer?.errors.map((one) => <Note key={one} title="Not understood" bad><p class="name">{one}</p></Note>)}
          {answer?.items.map((item, at) => (
            <div key={at} class="answers">
              <section class="card">
                <h2 class="name">{verdictTitle(item.explanation.verdict)}<span class="faint"> · {item.explanation.workload}</span></h2>
                <Why explanation={item.explanation} now={now} />
                {!['Admitted', 'Reserved', 'Fits'].includes(item.explanation.verdict) && <><h3>What would admit it, all else equal</h3><Remedies explanation={item.explanation} /></>}
              </section>
              {item.places.length > 0 && <Placed places={item.places} marked={null} />}
              {!['Admitted', 'Fits'].includes(item.explanation.verdict) && item.explanation.flavors.map((view) => <Flavor key={view.flavor} view={view} />)}
            </div>
          ))}
          {answer === null && error === null && <Note title="The answer comes here">Whether it would start at once and where; if not, why, and what would admit it.</Note>}
        </div>
      </div>
    </div>
  );
}
