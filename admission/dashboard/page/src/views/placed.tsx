// The pods of one workload on the tree: the picture with all else dimmed, and the hosts in a table.

import type { JSX } from 'preact';
import { useCallback, useMemo, useState } from 'preact/hooks';
import type { PlacedPods } from '../api/wire';
import { useFirst, Waiting } from '../parts';
import { link } from '../route';
import { countText, plural } from '../text';
import { flavors, useTree } from '../topologies';
import { TreeCanvas } from '../tree/canvas';
import type { Place, Tree } from '../tree/model';

export function Placed({ places, marked }: { places: PlacedPods[]; marked: string | null }): JSX.Element {
  const used = [...new Set(places.map((place) => place.flavor))];
  return <>{used.map((flavor) => <OnFlavor key={flavor} flavor={flavor} places={places.filter((place) => place.flavor === flavor)} marked={marked} />)}</>;
}

function OnFlavor({ flavor, places, marked }: { flavor: string; places: PlacedPods[]; marked: string | null }): JSX.Element {
  const known = flavors.value.data?.some((one) => one.name === flavor) === true;
  return (
    <section class="card">
      <h2 class="name">{plural(places.reduce((sum, place) => sum + place.pods, 0), 'pod')} on {plural(places.length, 'host')} of {flavor}</h2>
      {known ? <OnTree flavor={flavor} places={places} marked={marked} /> : <Hosts places={places} tree={null} flavor={flavor} />}
    </section>
  );
}

function OnTree({ flavor, places, marked }: { flavor: string; places: PlacedPods[]; marked: string | null }): JSX.Element {
  const { tree, error, again } = useTree(flavor);
  const [at, setAt] = useState<string | null>(null);
  const pick = useCallback((path: string) => setAt(path === '' ? null : path), []);
  const nothing = useCallback(() => undefined, []);
  const keys = useMemo(() => (marked === null ? null : new Set([marked])), [marked]);
  if (tree === null) return <Waiting error={error} again={again} what={`flavor ${flavor}`} />;
  return (
    <>
      <div class="mini">
        <div class="picture fill">
          <TreeCanvas tree={tree} mode="job" resource={-1} only={null} marked={keys} at={at} choose={pick} legend={nothing} />
        </div>
      </div>
      <Hosts places={places} tree={tree} flavor={flavor} />
    </>
  );
}

function Hosts({ places, tree, flavor }: { places: PlacedPods[]; tree: Tree | null; flavor: string }): JSX.Element {
  const found = useMemo(() => {
    const byName = new Map<string, Place>();
    for (const leaf of tree?.leaves ?? []) byName.set(leaf.name, leaf);
    return byName;
  }, [tree]);
  const rows = places.map((place) => ({ place, path: found.get(place.host)?.path }));
  const [shown, more] = useFirst(rows.length, 30);
  return (
    <>
      <table>
        <thead><tr><th scope="col">Host</th><th scope="col">Pod set</th><th scope="col" class="num">pods</th></tr></thead>
        <tbody>
          {rows.slice(0, shown).map(({ place, path }) => (
            <tr key={place.host + place.podSet}>
              <td class="name">{path === undefined ? place.host : <a href={link(['topology', flavor], { at: path })}>{path.split('/').join(' › ')}</a>}</td>
              <td class="name">{place.podSet}</td>
              <td class="num">{countText(place.pods)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more}
    </>
  );
}
