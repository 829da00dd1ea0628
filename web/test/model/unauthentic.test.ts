import { describe, expect, test } from 'vitest';
import { attackText, AttackWatch, unauthenticFacts, unauthenticLine, unconfirmedText } from '../../src/model/unauthentic';
import { readStream, type Stream } from '../../src/wire/messages';

const texts = (counts: Readonly<Record<string, number>>): readonly string[] =>
  unauthenticFacts(new Map(Object.entries(counts))).map(({ words, datagrams }) => `${words} ${datagrams}`.replaceAll('\u202f', ' '));
const line = (counts: Readonly<Record<string, number>>): string => unauthenticLine(new Map(Object.entries(counts))).replaceAll('\u202f', ' ');

describe('datagrams that are not authentic', () => {
  test('are told by reason, the signs of an attack first, and only those that came', () => {
    expect(texts({ no_key: 2, bad_tag: 12_345, replayed: 0, wrong_sender: 0, clear: 1 })).toEqual(['wrong tag 12 345', 'in clear 1', 'no key 2']);
  });

  test('are summed up in a line, and without any there is none', () => {
    expect(line({ bad_tag: 12_000, replayed: 345 })).toBe('12 345 datagrams were not authentic, and dropped');
    expect(line({ bad_tag: 1 })).toBe('1 datagram was not authentic, and dropped');
    expect([line({}), line({ bad_tag: 0 })]).toEqual(['', '']);
    expect(texts({ bad_tag: 0 })).toEqual([]);
  });

  test('for a reason that the page does not know are told by its name', () => {
    expect(texts({ novelty: 3 })).toEqual(['novelty 3']);
  });

  test('have each reason explained, and what to do about it', () => {
    const facts = unauthenticFacts(new Map(['no_key', 'bad_tag', 'replayed', 'wrong_sender', 'clear', 'novelty'].map((name) => [name, 1])));
    expect(facts.length).toBe(6);
    expect(facts.filter(({ meaning, remedy }) => meaning.length < 20 || remedy.length < 20)).toEqual([]);
  });
});

describe('an epoch without an answer of its publisher', () => {
  test('is told with what it means and what to do, and none is not', () => {
    expect(unconfirmedText(0)).toBe('');
    expect(unconfirmedText(1)).toBe('1 epoch began without an answer of the publisher: only clocks tell it from a recording. Let UDP from this host reach its port for reports.');
    expect(unconfirmedText(3)).toContain('3 epochs began without an answer of the publisher: only clocks tell them');
  });
});

describe('an attack', () => {
  const stream = (name: string, unauthentic: number): Stream => {
    const read = readStream({ stream: name, unauthentic_datagrams: unauthentic });
    if (read === null) throw new Error('a stream has a name');
    return read;
  };

  test('is an alarm while it goes on, and no longer', () => {
    const watch = new AttackWatch();
    const at = (ms: number, ...streams: readonly Stream[]): string => {
      watch.take(streams, ms);
      const attack = watch.worst(streams, ms);
      return attack === null ? '' : attackText(attack).replaceAll('\u202f', ' ');
    };
    expect(at(0, stream('a', 5), stream('b', 0))).toBe('');
    expect(at(1_000, stream('a', 5), stream('b', 0))).toBe('');
    expect(at(2_000, stream('a', 5), stream('b', 7))).toBe('Somebody forges b: 7 datagrams refused, no account changed');
    expect(at(3_000, stream('a', 9), stream('b', 7))).toBe('Somebody forges a and 1 more: 9 datagrams refused, no account changed');
    expect(at(31_999, stream('a', 9), stream('b', 7))).toContain('forges a and 1 more');
    expect(at(32_000, stream('a', 9), stream('b', 7))).toContain('forges a:');
    expect(at(33_000, stream('a', 9), stream('b', 7))).toBe('');
  });

  test('of a stream that appears with forgeries begins with the next one', () => {
    const watch = new AttackWatch();
    watch.take([stream('a', 100)], 0);
    expect(watch.worst([stream('a', 100)], 0)).toBeNull();
    watch.take([stream('a', 101)], 500);
    expect(watch.worst([stream('a', 101)], 500)?.stream.name).toBe('a');
  });
});
