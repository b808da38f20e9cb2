// Finds workloads, queues, hosts and domains by a part of their names, among what the page has read.

import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { queues, workloads } from '../live';
import { go, link } from '../route';
import { levelAt } from '../tree/canvas';
import { flavors, treeNow } from '../topologies';

interface Found {
  kind: string;
  label: string;
  target: string;
}

const MOST = 20;

function find(text: string): Found[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return [];
  const found: { entry: Found; rank: number }[] = [];
  const offer = (kind: string, label: string, target: () => string, rank: number): void => {
    const at = label.toLowerCase().indexOf(wanted);
    // What begins with the text comes first, then what names a workload, then shorter names.
    if (at >= 0) found.push({ entry: { kind, label, target: target() }, rank: (at === 0 || '/-.'.includes(label[at - 1]!) ? 0 : 1000) + rank + Math.min(label.length, 400) });
  };
  for (const row of workloads.value.data?.values() ?? []) {
    const job = row.job === '' ? '' : ` (${row.job})`;
    offer('workload', `${row.namespace}/${row.name}${job}`, () => link(['workload', row.namespace, row.name]), 0);
  }
  for (const queue of queues.answer.value.data?.clusterQueues ?? []) {
    offer('queue', queue.name, () => link(['queues'], { queue: queue.name }), 0);
    for (const local of queue.localQueues) {
      offer('LocalQueue', `${local.namespace}/${local.name}`, () => link(['waiting'], { queue: queue.name, namespace: local.namespace }), 200);
    }
  }
  for (const { name } of flavors.value.data ?? []) {
    const tree = treeNow(name);
    if (tree === null) continue;
    for (const place of tree.places.values()) {
      if (place.depth === 0) continue;
      offer(levelAt(tree, place.depth), place.path, () => link(['topology', name], { at: place.path }), place.host === null ? 50 : 100);
    }
  }
  return found.sort((a, b) => a.rank - b.rank).slice(0, MOST).map(({ entry }) => entry);
}

export function Search(): JSX.Element {
  const [text, setText] = useState('');
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const found = open ? find(text) : [];
  const at = Math.min(chosen, found.length - 1);

  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.key !== '/' || event.ctrlKey || event.metaKey || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    document.addEventListener('keydown', pressed);
    return () => document.removeEventListener('keydown', pressed);
  }, []);

  const take = (entry: Found): void => {
    setOpen(false);
    setText('');
    field.current?.blur();
    go(entry.target);
  };

  return (
    <div class="search" role="search">
      <input
        ref={field}
        type="text"
        role="combobox"
        aria-label="Search workloads, queues, hosts"
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        {...(found.length > 0 ? { 'aria-activedescendant': `found-${at}` } : {})}
        placeholder="Search job, queue, host"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => { setText(event.currentTarget.value); setOpen(true); setChosen(0); }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') setChosen(Math.min(found.length - 1, at + 1));
          else if (event.key === 'ArrowUp') setChosen(Math.max(0, at - 1));
          else if (event.key === 'Enter' && found[at] !== undefined) take(found[at]);
          else if (event.key === 'Escape') { setText(''); field.current?.blur(); }
          else return;
          event.preventDefault();
        }}
      />
      {text === '' && <kbd aria-hidden="true">/</kbd>}
      {open && text.trim() !== '' && (
        <ul id="found" role="listbox" aria-label="Found">
          {found.map((entry, index) => (
            <li
              key={entry.kind + entry.label}
              id={`found-${index}`}
              role="option"
              aria-selected={index === at}
              // The field would lose the focus, and with it the list, before a click arrives.
              onMouseDown={(event) => event.preventDefault()}
              onClick={() => take(entry)}
            >
              <span class="kind">{entry.kind}</span><span class="what">{entry.label}</span>
            </li>
          ))}
          {found.length === 0 && <li class="faint" role="option" aria-selected={false}>Nothing has this in its name.</li>}
        </ul>
      )}
    </div>
  );
}
