// Requests to the dashboard process. Addresses are relative, so that the page also works below a path of a proxy.

import { signal } from '@preact/signals';

export class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const KEY = 'stowage.token';
const PATIENCE = 30_000;

// The token lives as long as the tab: what is stored longer can be stolen later.
function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export const token = signal(stored());
/** What the server said when it last asked for a token; null while it does not ask. */
export const asked = signal<string | null>(null);

export function signIn(value: string): void {
  token.value = value;
  asked.value = null;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // it then lasts until the page is loaded again
  }
}

export function signOut(): void {
  token.value = null;
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // nothing was stored either
  }
  asked.value = 'You signed out.';
}

export function headers(): Record<string, string> {
  return token.value === null ? {} : { Authorization: `Bearer ${token.value}` };
}

/** Throws what the server says of a refused request; a 401 also brings up the sign-in. */
export async function refused(response: Response): Promise<never> {
  let message = '';
  try {
    const body = (await response.json()) as { message?: unknown; error?: unknown };
    message = typeof body.message === 'string' ? body.message : typeof body.error === 'string' ? body.error : '';
  } catch {
    // a proxy's answer need not be JSON
  }
  if (message === '') message = `The server answered ${response.status} ${response.statusText}`.trim();
  if (response.status === 401) asked.value = message;
  throw new Refused(response.status, message);
}

export async function ask<T>(path: string, init: RequestInit = {}, stop?: AbortSignal): Promise<T> {
  const timeout = AbortSignal.timeout(PATIENCE);
  let response: Response;
  try {
    response = await fetch(path, {
      ...init,
      headers: { Accept: 'application/json', ...headers(), ...(init.headers as Record<string, string> | undefined) },
      signal: stop === undefined ? timeout : AbortSignal.any([stop, timeout]),
      cache: 'no-store',
    });
  } catch (error) {
    if (stop?.aborted === true) throw error;
    throw new Refused(0, timeout.aborted ? 'The server did not answer within 30 seconds.' : 'The server cannot be reached.');
  }
  if (!response.ok) return refused(response);
  return (await response.json()) as T;
}
