// An explanation in words: what holds the workload back, and what would admit it. The sentences are the engine's own.

import type { ComponentChildren, JSX } from 'preact';
import type { Explanation, FlavorView, LevelView, QuotaView, Taker } from '../api/wire';
import { Domained } from '../parts';
import { link } from '../route';
import { halves, momentText, untilText } from '../text';
import { short } from '../tree/canvas';

const TITLES: Record<string, string> = {
  Admitted: 'It is admitted', Reserved: 'It has its quota', Fits: 'It fits now', Waits: 'It waits', Blocked: 'It is held back',
  CannotRun: 'It can never run as it is', NotManaged: 'Stowage does not manage it',
};

export const verdictTitle = (verdict: string): string => TITLES[verdict] ?? verdict;

export function WorkloadLink({ name }: { name: string }): JSX.Element {
  const [namespace, workload] = name.split('/');
  if (namespace === undefined || workload === undefined || namespace === '') return <>{name}</>;
  return <a href={link(['workload', namespace, workload])}>{name}</a>;
}

function Names({ names }: { names: readonly string[] }): JSX.Element {
  return <>{names.map((name, at) => <span key={name}>{at > 0 && ', '}<WorkloadLink name={name} /></span>)}</>;
}

const Said = ({ title, children }: { title: string; children: ComponentChildren }): JSX.Element => (
  <p class="name"><strong>{title}</strong> {children}</p>
);

export function Why({ explanation, now }: { explanation: Explanation; now: number }): JSX.Element {
  return (
    <>
      <p class="lead">{halves(explanation.headline)[0] || explanation.message}</p>
      {explanation.cause !== '' && <Said title="Cause:">{explanation.cause}</Said>}
      {explanation.starts !== null && (
        <Said title="Starts at the latest:"><span title={momentText(explanation.starts)}>{untilText(explanation.starts, now)}</span></Said>
      )}
      {explanation.ahead.length > 0 && <Said title="Ahead of it in its queue:"><Names names={explanation.ahead} /></Said>}
      {explanation.behind.length > 0 && (
        <Said title="It would delay:"><Names names={explanation.behind.map((one) => one.workload)} /></Said>
      )}
      {explanation.victims.length > 0 && <Said title="Evicted for it, must leave first:"><Names names={explanation.victims} /></Said>}
    </>
  );
}

export function Remedies({ explanation }: { explanation: Explanation }): JSX.Element {
  const { remedies, taken } = explanation;
  return (
    <>
      {remedies.length === 0 ? (
        <p class="soft">{explanation.complete ? 'No single change that was tried would admit it.' : 'The search for changes was cut short; none was found.'}</p>
      ) : (
        <ol class="remedies">{remedies.map((remedy) => <li key={remedy.text}>{remedy.text}</li>)}</ol>
      )}
      {taken.length > 0 && (
        <>
          <p class="soft">Not enough, because others would start instead:</p>
          <ul class="remedies">
            {taken.map((one) => <li key={one.remedy.text}>{one.remedy.text} – <Names names={one.by} /></li>)}
          </ul>
        </>
      )}
    </>
  );
}

function Takers({ takers }: { takers: readonly Taker[] }): JSX.Element {
  return (
    <>
      {takers.map((taker, at) => (
        <span key={taker.kind + taker.name}>{at > 0 && ', '}{taker.kind === 'Workload' ? <WorkloadLink name={taker.name} /> : `${taker.kind === 'Pod' ? 'pod ' : 'spare hosts of '}${taker.name}`} ({taker.amount})</span>
      ))}
    </>
  );
}

export function Flavor({ view }: { view: FlavorView }): JSX.Element {
  const lacks = view.quota.some((quota) => quota.short !== '0');
  return (
    <section class="card">
      <h2 class="name">Flavor {view.flavor}{view.topology !== null && <span class="faint"> · topology {view.topology}</span>}</h2>
      {view.message !== '' && <p class="name"><span class="tag bad">{view.code}</span> {view.message}</p>}
      {view.quota.length > 0 && (
        <div class="scroll">
          <table>
            <thead><tr><th scope="col">Quota of</th><th scope="col" class="num">asked</th><th scope="col" class="num">available</th><th scope="col" class="num">at most</th><th scope="col" class="num">short</th>{lacks && <th scope="col">used by</th>}</tr></thead>
            <tbody>{view.quota.map((quota) => <Quota key={quota.resource} quota={quota} users={lacks} />)}</tbody>
          </table>
        </div>
      )}
      {view.podSets.map((pods) => (
        <div key={pods.podSets.join()}>
          <p class="name">Pod set {pods.podSets.join(', ')}: {pods.message}</p>
          {pods.levels.length > 0 && (
            <div class="scroll">
              <table>
                <thead><tr><th scope="col">Level</th><th scope="col">Best domain</th><th scope="col">holds</th><th scope="col" class="num">everywhere</th><th scope="col">What limits it</th></tr></thead>
                <tbody>{pods.levels.map((level) => <Level key={level.level} level={level} flavor={view.flavor} />)}</tbody>
              </table>
            </div>
          )}
        </div>
      ))}
    </section>
  );
}

function Quota({ quota, users }: { quota: QuotaView; users: boolean }): JSX.Element {
  return (
    <tr>
      <td><Domained name={quota.resource} /></td>
      <td class="num">{quota.asked}</td>
      <td class="num">{quota.available}</td>
      <td class="num">{quota.most}</td>
      <td class="num">{quota.short === '0' ? '–' : <span class="tag bad">{quota.short}</span>}</td>
      {users && <td class="name">{quota.workloads.length > 0 ? <Takers takers={quota.workloads} /> : quota.users.map((user) => `${user.clusterQueue} (${user.amount})`).join(', ')}</td>}
    </tr>
  );
}

function Level({ level, flavor }: { level: LevelView; flavor: string }): JSX.Element {
  const path = level.domain.join('/');
  return (
    <tr>
      <td class="name" title={level.level}>{short(level.level)}{level.asked && <> <span class="tag">asked</span></>}</td>
      <td class="name">{path === '' ? <span class="faint">none</span> : <a href={link(['topology', flavor], { at: path })}>{path}</a>}</td>
      <td class="line">{level.fits} of {level.wanted} {level.unit}</td>
      <td class="num">{level.everywhere}</td>
      <td class="name">
        {level.shortages.map((one) => <div key={one.resource}>{one.resource}: {one.free} free, {one.short} short{one.takers.length > 0 && <> – used by <Takers takers={one.takers} /></>}</div>)}
        {level.torn.map((one) => <div key={one.resource}>{one.resource}: {one.free} free, but in pieces that hold {one.pods} pods</div>)}
        {level.fragmented && level.torn.length === 0 && <div>free capacity is in pieces that hold too few whole pods</div>}
        {level.exclusions.map((one) => <div key={one.code + one.what}>{one.nodes} {one.nodes === 1 ? 'node' : 'nodes'} excluded: {one.code} {one.what}</div>)}
      </td>
    </tr>
  );
}
