// The topology as a picture, with the chosen place in words and numbers beside it.

import type { JSX } from 'preact';
import { useCallback, useMemo, useState } from 'preact/hooks';
import { choose, link, route } from '../route';
import { amountText, countText, momentText, percentText, plural } from '../text';
import { chosen, flavors, useTree } from '../topologies';
import { levelAt, mainResource, short, TreeCanvas } from '../tree/canvas';
import { MODES, type LegendEntry, type Looks, type Mode } from '../tree/looks';
import { awaitedBy, presences, reservationsOf, sum, type Place, type Sum, type Tree } from '../tree/model';
import { Domained, Meter, Note, Swatch, useFirst, Waiting } from '../parts';

const NAMES: Record<Mode, string> = { state: 'State', queue: 'Queue', job: 'Job', fullness: 'Fullness' };

export function TopologyView(): JSX.Element {
  const known = flavors.value;
  const wanted = route.value.path[1];
  if (known.data === null) return <div class="sheet"><Waiting error={known.error} again={known.again} what="the topology" /></div>;
  if (known.data.length === 0) {
    return (
      <div class="sheet">
        <Note title="No flavor has a topology">
          A ResourceFlavor with <code>topologyName</code> shows its nodes here. <code>stowage topology init</code> writes one from the
          labels of the nodes.
        </Note>
      </div>
    );
  }
  const flavor = chosen(known.data, wanted);
  if (flavor === null) {
    return (
      <div class="sheet">
        <Note title={`No flavor ${wanted ?? ''} with a topology`}><a href={link(['topology'])}>Show the others</a></Note>
      </div>
    );
  }
  return <Flavor key={flavor} flavor={flavor} all={known.data.map((one) => one.name)} />;
}

function Flavor({ flavor, all }: { flavor: string; all: string[] }): JSX.Element {
  const { tree, error, again } = useTree(flavor);
  if (tree === null) return <div class="sheet"><Waiting error={error} again={again} what={`flavor ${flavor}`} /></div>;
  return <Stage tree={tree} all={all} />;
}

function Stage({ tree, all }: { tree: Tree; all: string[] }): JSX.Element {
  const { query } = route.value;
  const mode = MODES.find((one) => one === query.get('color')) ?? 'state';
  const resource = tree.resources.indexOf(query.get('resource') ?? '');
  const wanted = query.get('at');
  const at = wanted !== null && tree.places.has(wanted) ? wanted : null;
  const only = query.get('only');
  const [legend, setLegend] = useState<LegendEntry[]>([]);
  const pick = useCallback((path: string) => choose({ at: path }), []);
  const told = useCallback((looks: Looks) => setLegend(looks.legend), []);
  const place = at === null ? tree.root : tree.places.get(at)!;
  const totals = sum(tree.root, tree.resources.length);
  const main = resource >= 0 ? resource : mainResource(tree, totals.total);

  return (
    <div class="topology">
      <section class="stage" aria-label="Picture of the topology">
        <div class="bar">
          <p class="sum">
            <b>{countText(totals.hosts)}</b> hosts
            {tree.resources[main] !== undefined && <> · <b>{percentText(totals.used[main]!, totals.total[main]!)}</b> of {tree.resources[main]} used · <b>{amountText(tree.resources[main], totals.free[main]!)}</b> free</>}
            {totals.failed > 0 && <> · <b>{countText(totals.failed)}</b> failed</>}
            {totals.cordoned > 0 && <> · <b>{countText(totals.cordoned)}</b> cordoned</>}
          </p>
          <div class="row">
            {all.length > 1 && (
              <label>
                Flavor
                <select value={tree.flavor} onChange={(event) => { location.hash = link(['topology', event.currentTarget.value], { color: query.get('color') }); }}>
                  {all.map((name) => <option key={name} value={name}>{name}</option>)}
                </select>
              </label>
            )}
            <label>
              Resource
              <select value={resource < 0 ? '' : tree.resources[resource]!} onChange={(event) => choose({ resource: event.currentTarget.value })}>
                <option value="">most occupied</option>
                {tree.resources.map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            </label>
            <div class="seg" role="group" aria-label="Color by">
              {MODES.map((one) => (
                <button key={one} type="button" aria-pressed={one === mode} onClick={() => choose({ color: one === 'state' ? null : one, only: null })}>{NAMES[one]}</button>
              ))}
            </div>
          </div>
        </div>
        <div class="picture">
          <TreeCanvas tree={tree} mode={mode} resource={resource} only={only} marked={null} at={at} choose={pick} legend={told} />
        </div>
        <Legend mode={mode} entries={legend} only={only} />
      </section>
      <aside class="side" aria-label="The chosen place in words">
        <Details tree={tree} place={place} pick={pick} />
      </aside>
    </div>
  );
}

function Legend({ mode, entries, only }: { mode: Mode; entries: LegendEntry[]; only: string | null }): JSX.Element {
  return (
    <div class="legend" role="group" aria-label="Legend; choose an entry to see it alone">
      {mode === 'fullness' && <span class="row faint">empty <span class="ramp" /> full</span>}
      {entries.map((entry) =>
        entry.color === '' ? <span key="more" class="faint">{entry.label}</span> : (
          <button key={entry.key} type="button" title={entry.label} aria-pressed={entry.key === only} onClick={() => choose({ only: entry.key === only ? null : entry.key })}>
            <Swatch color={entry.color} /><span class="label">{entry.label}</span><span class="faint">{countText(entry.hosts)}</span>
          </button>
        ))}
    </div>
  );
}

export function Crumbs({ tree, place, pick }: { tree: Tree; place: Place; pick: (path: string) => void }): JSX.Element {
  const line: Place[] = [];
  for (let one: Place | null = place; one !== null; one = one.parent) line.unshift(one);
  return (
    <ol class="crumbs" aria-label="Path">
      {line.map((one) => (
        <li key={one.path}>
          {one === place ? <span aria-current="location">{one.name || tree.flavor}</span> : <button type="button" class="plain" onClick={() => pick(one.path)}>{one.name || tree.flavor}</button>}
        </li>
      ))}
    </ol>
  );
}

function Details({ tree, place, pick }: { tree: Tree; place: Place; pick: (path: string) => void }): JSX.Element {
  const totals = sum(place, tree.resources.length);
  const level = place.depth === 0 ? `topology ${tree.topology}` : levelAt(tree, place.depth);
  return (
    <>
      <div>
        <Crumbs tree={tree} place={place} pick={pick} />
        <h1 class="name">{place.name || tree.flavor}</h1>
        <p class="soft">
          {level}
          {place.host === null ? <> · {plural(totals.hosts, 'host')}</> : null}
          {totals.failed > 0 && place.host === null && <> · <span class="tag bad">{totals.failed} failed</span></>}
          {totals.cordoned > 0 && place.host === null && <> · {totals.cordoned} cordoned</>}
        </p>
        {place.host !== null && place.host.health !== 'ok' && <p><span class="tag bad">{place.host.health}</span> {place.host.why}</p>}
      </div>
      <Amounts tree={tree} totals={totals} />
      {totals.left > 0 && <Left place={place} />}
      {totals.reserved > 0 && <Reserved place={place} />}
      <Runs tree={tree} place={place} />
      {place.children.length > 0 && <Children tree={tree} place={place} pick={pick} />}
    </>
  );
}

function Amounts({ tree, totals }: { tree: Tree; totals: Sum }): JSX.Element {
  return (
    <section>
      <table>
        <caption class="hidden">Amounts by resource</caption>
        <thead><tr><th scope="col">Resource</th><th scope="col" class="num">used</th><th scope="col" class="num">free</th><th scope="col" class="num">of</th><th scope="col"><span class="hidden">bar</span></th></tr></thead>
        <tbody>
          {tree.resources.map((name, at) => totals.total[at] === 0 ? null : (
            <tr key={name}>
              <td><Domained name={name} /></td>
              <td class="num">{amountText(name, totals.used[at]!, true)}</td>
              <td class="num">{amountText(name, totals.free[at]!, true)}</td>
              <td class="num">{amountText(name, totals.total[at]!, true)}</td>
              <td><Meter small total={totals.total[at]!} slices={[
                { name: 'used', amount: totals.used[at]! }, { name: 'held', amount: totals.held[at]! },
                { name: 'foreign', amount: totals.foreign[at]! }, { name: 'cordoned', amount: totals.unusable[at]! }]} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      <ul class="fine">
        {tree.resources.map((name, at) => {
          const said = [
            totals.held[at]! > 0 ? `${amountText(name, totals.held[at]!)} held for others` : '',
            totals.foreign[at]! > 0 ? `${amountText(name, totals.foreign[at]!)} of foreign pods` : '',
            totals.unusable[at]! > 0 ? `${amountText(name, totals.unusable[at]!)} on hosts out of use` : '',
          ].filter((one) => one !== '');
          return said.length === 0 ? null : <li key={name}>{name}: {said.join(', ')}</li>;
        })}
      </ul>
    </section>
  );
}

/** Hosts that victims of a preemption, or workloads that move, are leaving for others. */
function Left({ place }: { place: Place }): JSX.Element {
  return (
    <section>
      <h2>Held until others have left</h2>
      <ul class="fine">
        {awaitedBy(place).map(({ work, hosts }) => (
          <li key={`${work.key} ${work.queue}`} class="name">
            {work.key === '' ? 'a workload of another namespace' : <a href={link(['workload', ...work.key.split('/')])}>{work.key}</a>}: {plural(hosts, 'host')}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Hosts of advance reservations: their rest is free, for workloads that end in time. */
function Reserved({ place }: { place: Place }): JSX.Element {
  return (
    <section>
      <h2>Reserved for a time</h2>
      <ul class="fine">
        {reservationsOf(place).map(({ reservation, hosts }) => (
          <li key={reservation.name} class="name">
            {reservation.name === '' ? <>{plural(hosts, 'host')}, by a reservation that you may not see</> : (
              <><b>{reservation.name}</b>: {plural(hosts, 'host')}, {momentText(reservation.start)} to {momentText(reservation.end)}</>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Runs({ tree, place }: { tree: Tree; place: Place }): JSX.Element {
  const runs = useMemo(() => presences(place), [tree, place]);
  const [shown, more] = useFirst(runs.length, 8);
  return (
    <section>
      <h2>What runs here</h2>
      {runs.length === 0 ? <p class="faint">No workload.</p> : (
        <table>
          <thead><tr><th scope="col">Workload</th><th scope="col" class="num">pods</th><th scope="col" class="num">hosts</th></tr></thead>
          <tbody>
            {runs.slice(0, shown).map(({ work, pods, hosts }) => (
              <tr key={`${work.key} ${work.queue}`}>
                <td class="name">{work.key === '' ? <span class="faint">another namespace</span> : <a href={link(['workload', ...work.key.split('/')])}>{work.key}</a>}</td>
                <td class="num">{countText(pods)}</td>
                <td class="num">{countText(hosts)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {more}
    </section>
  );
}

function Children({ tree, place, pick }: { tree: Tree; place: Place; pick: (path: string) => void }): JSX.Element {
  const [shown, more] = useFirst(place.children.length, 40);
  const width = tree.resources.length;
  const level = levelAt(tree, place.depth + 1);
  const main = mainResource(tree, sum(place, width).total);
  const name = tree.resources[main] ?? '';
  return (
    <section>
      <h2>{plural(place.children.length, level)}</h2>
      <table>
        <thead><tr><th scope="col">{level}</th>{place.children[0]!.host === null && <th scope="col" class="num">hosts</th>}<th scope="col" class="num">{short(name)} free</th><th scope="col"><span class="hidden">bar</span></th></tr></thead>
        <tbody>
          {place.children.slice(0, shown).map((child) => {
            const totals = sum(child, width);
            return (
              <tr key={child.path}>
                <td class="name">
                  <button type="button" class="plain" onClick={() => pick(child.path)}>{child.name}</button>
                  {child.host !== null && child.host.health !== 'ok' && <> <span class="tag bad">{child.host.health}</span></>}
                  {child.host === null && totals.failed > 0 && <> <span class="tag bad">{totals.failed} failed</span></>}
                </td>
                {child.host === null && <td class="num">{countText(child.hosts)}</td>}
                <td class="num">{amountText(name, totals.free[main] ?? 0, true)}</td>
                <td><Meter small total={totals.total[main] ?? 0} slices={[
                  { name: 'used', amount: totals.used[main] ?? 0 }, { name: 'held', amount: totals.held[main] ?? 0 },
                  { name: 'foreign', amount: totals.foreign[main] ?? 0 }, { name: 'cordoned', amount: totals.unusable[main] ?? 0 }]} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {more}
    </section>
  );
}
