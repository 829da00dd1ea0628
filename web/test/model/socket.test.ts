import { describe, expect, test } from 'vitest';
import { socketFacts, socketLine } from '../../src/model/socket';
import type { SocketCounts } from '../../src/wire/messages';

const QUIET: SocketCounts = { address: '239.84.3.4:7400', drops: 0, unmatched: new Map(), unused: new Map(), longestWaitNs: 38_000 };
const line = (more: Partial<SocketCounts>): string => socketLine({ ...QUIET, ...more }).replaceAll('\u202f', ' ');
const odd = (more: Partial<SocketCounts>): readonly string[] => socketFacts({ ...QUIET, ...more }).filter((fact) => fact.odd).map((fact) => fact.text);

describe('a socket', () => {
  test('is told with its drops and its longest wait, also when there is nothing to see', () => {
    expect(line({})).toBe('socket 239.84.3.4:7400 · dropped 0 · longest wait 38 µs');
    expect(line({ drops: 131_072 })).toContain('dropped 131 072');
    expect(odd({ drops: 131 })).toEqual([]);
  });

  test('says what it counted beyond what is missing, with the stage, and only then', () => {
    expect(odd({ unmatched: new Map([['receiver_socket_buffer', 3]]) })).toEqual(['unmatched 3 (receiver_socket_buffer)']);
    expect(odd({ unmatched: new Map([['injected', 2], ['receiver_socket_buffer', 3]]) })).toEqual(['unmatched 5 (injected 2, receiver_socket_buffer 3)']);
    expect(odd({ unmatched: new Map([['receiver_socket_buffer', 0]]) })).toEqual([]);
  });

  test('says what was read and not used, and why, without alarm', () => {
    expect(line({ unused: new Map([['malformed', 1], ['unwanted', 40]]) })).toContain(' · unused 41 (malformed 1, unwanted 40) · ');
    expect(odd({ unused: new Map([['unwanted', 40]]) })).toEqual([]);
    expect(line({ unused: new Map([['unwanted', 0]]) })).not.toContain('unused');
  });

  test('explains each of its words', () => {
    const facts = socketFacts({ ...QUIET, unmatched: new Map([['late', 1]]), unused: new Map([['malformed', 1]]) });
    expect(facts.map(({ meaning }) => meaning).filter((meaning) => meaning.length < 20)).toEqual([]);
    expect(facts.find(({ text }) => text.startsWith('unmatched'))?.meaning).toContain('missing in no stream that is read from this socket');
  });
});
