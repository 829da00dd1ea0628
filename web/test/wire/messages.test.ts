import { describe, expect, test } from 'vitest';
import { fields, nanoseconds, parseJson } from '../../src/wire/json';
import { readAccount, readGapDetail, readMessage, readStream, writeView } from '../../src/wire/messages';

describe('JSON', () => {
  test('keeps every digit of nanoseconds', () => {
    const from = fields(parseJson('{"from_ns": 1790000000123456789, "age_ns":12, "text":"x_ns: 1790000000123456789"}'));
    expect(nanoseconds(from, 'from_ns')).toBe(1_790_000_000_123_456_789n);
    expect(nanoseconds(from, 'age_ns')).toBe(12n);
    expect(from['text']).toBe('x_ns: 1790000000123456789');
  });

  test('of a stream gets defaults where a server leaves things out', () => {
    expect(readStream({ stream: 'a/b', health: 'novel' })).toMatchObject({
      name: 'a/b', health: 'ok', channels: [], nominalRate: 0, elementsPerSample: 1, spark: null,
    });
    expect(readStream({ health: 'ok' })).toBeNull();
    expect(readStream(null)).toBeNull();
  });

  test('of a stream is read as the protocol lays it out', () => {
    const stream = readStream({
      stream: 'a/b', epoch: { start_ns: 5, life: 9 }, rate: { numerator: 360, denominator: 1 }, elements_per_sample: 2,
      channels: [{ name: 'I', unit: 'A', shape: [], elements: 1, first_element: 0 }], labels: { shot: '17' }, health: 'losing',
      spark: [[1, 2], null, ['x', 1]],
    });
    expect(stream).toMatchObject({
      epoch: '5-9', nominalRate: 360, elementsPerSample: 2, channels: [{ name: 'I', unit: 'A', elements: 1 }],
      labels: [['shot', '17']], health: 'losing', spark: [[1, 2], null, null],
    });
  });

  test('of an account takes the ladder over the rows', () => {
    const account = readAccount({
      stream: 'a', elements: { first: 1, next: 11, per_sample: 2, delivered: 15, lost: { network: 5 }, unexplained: 0 },
      ladder: [{ stage: 'network', elements: 4 }, { stage: 'browser', elements: 1 }],
    });
    expect([...account.lost]).toEqual([['network', 4], ['browser', 1]]);
    expect(account.datagrams).toBeNull();
  });

  test('of an account has a socket only where the server reads one', () => {
    const socket = { address: '239.84.3.4:7400', drops: 131, unmatched: { receiver_socket_buffer: 3 }, unused: { malformed: 2 }, longest_wait_ns: 1_234_567 };
    expect(readAccount({ stream: 'a', socket }).socket).toEqual({
      address: '239.84.3.4:7400', drops: 131, unmatched: new Map([['receiver_socket_buffer', 3]]), unused: new Map([['malformed', 2]]), longestWaitNs: 1_234_567,
    });
    expect(readAccount({ stream: 'a', socket: null }).socket).toBeNull();
    expect(readAccount({ stream: 'a' }).socket).toBeNull();
    expect(readAccount({ stream: 'a', settled_early: 2, socket }).settledEarly).toBe(2);
  });

  test('of an account tells what was not authentic beside it, and nothing where nothing was', () => {
    expect(readAccount({ stream: 'a', unauthentic: { no_key: 0, bad_tag: 7 } }).unauthentic).toEqual(new Map([['no_key', 0], ['bad_tag', 7]]));
    expect(readAccount({ stream: 'a' }).unauthentic).toEqual(new Map());
    expect([{ stream: 'a', unconfirmed_epochs: 2 }, { stream: 'a' }].map((from) => readAccount(from).unconfirmedEpochs)).toEqual([2, 0]);
  });

  test('of a gap keeps its evidence and drops what is none', () => {
    expect(readGapDetail({ id: 4, evidence: ['one', 2, 'two'], lost: { late: 3, x: 'y' } })).toMatchObject({ id: '4', evidence: ['one', 'two'] });
  });

  test('of an unknown type is named and left alone', () => {
    expect(readMessage({ type: 'novelty', x: 1 })).toEqual({ type: 'unknown', name: 'novelty' });
    expect(readMessage(17)).toEqual({ type: 'unknown', name: '' });
  });

  test('of a view request is JSON with all digits of its times', () => {
    const written = writeView({ view: 7, traces: [{ stream: 'a "b"', channel: 'I' }], widthPx: 800, spanNs: 10_000_000_000n, endNs: 1_790_000_000_123_456_789n });
    expect(written).toContain('"end_ns":1790000000123456789');
    expect(JSON.parse(written)).toMatchObject({ type: 'view', view: 7, traces: [{ stream: 'a "b"', channel: 'I' }], width_px: 800, span_ns: 1e10 });
    expect(writeView({ view: 1, traces: [], widthPx: 1, spanNs: 1n, endNs: null })).toContain('"end_ns":null');
  });
});
