// Answers as signals: what was last read, the error of the last attempt, and a way to ask again.

import { signal, type ReadonlySignal } from '@preact/signals';
import { ask, Refused } from './api/client';

export interface Answer<T> {
  /** Kept while a later attempt fails: an old picture with a warning says more than none. */
  data: T | null;
  error: Error | null;
  loading: boolean;
  again: () => void;
}

export class Source<T> {
  private readonly held;
  private running: AbortController | null = null;
  private stale = false;

  constructor(private readonly path: string, private readonly read: (body: never) => T) {
    this.held = signal<Answer<T>>({ data: null, error: null, loading: false, again: () => this.refresh() });
  }

  get answer(): ReadonlySignal<Answer<T>> {
    return this.held;
  }

  /** Asks. While an answer is under way, one more follows it: what changed meanwhile may be missing in the first. */
  refresh(): void {
    if (this.running !== null) {
      this.stale = true;
      return;
    }
    const running = new AbortController();
    this.running = running;
    this.held.value = { ...this.held.value, loading: true };
    void ask<never>(this.path, {}, running.signal).then(
      (body) => this.settle(running, { data: this.read(body), error: null }),
      (error: unknown) => this.settle(running, { error: error instanceof Error ? error : new Error(String(error)) }),
    ).catch((error: unknown) => this.settle(running, { error: new Error(`The answer cannot be read: ${String(error)}`) }));
  }

  set(data: T): void {
    this.held.value = { ...this.held.value, data };
  }

  /** Forgets what was read: after a sign-out, or when nobody looks any more. */
  clear(): void {
    this.running?.abort();
    this.running = null;
    this.stale = false;
    this.held.value = { ...this.held.value, data: null, error: null, loading: false };
  }

  private settle(running: AbortController, result: { data?: T; error: Error | null }): void {
    if (this.running !== running) return;
    this.running = null;
    const gone = result.error instanceof Refused && [401, 403, 404].includes(result.error.status);
    this.held.value = {
      ...this.held.value, loading: false, error: result.error,
      data: result.error === null ? (result.data ?? null) : gone ? null : this.held.value.data,
    };
    if (this.stale) {
      this.stale = false;
      this.refresh();
    }
  }
}
