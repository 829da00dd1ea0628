/**
 * Limits of watched channels, as the labels of alarm streams tell them: drawn in the plots of these channels.
 */
import type { Stream } from '../wire/messages';

/** A limit of a channel, in its unit. */
export interface Limit {
  readonly value: number;
  /** Reached by values from here on up, or down. */
  readonly side: 'low' | 'high';
  readonly kind: 'warning' | 'alarm';
}

const NAMES = [['low', 'alarm'], ['low', 'warning'], ['high', 'warning'], ['high', 'alarm']] as const;

/** Returns the limits of each watched channel, by `stream:channel`; a channel of two alarms has those of both. */
export function limitsOf(streams: Iterable<Stream>): ReadonlyMap<string, readonly Limit[]> {
  const limits = new Map<string, Limit[]>();
  for (const { labels: pairs } of streams) {
    const labels = new Map(pairs);
    if (labels.get('node') !== 'alarm') continue;
    const own = NAMES.map(([side, kind]) => ({ value: Number(labels.get(`${side}_${kind}`) ?? NaN), side, kind })).filter(({ value }) => Number.isFinite(value));
    for (const [key, input] of pairs) if (/^input\.\d+$/.test(key)) limits.set(input, [...(limits.get(input) ?? []), ...own]);
  }
  return limits;
}

/** Returns the worst limit that a value reaches, null if it reaches none. */
export function reached(value: number, limits: readonly Limit[]): Limit | null {
  const all = limits.filter(({ value: limit, side }) => (side === 'high' ? value >= limit : value <= limit));
  return all.find(({ kind }) => kind === 'alarm') ?? all[0] ?? null;
}

/** Returns whether all limits are the same. */
export function sameLimits(a: ReadonlyMap<string, readonly Limit[]>, b: ReadonlyMap<string, readonly Limit[]>): boolean {
  return JSON.stringify([...a]) === JSON.stringify([...b]);
}
