// Light or dark: the system's choice until the switch says otherwise.

import { computed, effect, signal } from '@preact/signals';

const KEY = 'stowage.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(system.matches);
system.addEventListener('change', (event) => {
  systemDark.value = event.matches;
});

function stored(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser may refuse storage
  }
}

const chosen = signal(stored());
export const dark = computed(() => (chosen.value === null ? systemDark.value : chosen.value === 'dark'));

effect(() => {
  document.documentElement.dataset['theme'] = dark.value ? 'dark' : 'light';
});

export function switchTheme(): void {
  const next = dark.value ? 'light' : 'dark';
  chosen.value = next === (systemDark.value ? 'dark' : 'light') ? null : next;
  try {
    if (chosen.value === null) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // the choice then lasts as long as the page
  }
}
