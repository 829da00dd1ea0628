/**
 * The receiving socket of an account as text: its counts, over all streams that share it.
 */
import type { SocketCounts } from '../wire/messages';
import { count, duration } from './quantity';

/** A fact about a socket. */
export interface SocketFact {
  readonly text: string;
  /** Its meaning, in plain words. */
  readonly meaning: string;
  /** A count that should be zero and is not. */
  readonly odd: boolean;
}

const SHARED = 'Counted at the socket, so for all streams that are read from it.';

/** Returns the facts of a socket, without those that are zero as expected. */
export function socketFacts({ address, drops, unmatched, unused, longestWaitNs }: SocketCounts): readonly SocketFact[] {
  const facts = [
    plain(`socket ${address}`, SHARED),
    plain(`dropped ${count(drops)}`, 'Datagrams that the kernel dropped since the socket was opened, because its receive buffer was full.'),
  ];
  const surplus = split(unmatched);
  if (surplus !== null) facts.push({ text: `unmatched ${surplus}`, meaning: UNMATCHED, odd: true });
  const aside = split(unused);
  if (aside !== null) facts.push(plain(`unused ${aside}`, UNUSED));
  return [...facts, plain(`longest wait ${duration(longestWaitNs)}`, LONGEST_WAIT)];
}

/** Writes the facts of a socket as one line. */
export function socketLine(socket: SocketCounts): string {
  return socketFacts(socket).map(({ text }) => text).join(SEPARATOR);
}

/** Between two facts. */
export const SEPARATOR = ' · ';

const UNMATCHED = 'Datagrams that the kernel or a publisher counted as lost, but that are missing in no stream that is read from '
  + 'this socket. Usually they arrived before a stream was joined, or belong to a stream that was not requested. They are in no account.';
const UNUSED = 'Datagrams that were read from the socket and not used, by reason.';
const LONGEST_WAIT = 'Longest time a datagram waited in the socket before it was read. '
  + 'If it approaches the capacity of the receive buffer, drops follow.';

const plain = (text: string, meaning: string): SocketFact => ({ text, meaning, odd: false });

/** Writes what is not zero: `3 (late)`, of several `5 (late 3, network 2)`; null when all is. */
function split(datagrams: ReadonlyMap<string, number>): string | null {
  const parts = [...datagrams].filter(([, each]) => each > 0);
  const [only] = parts;
  if (only === undefined) return null;
  if (parts.length === 1) return `${count(only[1])} (${only[0]})`;
  const sum = parts.reduce((all, [, each]) => all + each, 0);
  return `${count(sum)} (${parts.map(([name, each]) => `${name} ${count(each)}`).join(', ')})`;
}
