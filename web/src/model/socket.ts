/**
 * The receiving socket of an account in words: what is counted there, over all streams that share it.
 */
import type { SocketCounts } from '../wire/messages';
import { count, duration } from './quantity';

/** One thing that is said of a socket. */
export interface SocketFact {
  readonly text: string;
  /** What it means, in plain words. */
  readonly meaning: string;
  /** A count that should be zero and is not. */
  readonly odd: boolean;
}

const SHARED = 'Counted at the socket, so for all streams that are read from it.';

/** Returns what is said of a socket; what is zero and should be is left out. */
export function socketFacts({ address, drops, unmatched, settledEarly, longestWaitNs }: SocketCounts): readonly SocketFact[] {
  const facts = [
    plain(`socket ${address}`, SHARED),
    plain(`dropped ${count(drops)}`, 'Datagrams that the kernel could not put into the socket since it was opened.'),
  ];
  const surplus = [...unmatched].filter(([, datagrams]) => datagrams > 0);
  if (surplus.length > 0) facts.push(odd(unmatchedText(surplus), UNMATCHED));
  if (settledEarly > 0) facts.push(odd(`settled early ${count(settledEarly)}`, SETTLED_EARLY));
  return [...facts, plain(`longest wait ${duration(longestWaitNs)}`, LONGEST_WAIT)];
}

/** Writes what is said of a socket as one line. */
export function socketLine(socket: SocketCounts): string {
  return socketFacts(socket).map(({ text }) => text).join(SEPARATOR);
}

/** Between two facts. */
export const SEPARATOR = ' · ';

const UNMATCHED = 'Datagrams that were counted as lost here but are missing in no stream that is read from this socket: '
  + 'of somebody else on the same address, or from before a stream was joined. No account is charged with them.';
const SETTLED_EARLY = 'So many gaps waited for evidence at once that these were settled before theirs was in.';
const LONGEST_WAIT = 'The longest that a datagram lay in the socket before it was read. '
  + 'Where the wait comes near the time that the receive buffer holds, drops follow.';

const plain = (text: string, meaning: string): SocketFact => ({ text, meaning, odd: false });
const odd = (text: string, meaning: string): SocketFact => ({ text, meaning, odd: true });

/** `unmatched 3 (late)`, and with several stages `unmatched 5 (late 3, network 2)`. */
function unmatchedText(surplus: readonly (readonly [string, number])[]): string {
  const sum = surplus.reduce((all, [, datagrams]) => all + datagrams, 0);
  const stages = surplus.map(([stage, datagrams]) => (surplus.length === 1 ? stage : `${stage} ${count(datagrams)}`));
  return `unmatched ${count(sum)} (${stages.join(', ')})`;
}
