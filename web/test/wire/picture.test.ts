import { describe, expect, test } from 'vitest';
import { encodePicture } from '../../dev/encode-picture.mjs';
import type { Reason } from '../../src/wire/reader';
import { decodePicture, isPicture, MAX_PIXELS, writePicture } from '../../src/wire/picture';
import { expectNoOtherError, expectRefusedWhenCut, expectRefusedWhenLonger, expectSameBytes, goldenFrames, readHex, refusalBy, stateCode } from './golden';

const TIME = 1_790_000_000_123_456_789n;
const golden = goldenFrames('picture');

const sample = (): ArrayBuffer => encodePicture({
  frame: 7, view: 3, flags: 15, now: TIME + 10n, keptFrom: TIME - 5n, droppedFrames: 2,
  sample: {
    time: TIME, index: 2n ** 53n + 1n, skipped: 4, rows: 1, columns: 3, size: [2, 5], block: [2, 2], planes: 2, plane: 1, low: -1, high: 2.5,
    pixels: Float32Array.of(-1, NaN, 2.5),
  },
});

const refusal = refusalBy(decodePicture);

const changed = (write: (view: DataView) => void, from = sample()): ArrayBuffer => {
  write(new DataView(from));
  return from;
};

describe('pictures', () => {
  test('read back what was written, to the nanosecond and beyond 2^53', () => {
    const frame = decodePicture(sample());
    expect(frame).toMatchObject({ frame: 7, view: 3, live: true, slow: true, isMax: true, obstacle: null, keptFrom: TIME - 5n, droppedFrames: 2 });
    expect(frame.sample).toEqual({
      time: TIME, index: 2n ** 53n + 1n, skipped: 4, rows: 1, columns: 3, size: [2, 5], block: [2, 2], planes: 2, plane: 1, isNearest: true, low: -1, high: 2.5,
      values: Float32Array.of(-1, NaN, 2.5),
    });
    expect([isPicture(sample()), isPicture(new ArrayBuffer(2))]).toEqual([true, false]);
  });

  test('of steps have their values, also on a scale that falls', () => {
    const of = (low: number, high: number): unknown => decodePicture(encodePicture({
      frame: 0, view: 0, now: TIME, sample: { time: TIME, index: 0n, rows: 1, columns: 3, low, high, pixels: Uint8Array.of(0, 51, 255) },
    })).sample;
    expect(of(0, 510)).toMatchObject({ values: Float64Array.of(0, 102, 510), low: 0, high: 510 });
    expect(of(5, 0)).toMatchObject({ values: Float64Array.of(5, 4, 0), low: 0, high: 5 });
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
    ['picture form', 13, (view) => view.setUint8(13, 3)],
    ['flags', 14, (view) => view.setUint8(14, 16)],
    ['obstacle', 15, (view) => view.setUint8(15, 4)],
    ['sample', 24, (view) => view.setBigInt64(24, -(2n ** 63n), true)],
    ['picture size', 48, (view) => view.setUint32(48, 2, true)],
    ['picture size', 64, (view) => view.setUint32(64, 0, true)],
    ['sample', 100, (view) => view.setUint32(100, 0, true)],
    ['sample', 104, (view) => view.setUint32(104, 2, true)],
    ['flags', 108, (view) => view.setUint32(108, 1, true)],
    ['padding', 124, (view) => view.setUint8(124, 1)],
  ])('are refused for a wrong %s at %i', (reason, _, write) => {
    expect(refusal(changed(write))).toBe(reason);
  });

  test('with more pixels than the limit, or a sample where there is none, are refused', () => {
    const large = changed((view) => {
      for (const at of [52, 60]) view.setUint32(at, MAX_PIXELS + 1, true);
      for (const at of [48, 56, 64, 68]) view.setUint32(at, 1, true);
    });
    expect(refusal(large)).toBe('pixel count');
    const none = encodePicture({ frame: 0, view: 0, now: TIME, obstacle: 2, sample: null });
    expect(decodePicture(none)).toMatchObject({ sample: null, obstacle: 'no room', keptFrom: null });
    expect(refusal(changed((view) => view.setUint32(48, 1, true), none))).toBe('sample');
    expect(refusal(changed((view) => view.setUint8(14, 9), encodePicture({ frame: 0, view: 0, now: TIME, sample: null })))).toBe('sample');
  });

  test('never make the decoder throw anything but its own error, whatever the bytes', () => {
    expectNoOtherError(refusal, sample);
  });

  test('are asked for with all digits of a time', () => {
    const request = { view: 2, trace: { stream: 'a/b', channel: '"x"' }, plane: [1, 0], widthPx: 3, heightPx: 4, reduction: 'max', endNs: TIME } as const;
    expect(writePicture(request)).toBe(`{"type":"picture","view":2,"stream":"a/b","channel":"\\"x\\"","plane":[1,0],"width_px":3,"height_px":4,"reduction":"max","end_ns":${TIME}}`);
    expect(writePicture({ ...request, endNs: null })).toContain('"end_ns":null');
  });
});

describe('golden pictures', () => {
  test('are there', () => expect(golden.length).toBe(3));
  test.each(golden)('%s is read whole', (name) => {
    const bytes = readHex(name);
    const frame = decodePicture(bytes);
    const { sample: read } = frame;
    const ends = new DataView(bytes);
    const [low, high] = [ends.getFloat64(72, true), ends.getFloat64(80, true)];
    const steps = read?.values instanceof Float64Array ? Uint8Array.from(read.values, (value) => Math.round(((value - low) / (high - low)) * 255)) : null;
    const again = encodePicture({
      ...frame, state: stateCode(frame.state), obstacle: [null, 'too large', 'no room', 'unasked'].indexOf(frame.obstacle),
      flags: Number(frame.live) + 2 * Number(frame.slow) + 4 * Number(frame.isMax) + 8 * Number(read?.isNearest ?? false),
      sample: read === null ? null : { ...read, low, high, pixels: steps ?? Float32Array.from(read.values) },
    });
    expectSameBytes(again, bytes);
  });
});
