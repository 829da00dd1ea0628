/**
 * Limits of watched channels, as the labels of alarm streams tell them: drawn in the plots of these channels.
 */
import type { Stream } from '../wire/messages';

/** A limit of a channel, in its unit. */
export interface Limit {
  readonly value: number;
  readonly kind: 'warning' | 'alarm';
}

const NAMES = [['low_alarm', 'alarm'], ['low_warning', 'warning'], ['high_warning', 'warning'], ['high_alarm', 'alarm']] as const;

/** Returns the limits of each watched channel, by `stream:channel`; a channel of two alarms has those of both. */
export function limitsOf(streams: Iterable<Stream>): ReadonlyMap<string, readonly Limit[]> {
  const limits = new Map<string, Limit[]>();
  for (const { labels: pairs } of streams) {
    const labels = new Map(pairs);
    if (labels.get('node') !== 'alarm') continue;
    const own = NAMES.map(([name, kind]) => ({ value: Number(labels.get(name) ?? NaN), kind })).filter(({ value }) => Number.isFinite(value));
    for (const [key, input] of pairs) if (/^input\.\d+$/.test(key)) limits.set(input, [...(limits.get(input) ?? []), ...own]);
  }
  return limits;
}

/** Returns whether all limits are the same. */
export function sameLimits(a: ReadonlyMap<string, readonly Limit[]>, b: ReadonlyMap<string, readonly Limit[]>): boolean {
  return JSON.stringify([...a]) === JSON.stringify([...b]);
}
