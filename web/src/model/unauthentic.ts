/**
 * Datagrams that claim to be of a secured stream and are not, as text: an alarm beside the account, no loss in it.
 */
import { count } from './quantity';

/** A reason for an alarm, with its count. */
export interface UnauthenticFact {
  readonly text: string;
  /** Its meaning, in plain words. */
  readonly meaning: string;
}

const REASONS = new Map<string, readonly [words: string, meaning: string]>([
  ['bad_tag', ['wrong tag', 'Changed on the way, or made by somebody without the key.']],
  ['replayed', ['replayed', 'Authentic once, and sent again: received before, or of an epoch that has ended.']],
  ['wrong_sender', ['wrong sender', 'Made by a member of the group that is not the publisher of this stream.']],
  ['clear', ['in clear', 'Not encrypted, where this monitor has keys: another publisher has taken the name, or pretends to.']],
  ['no_key', ['no key', 'Encrypted with a key that this monitor does not have: it may have been removed, or its key service is away.']],
]);

/** Returns what was not authentic, by reason, the usual signs of an attack first; reasons without datagrams are left out. */
export function unauthenticFacts(unauthentic: ReadonlyMap<string, number>): readonly UnauthenticFact[] {
  const known = [...REASONS].map(([name, [words, meaning]]) => [words, meaning, unauthentic.get(name) ?? 0] as const);
  const others = [...unauthentic].filter(([name]) => !REASONS.has(name)).map(([name, datagrams]) => [name, 'A reason that this page does not know.', datagrams] as const);
  return [...known, ...others].filter(([, , datagrams]) => datagrams > 0).map(([words, meaning, datagrams]) => ({ text: `${words} ${count(datagrams)}`, meaning }));
}

/** Returns the headline of the alarm, or an empty text without one. */
export function unauthenticLine(unauthentic: ReadonlyMap<string, number>): string {
  const all = [...unauthentic.values()].reduce((sum, datagrams) => sum + datagrams, 0);
  return all === 0 ? '' : `${count(all)} ${all === 1 ? 'datagram was' : 'datagrams were'} not authentic, and dropped`;
}
