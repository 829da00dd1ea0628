import { describe, expect, test } from 'vitest';
import { unauthenticFacts, unauthenticLine } from '../../src/model/unauthentic';

const texts = (counts: Readonly<Record<string, number>>): readonly string[] =>
  unauthenticFacts(new Map(Object.entries(counts))).map(({ text }) => text.replaceAll('\u202f', ' '));
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

  test('have each reason explained', () => {
    const facts = unauthenticFacts(new Map(['no_key', 'bad_tag', 'replayed', 'wrong_sender', 'clear', 'novelty'].map((name) => [name, 1])));
    expect(facts.length).toBe(6);
    expect(facts.filter(({ meaning }) => meaning.length < 20)).toEqual([]);
  });
});
