// Server-sent events over fetch: the browser's own EventSource cannot send a token.

import { headers, refused, Refused } from './client';

export interface Message {
  event: string;
  id: string;
  data: string;
}

/** Cuts a stream of text into messages; what is not complete yet waits for the next piece. */
export function parser(receive: (message: Message) => void): (piece: string) => void {
  let rest = '';
  let event = '';
  let id = '';
  let data: string[] = [];
  return (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) receive({ event: event === '' ? 'message' : event, id, data: data.join('\n') });
        event = '';
        data = [];
        continue;
      }
      const colon = line.indexOf(':');
      if (colon === 0) continue; // a comment, which keeps the connection alive
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (field === 'event') event = value;
      else if (field === 'data') data.push(value);
      else if (field === 'id') id = value;
    }
  };
}

export type LinkState = 'connecting' | 'live' | 'lost';

export interface Listener {
  /** Called at each connection, before its messages: what was missed meanwhile must be asked for. */
  opened: () => void;
  received: (message: Message) => void;
  state: (state: LinkState, why: string) => void;
}

const SHORTEST = 500;
const LONGEST = 15_000;
/** Heartbeats come more often; a connection that is silent longer is dead, also where no one closed it. */
const SILENCE = 45_000;

/** Listens until stopped, with longer and longer pauses between attempts. A refused token ends it. */
export function listen(path: string, listener: Listener): () => void {
  const stop = new AbortController();
  let pause = SHORTEST;

  const once = async (): Promise<void> => {
    const attempt = new AbortController();
    const end = (): void => attempt.abort();
    stop.signal.addEventListener('abort', end);
    let timer = setTimeout(end, SILENCE);
    try {
      const response = await fetch(path, {
        headers: { Accept: 'text/event-stream', ...headers() }, signal: attempt.signal, cache: 'no-store',
      });
      if (!response.ok || response.body === null) return await refused(response);
      pause = SHORTEST;
      listener.opened();
      listener.state('live', '');
      const feed = parser(listener.received);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(end, SILENCE);
        feed(value);
      }
    } finally {
      clearTimeout(timer);
      stop.signal.removeEventListener('abort', end);
    }
  };

  const run = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      let why = 'The connection ended.';
      try {
        listener.state('connecting', '');
        await once();
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error instanceof Refused) {
          why = error.message;
          if (error.status === 401) {
            listener.state('lost', why);
            return;
          }
        } else why = 'The server cannot be reached.';
      }
      if (stop.signal.aborted) return;
      listener.state('lost', why);
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(LONGEST, pause * 2);
    }
  };
  void run();
  return () => stop.abort();
}
