// Amounts, times and counts in words.

/** An explanation's line in two: what holds the workload back, and what would admit it. The engine joins them so. */
export function halves(line: string): [string, string] {
  const joint = '; would be admitted if ';
  const at = line.indexOf(joint);
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + joint.length)];
}

/** A space at which no line breaks. */
const NO_BREAK = '\u00a0';
const BINARY = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'];
const BYTES = new Set(['memory', 'ephemeral-storage', 'storage']);
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const moment = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

export const countText = (count: number): string => whole.format(count);
export const plural = (count: number, one: string, many = `${one}s`): string => `${countText(count)} ${count === 1 ? one : many}`;

/** cpu is in thousandths, all else in its base unit. `brief` shortens large numbers for narrow columns. */
export function amountText(resource: string, amount: number, brief = false): string {
  const value = resource === 'cpu' ? amount / 1000 : amount;
  if (brief && value >= 100_000 && !BYTES.has(resource)) return compact.format(value);
  if (resource === 'cpu') return tenths.format(value);
  if (BYTES.has(resource) || resource.startsWith('hugepages-')) {
    let value = amount;
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < BINARY.length - 1) {
      value /= 1024;
      unit += 1;
    }
    return `${tenths.format(value)}${BINARY[unit]!}`;
  }
  return whole.format(amount);
}

export function percentText(part: number, total: number): string {
  if (total <= 0) return '–';
  const share = (100 * part) / total;
  return share > 0 && share < 1 ? '<1 %' : share > 99 && share < 100 ? '>99 %' : `${Math.round(share)} %`;
}

export function durationText(seconds: number): string {
  const left = Math.max(0, Math.round(seconds));
  if (left < 60) return `${left} s`;
  if (left < 3600) return `${Math.floor(left / 60)} min`;
  if (left < 86400) return `${Math.floor(left / 3600)} h ${Math.floor((left % 3600) / 60)} min`;
  return `${Math.floor(left / 86400)} d ${Math.floor((left % 86400) / 3600)} h`;
}

/** Seconds as hours, those below ten with a tenth. */
export const hoursText = (seconds: number): string => (seconds < 36_000 ? tenths : whole).format(seconds / 3600);

export function agoText(time: string | null | undefined, now: number): string {
  const at = time == null ? NaN : Date.parse(time);
  return Number.isNaN(at) ? '' : durationText((now - at) / 1000);
}

/** A time to come, as `in 5 min`; one that has passed is due. */
export function untilText(time: string | null | undefined, now: number): string {
  const at = time == null ? NaN : Date.parse(time);
  if (Number.isNaN(at)) return '';
  return at <= now ? 'due now' : `in ${durationText((at - now) / 1000)}`;
}

/** An expected start as an interval, as far as its two ends are known: `in 5 min – 2 h 0 min`. Empty if neither is. */
export function startText(earliest: string | null, latest: string | null, now: number): string {
  const [from, to] = [earliest, latest].map((time) => (time === null ? NaN : (Date.parse(time) - now) / 1000)) as [number, number];
  const last = (seconds: number): string => durationText(seconds).replaceAll(' ', NO_BREAK);
  if (Number.isNaN(to)) return Number.isNaN(from) ? '' : from > 0 ? `in${NO_BREAK}${last(from)} or${NO_BREAK}later` : 'any time';
  if (to <= 0) return 'due now';
  return from > 0 && last(from) !== last(to) ? `in${NO_BREAK}${last(from)}${NO_BREAK}– ${last(to)}` : `within ${last(to)}`;
}

/** The two ends of an expected start, for those who need the times themselves. */
export function startMoments(earliest: string | null, latest: string | null): string {
  const [from, to] = [momentText(earliest), momentText(latest)];
  return from === '' ? (to === '' ? '' : `at ${to} at the latest`) : to === '' ? `not before ${from}` : `${from} to ${to}`;
}

export function momentText(time: string | null | undefined): string {
  const at = time == null ? NaN : Date.parse(time);
  return Number.isNaN(at) ? '' : moment.format(at);
}
