/**
 * Datagrams that claim to be of a secured stream and are not, as text: an alarm beside the account, no loss in it.
 */
import type { Stream } from '../wire/messages';
import { count, short } from './quantity';

/** A reason for an alarm, with its count. */
export interface UnauthenticFact {
  readonly words: string;
  readonly datagrams: string;
  /** Its meaning, in plain words. */
  readonly meaning: string;
  /** What to do about it. */
  readonly remedy: string;
}

/** So long after the last of them a stream counts as under attack. */
const RECENT_MS = 30_000;

const FIND = 'Find who sends to its group: tcpdump on this host, the tables of the switch.';
const REASONS = new Map<string, readonly [words: string, meaning: string, remedy: string]>([
  ['bad_tag', ['wrong tag', 'Changed on the way, or made by somebody without the key.', FIND]],
  ['replayed', ['replayed', 'Authentic once, and sent again: received before, or of an epoch that has ended.', `A copy made by the network looks the same. ${FIND}`]],
  ['wrong_sender', ['wrong sender', 'Made by a member of the group that is not the publisher of this stream.', 'Compare certificates and clocks of the stations: tallycast keys check.']],
  ['clear', ['in clear', 'Not encrypted, where this monitor has keys: another publisher has taken the name, or pretends to.', 'Give that publisher the keys (bus option keys=FILE), or stop it.']],
  ['no_key', ['no key', 'Encrypted with a key that this monitor does not have: it may have been removed, or its key service is away.', 'Compare the secrets of both stations: tallycast keys show.']],
]);
const UNKNOWN = ['A reason that this page does not know.', 'Load the page anew: the monitor is newer.'] as const;

/** Returns what was not authentic, by reason, the usual signs of an attack first; reasons without datagrams are left out. */
export function unauthenticFacts(unauthentic: ReadonlyMap<string, number>): readonly UnauthenticFact[] {
  const known = [...REASONS].map(([name, [words, meaning, remedy]]) => ({ words, meaning, remedy, all: unauthentic.get(name) ?? 0 }));
  const others = [...unauthentic].filter(([name]) => !REASONS.has(name)).map(([name, all]) => ({ words: name, meaning: UNKNOWN[0], remedy: UNKNOWN[1], all }));
  return [...known, ...others].filter(({ all }) => all > 0).map(({ all, ...fact }) => ({ ...fact, datagrams: count(all) }));
}

/** Returns the headline of the alarm, or an empty text without one. */
export function unauthenticLine(unauthentic: ReadonlyMap<string, number>): string {
  const all = [...unauthentic.values()].reduce((sum, datagrams) => sum + datagrams, 0);
  return all === 0 ? '' : `${count(all)} ${all === 1 ? 'datagram was' : 'datagrams were'} not authentic, and dropped`;
}

/** Returns the notice about epochs that began without an answer of the publisher, or an empty text without any. */
export function unconfirmedText(epochs: number): string {
  if (epochs === 0) return '';
  const begun = epochs === 1 ? '1 epoch began' : `${count(epochs)} epochs began`;
  return `${begun} without an answer of the publisher: only clocks tell ${epochs === 1 ? 'it' : 'them'} from a recording. Let UDP from this host reach its port for reports.`;
}

/** Notices which streams are under attack: those whose count grew a moment ago. */
export class AttackWatch {
  readonly #seen = new Map<string, { readonly datagrams: number; readonly grewMs: number | null }>();

  /** Takes the catalogue; what was counted before the page was opened is no attack yet. */
  take(streams: readonly Stream[], nowMs: number): void {
    for (const { name, unauthenticDatagrams } of streams) {
      const before = this.#seen.get(name);
      const grew = before !== undefined && unauthenticDatagrams > before.datagrams;
      this.#seen.set(name, { datagrams: unauthenticDatagrams, grewMs: grew ? nowMs : before?.grewMs ?? null });
    }
  }

  /** Returns the stream under attack with the most datagrams, and how many others there are; null without an attack. */
  worst(streams: readonly Stream[], nowMs: number): Attack | null {
    const recent = (grewMs: number | null | undefined): boolean => typeof grewMs === 'number' && nowMs - grewMs < RECENT_MS;
    const attacked = streams.filter(({ name }) => recent(this.#seen.get(name)?.grewMs));
    const [stream] = attacked.toSorted((a, b) => b.unauthenticDatagrams - a.unauthenticDatagrams);
    return stream === undefined ? null : { stream, others: attacked.length - 1 };
  }
}

/** An attack that goes on. */
export interface Attack {
  readonly stream: Stream;
  readonly others: number;
}

/** Returns the alarm of the page for an attack. */
export function attackText({ stream, others }: Attack): string {
  const more = others === 0 ? '' : ` and ${others} more`;
  return `Somebody forges ${stream.name}${more}: ${short(stream.unauthenticDatagrams)} datagrams refused, no account changed`;
}
