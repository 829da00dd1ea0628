/**
 * The hops of a relayed stream before the one on which this monitor reads it: bus, link, bus and so on, from the
 * publisher's station to the last relay.
 *
 * What they lost is `source` in the account. Here it is told by hop and stage in its place, so that every sum stays the
 * account's.
 */
import type { Account, HopLoss, RelayFact, Stream } from '../wire/messages';
import { count, duration } from './quantity';
import { onHop, stageOfName, UNEXPLAINED, UNSETTLED, type Stage } from './stage';

/** A hop between two stations. */
export interface Hop {
  readonly number: number;
  /** Hops of odd number are links between two relays. */
  readonly kind: 'bus' | 'link';
  /** Station that sends on it; empty where it was not told. */
  readonly from: string;
  /** Station that reads from it. */
  readonly to: string;
  /** Of the last link, if its far relay is at the monitor's host. */
  readonly relay: RelayFact | null;
}

/** Stage with its count of elements. */
export type LossRow = readonly [Stage, number];

/** Returns the hops of a relayed stream up to its last relay; none of another. */
export function hopsOf({ hop, hops, relay }: Pick<Account, 'hop' | 'hops' | 'relay'>, { station, stations }: Pick<Stream, 'station' | 'stations'>): readonly Hop[] {
  const named = (number: number): string => (number === hop ? station : hops[number]?.station ?? '') || (stations[number] ?? '');
  return Array.from({ length: Math.max(hop, hops.length) }, (_, number) => ({
    number, kind: number % 2 === 0 ? 'bus' : 'link', from: named(number), to: named(number + 1), relay: number === hop - 1 ? relay : null,
  }));
}

/** Describes a hop for a sentence: `the link from gate-a to gate-b`. */
export function hopWords({ number, kind, from, to }: Hop): string {
  if (kind === 'link') return `the link${from === '' ? '' : ` from ${from}`}${to === '' ? '' : ` to ${to}`}`;
  const between = from === '' ? '' : ` from ${from}${to === '' || to === from ? '' : ` to ${to}`}`;
  return `the ${number === 0 ? "publisher's " : ''}bus${between}`;
}

/** Names a hop in a line, with the state of its link where it is known: `link · hop 1 · 100 ms`, or what is wrong with it. */
export function hopTitle({ number, kind, relay }: Hop): string {
  return [`${kind} · hop ${number}`, ...(relay === null ? [] : linkState(relay))].join(' · ');
}

function linkState({ isUp, roundTripNs, backfill }: RelayFact): readonly string[] {
  if (!isUp) return ['down'];
  if (backfill !== null && backfill.errors.length > 0) return ['backfill fails'];
  return roundTripNs === null ? [] : [duration(roundTripNs)];
}

const CAUSES = new Map([['link_down', 'while the link was down'], ['bandwidth', 'for want of bandwidth'], ['repair', 'as repairs came too late'], ['memory', 'for want of memory']]);

/** Tells what the far relay knows of its link, in sentences; nothing where it is unknown. */
export function relayWords(relay: RelayFact | null): string {
  if (relay === null) return '';
  const causes = [...relay.causes].filter(([, elements]) => elements > 0).map(([cause, elements]) => `${count(elements)} ${CAUSES.get(cause) ?? cause}`);
  const times: readonly (readonly [string, number | null])[] = [
    ['round trip', relay.roundTripNs], ['age here', relay.ageP50Ns], ['99 % within', relay.ageP99Ns], ['deadline', relay.deadlineNs],
  ];
  const known = times.flatMap(([words, ns]) => (ns === null ? [] : [`${words} ${duration(ns)}`]));
  const gaveUp = causes.length === 0 ? 'has given up nothing' : `gave up ${causes.join(', ')}`;
  return `The relay here ${gaveUp} since it began${relay.isUp ? '' : '; the link is down'}.${known.length === 0 ? '' : ` Now: ${known.join(', ')}.`}`;
}

/** Counts of an account or of a gap. */
export interface Losses {
  readonly lost: ReadonlyMap<string, number>;
  readonly unexplained: number;
  readonly unsettled: number;
  readonly hops: readonly HopLoss[];
}

/** Returns what earlier hops lost, in the order of the path; stages without a loss are left out. */
export function hopRows(hops: readonly HopLoss[]): readonly LossRow[] {
  return hops.flatMap(({ hop, lost, unexplained, unsettled }) => [
    ...[...lost].map(([name, elements]) => [onHop(stageOfName(name), hop), elements] as const),
    [onHop(UNEXPLAINED, hop), unexplained] as const,
    [onHop(UNSETTLED, hop), unsettled] as const,
  ]).filter(([, elements]) => elements > 0);
}

/** Returns all losses by stage, those of earlier hops in place of what they were at `source`. */
export function rowsOf({ lost, unexplained, unsettled, hops }: Losses): readonly LossRow[] {
  const before = hopRows(hops);
  const told = before.reduce((sum, [, elements]) => sum + elements, 0);
  const own = [...lost].map(([name, elements]) => [stageOfName(name), name === 'source' ? Math.max(0, elements - told) : elements] as const);
  return [...before, ...own, [UNEXPLAINED, unexplained] as const, [UNSETTLED, unsettled] as const].filter(([, elements]) => elements > 0);
}
