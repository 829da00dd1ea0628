import { describe, expect, test } from 'vitest';
import { encodeValues } from '../../dev/encode-values.mjs';
import type { Reason } from '../../src/wire/reader';
import { decodeValues, isValues, writeValues, type NoSample, type ValueRow } from '../../src/wire/values';
import { expectNoOtherError, expectRefusedWhenCut, expectRefusedWhenLonger, expectSameBytes, goldenFrames, readHex, refusalBy, stateCode } from './golden';

const TIME = 1_790_000_000_123_456_789n;
const golden = goldenFrames('values');

const table = (): ArrayBuffer => encodeValues({
  frame: 7, view: 3, now: TIME + 10n, droppedFrames: 2,
  rows: [
    { index: 0, sample: { form: 2, time: TIME, low: -9e15, high: -9e15, values: [-(2n ** 53n) - 1n] } },
    { index: 1, state: 2, sample: { form: 5, time: TIME, elements: 2, lostElements: 1, lostValues: 2, low: 5, high: 5, values: [[3, -4], [0, 0]] } },
    { index: 2, sample: { form: 4, time: TIME, low: 1, high: 1, values: [true] } },
    { index: 3, state: 1, sample: null, noSample: 1 },
  ],
});

const refusal = refusalBy(decodeValues);
const changed = (write: (view: DataView) => void): ArrayBuffer => {
  const from = table();
  write(new DataView(from));
  return from;
};

describe('newest values', () => {
  test('read back what was written, integers beyond 2^53 too, and tell what is lost', () => {
    const frame = decodeValues(table());
    expect(frame).toMatchObject({ frame: 7, view: 3, live: true, whole: true, droppedFrames: 2 });
    expect(frame.rows.map(({ state, sample }) => [state, sample?.values])).toEqual([
      ['ok', [-(2n ** 53n) - 1n]], ['stale', [[3, -4], null]], ['ok', [true]], ['unknown', undefined],
    ]);
    expect(frame.rows[3]?.noSample).toBe('asked');
    expect(frame.rows[1]?.sample).toMatchObject({ time: TIME, elements: 2, lostElements: 1, isSpan: false });
    expect([isValues(table()), isValues(new ArrayBuffer(2))]).toEqual([true, false]);
  });

  test('are refused when cut at any length, or with a byte too many', () => {
    expectRefusedWhenCut(refusal, table());
    expectRefusedWhenLonger(refusal, table());
  });

  // The rows begin at 32, 80, 152 and 200.
  test.each<[Reason, number, (view: DataView) => void]>([
    ['magic', 0, (view) => view.setUint16(0, 0x5055, true)],
    ['version', 2, (view) => view.setUint8(2, 2)],
    ['kind', 3, (view) => view.setUint8(3, 2)],
    ['trace count', 12, (view) => view.setUint16(12, 1025, true)],
    ['flags', 14, (view) => view.setUint16(14, 4, true)],
    ['padding', 28, (view) => view.setUint32(28, 1, true)],
    ['trace state', 34, (view) => view.setUint8(34, 4)],
    ['row form', 35, (view) => view.setUint8(35, 7)],
    ['value count', 36, (view) => view.setUint8(36, 5)],
    ['value count', 37, (view) => view.setUint8(37, 2)],
    ['no sample', 38, (view) => view.setUint8(38, 1)],
    ['no sample', 206, (view) => view.setUint8(206, 5)],
    ['padding', 39, (view) => view.setUint8(39, 1)],
    ['value count', 44, (view) => view.setUint32(44, 2, true)],
    ['sample', 48, (view) => view.setBigInt64(48, -(2n ** 63n), true)],
    ['value', 192, (view) => view.setUint8(192, 2)],
    ['sample', 216, (view) => view.setBigInt64(216, 7n, true)],
  ])('are refused for a wrong %s at %i', (reason, _, write) => {
    expect(refusal(changed(write))).toBe(reason);
  });

  test('never make the decoder throw anything but its own error, whatever the bytes', () => {
    expectNoOtherError(refusal, table);
  });

  test('are asked for with all digits of a time', () => {
    const request = { view: 2, traces: [{ stream: 'a/b', channel: '"x"' }], endNs: TIME };
    expect(writeValues(request)).toBe(`{"type":"values","view":2,"traces":[{"stream":"a/b","channel":"\\"x\\""}],"end_ns":${TIME}}`);
    expect(writeValues({ ...request, endNs: null })).toContain('"end_ns":null');
  });
});

describe('golden values', () => {
  const REASONS: readonly NoSample[] = ['not kept', 'asked', 'lost', 'not recorded', 'unreadable'];
  const again = ({ index, state, sample, noSample }: ValueRow, form: number): Parameters<typeof encodeValues>[0]['rows'][number] => {
    const at = stateCode(state);
    if (sample === null) return { index, state: at, sample, noSample: REASONS.indexOf(noSample) };
    const lostValues = sample.values.reduce<number>((bits, value, k) => (value === null ? bits + 2 ** k : bits), 0);
    return { index, state: at, sample: { ...sample, form, lostValues, values: sample.values.map((value) => value ?? 0) } };
  };
  test('are there', () => expect(golden.length).toBe(2));
  test.each(golden)('%s is read whole', (name) => {
    const bytes = readHex(name);
    const frame = decodeValues(bytes);
    const forms = name.includes('held') ? [6, 0, 0] : [1, 1, 2, 3, 4, 5, 1, 0];
    const written = encodeValues({ ...frame, flags: Number(frame.live) + 2 * Number(frame.whole), rows: frame.rows.map((row, k) => again(row, forms[k] ?? 0)) });
    expectSameBytes(written, bytes);
  });
});
