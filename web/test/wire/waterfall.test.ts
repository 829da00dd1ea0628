import { describe, expect, test } from 'vitest';
import { encodeWaterfall } from '../../dev/encode-waterfall.mjs';
import type { Reason } from '../../src/wire/reader';
import { decodeWaterfall, isWaterfall, MAX_VALUES, writeWaterfall, type WaterfallFrame } from '../../src/wire/waterfall';
import { expectNoOtherError, expectRefusedWhenCut, expectRefusedWhenLonger, expectSameBytes, goldenFrames, readHex, refusalBy, stateCode } from './golden';

const TIME = 1_790_000_000_123_456_789n;
const golden = goldenFrames('waterfall');

const columns = (): WaterfallFrame['columns'] => new Map([
  [0, { present: 3, expected: 4, bins: Float32Array.of(1, NaN, -2.5) }],
  [4, { present: 0, expected: 9, bins: new Float32Array(0) }],
]);
const sample = (): ArrayBuffer => encodeWaterfall({
  frame: 7, view: 3, flags: 31, now: TIME, first: 2n ** 53n + 1n, columnNs: 2n ** 30n, count: 5, bins: 3, block: 2, elements: 5, rows: 4, planes: 6, plane: 5,
  droppedFrames: 2, liveFrom: TIME - 5n, columns: columns(),
});

const refusal = refusalBy(decodeWaterfall);

const changed = (write: (view: DataView) => void, from = sample()): ArrayBuffer => {
  write(new DataView(from));
  return from;
};

describe('waterfalls', () => {
  test('read back what was written, beyond 2^53', () => {
    expect(decodeWaterfall(sample())).toEqual({
      frame: 7, view: 3, state: 'ok', live: true, slow: true, anew: true, short: true, now: TIME, first: 2n ** 53n + 1n, columnNs: 2n ** 30n, count: 5,
      bins: 3, block: 2, elements: 5, rows: 4, planes: 6, plane: 5, isNearest: true, droppedFrames: 2, liveFrom: TIME - 5n, columns: columns(),
    });
    expect([isWaterfall(sample()), isWaterfall(new ArrayBuffer(2))]).toEqual([true, false]);
  });

  test('are refused when cut at any length, or with a byte too many', () => {
    expectRefusedWhenCut(refusal, sample());
    expectRefusedWhenLonger(refusal, sample());
  });

  test.each<[Reason, number, (view: DataView) => void]>([
    ['magic', 0, (view) => view.setUint16(0, 0x5055, true)],
    ['version', 2, (view) => view.setUint8(2, 2)],
    ['kind', 3, (view) => view.setUint8(3, 1)],
    ['trace state', 12, (view) => view.setUint8(12, 4)],
    ['flags', 13, (view) => view.setUint8(13, 32)],
    ['flags', 14, (view) => view.setUint8(14, 1)],
    ['column width', 32, (view) => view.setBigUint64(32, 0n, true)],
    ['column count', 40, (view) => view.setUint32(40, 1, true)],
    ['column count', 40, (view) => view.setUint32(40, 16_385, true)],
    ['picture size', 48, (view) => view.setUint32(48, 4, true)],
    ['picture size', 52, (view) => view.setUint32(52, 0, true)],
    ['picture size', 80, (view) => view.setUint32(80, 6, true)],
    ['flags', 84, (view) => view.setUint32(84, 1, true)],
    ['column range', 88, (view) => view.setUint32(88, 5, true)],
    ['column range', 92, (view) => view.setUint32(92, 5, true)],
    ['column range', 100, (view) => view.setUint32(100, 1, true)],
    ['column range', 104, (view) => view.setUint32(104, 0, true)],
    ['padding', 132, (view) => view.setUint8(132, 1)],
  ])('are refused for a wrong %s at %i', (reason, _, write) => {
    expect(refusal(changed(write))).toBe(reason);
  });

  test('with more values than the limit are refused', () => {
    const many = changed((view) => {
      for (const at of [48, 56]) view.setUint32(at, MAX_VALUES + 1, true);
      view.setUint32(52, 1, true);
    });
    expect(refusal(many)).toBe('pixel count');
  });

  test('never make the decoder throw anything but its own error, whatever the bytes', () => {
    expectNoOtherError(refusal, sample);
  });

  test('are asked for with all digits of a time', () => {
    const request = { view: 2, trace: { stream: 'a/b', channel: 'x' }, plane: [], columns: 3, bins: 4, spanNs: TIME, endNs: TIME } as const;
    expect(writeWaterfall(request)).toBe(`{"type":"waterfall","view":2,"stream":"a/b","channel":"x","plane":[],"columns":3,"bins":4,"span_ns":${TIME},"end_ns":${TIME}}`);
    expect(writeWaterfall({ ...request, endNs: null })).toContain('"end_ns":null');
  });
});

describe('golden waterfalls', () => {
  test('are there', () => expect(golden.length).toBe(2));
  test.each(golden)('%s is read whole', (name) => {
    const bytes = readHex(name);
    const frame = decodeWaterfall(bytes);
    const again = encodeWaterfall({
      ...frame, state: stateCode(frame.state),
      flags: Number(frame.live) + 2 * Number(frame.slow) + 4 * Number(frame.anew) + 8 * Number(frame.short) + 16 * Number(frame.isNearest),
    });
    expectSameBytes(again, bytes);
  });
});
