import { describe, expect, test } from 'vitest';
import { encodeView, meanShares, type View } from '../../dev/encode-view.mjs';
import { meanOf } from '../../src/model/trace';
import { CODE_UNEXPLAINED, decodeViewFrame, frameNumber, type ViewFrame } from '../../src/wire/frame';
import type { Reason } from '../../src/wire/reader';
import { expectNoOtherError, expectRefusedWhenCut, expectRefusedWhenLonger, expectSameBytes, goldenFrames, readHex, refusalBy, stateCode } from './golden';

const FROM = 1_790_000_000_123_456_789n;

/** A frame with one trace of columns, one of points, and two gaps. */
const sample = (): ArrayBuffer => encodeView({
  frame: 7, view: 3, flags: 3, now: FROM + 10_000n, from: FROM, column: 1_000n, columnCount: 8, droppedFrames: 2,
  traces: [
    {
      index: 1, state: 2, body: { first: 2, pairs: [-1, 1, NaN, NaN, 0.5, 0.75] }, samplesPerColumn: 12.5,
      newest: FROM + 9_999n, newestValue: 0.6, liveMemoryFrom: FROM - 5n,
      gaps: [
        { from: FROM + 3_000n, to: FROM + 4_000n, lostElements: 24, code: 17, flags: 3, firstIndex: 2n ** 53n + 1n, samples: 12 },
        { from: FROM + 5_000n, to: FROM + 5_000n, lostElements: 0, code: CODE_UNEXPLAINED, firstIndex: 9n, samples: 0 },
      ],
    },
    { index: 0, body: { offsets: [0, 1500, 4000], values: [1, NaN, 3] } },
  ],
});

const changed = (offset: number, write: (view: DataView) => void, from = sample()): ArrayBuffer => {
  const view = new DataView(from);
  write(view);
  expect(offset).toBeLessThan(view.byteLength);
  return from;
};

const refusal = refusalBy(decodeViewFrame);

describe('view frames', () => {
  test('read back what was written, to the nanosecond', () => {
    const frame = decodeViewFrame(sample());
    expect(frame).toMatchObject({ frame: 7, view: 3, live: true, slow: true, from: FROM, column: 1_000n, columnCount: 8, droppedFrames: 2 });
    const [columns, points] = frame.traces;
    expect(columns).toMatchObject({ index: 1, state: 'stale', samplesPerColumn: 12.5, newest: FROM + 9_999n, liveMemoryFrom: FROM - 5n });
    expect(columns?.body).toEqual({ kind: 'columns', first: 2, count: 3, kept: 0, means: null, pairs: Float32Array.of(-1, 1, NaN, NaN, 0.5, 0.75) });
    expect(points?.body).toEqual({ kind: 'points', count: 3, offsets: Float64Array.of(0, 1500, 4000), values: Float64Array.of(1, NaN, 3) });
    expect(points?.newestValue).toBeNaN();
  });

  test('read the means of columns, singles and doubles, and refuse what follows the last one', () => {
    for (const pairs of [Float32Array.of(-1, 1, NaN, NaN, 0, 4), Float64Array.of(-1, 1, NaN, NaN, 0, 4)]) {
      const means = meanShares(pairs, [0, NaN, 1]);
      const buffer = encodeView({ frame: 0, view: 0, now: FROM, from: FROM, column: 1n, columnCount: 3, traces: [{ index: 0, body: { first: 0, pairs, means } }] });
      const [trace] = decodeViewFrame(buffer).traces;
      if (trace?.body.kind !== 'columns') throw new Error('columns');
      expect(trace.body.pairs).toEqual(pairs);
      expect([0, 1, 2, 3].map((k) => (trace.body.kind === 'columns' ? meanOf(trace.body, k) : 0))).toEqual([0, NaN, expect.closeTo(1, 4), NaN]);
      expectRefusedWhenCut(refusal, buffer);
      expect(refusal(changed(buffer.byteLength - 2, (view) => view.setUint16(view.byteLength - 2, 1), buffer))).toBe('means');
    }
  });

  test('have a number also where they cannot be read', () => {
    const spoiled = changed(12, (view) => view.setUint16(12, 0xffff, true));
    expect(refusal(spoiled)).not.toBeNull();
    expect(frameNumber(spoiled)).toBe(7);
    expect(frameNumber(spoiled.slice(0, 47))).toBeNull();
    expect(frameNumber(changed(0, (view) => view.setUint16(0, 1, true)))).toBeNull();
  });

  test('keep an index beyond 2^53 and the flags of a gap', () => {
    const [gap, other] = decodeViewFrame(sample()).traces[0]?.gaps ?? [];
    expect(gap).toEqual({
      from: FROM + 3_000n, to: FROM + 4_000n, firstIndex: 2n ** 53n + 1n, samples: 12, lostElements: 24, code: 17,
      apportioned: true, severalStages: true, inherited: null,
    });
    expect(other).toMatchObject({ code: CODE_UNEXPLAINED, apportioned: false, severalStages: false });
  });

  test('tell the earlier hop of a gap, one that there can be and of stage source', () => {
    const of = (code: number, hop: number, outcome: number): Reason | number | null => {
      const buffer = encodeView({
        frame: 0, view: 0, now: FROM, from: FROM, column: 1n, columnCount: 1,
        traces: [{ index: 0, body: { first: 0, pairs: [] }, gaps: [{ from: FROM, to: FROM, lostElements: 1, code, firstIndex: 0n, samples: 1 }] }],
      });
      const view = new DataView(buffer);
      view.setUint8(buffer.byteLength - 22, hop);
      view.setUint8(buffer.byteLength - 21, outcome);
      return refusal(buffer) ?? decodeViewFrame(buffer).traces[0]?.gaps[0]?.inherited?.code ?? null;
    };
    expect([of(0, 0, 0), of(0, 1, 22), of(0, 8, 255), of(0, 2, 254)]).toEqual([null, 22, 255, 254]);
    expect([of(0, 9, 22), of(8, 1, 22), of(0, 0, 22)]).toEqual(['hop', 'hop', 'hop']);
    expect([of(0, 1, 25), of(0, 1, 253)]).toEqual(['stage', 'stage']);
  });

  test('are refused when cut at any length', () => {
    expectRefusedWhenCut(refusal, sample());
  });

  test('are refused with a byte too many', () => {
    expectRefusedWhenLonger(refusal, sample());
  });

  test.each<[Reason, number, (view: DataView) => void]>([
    ['magic', 0, (view) => view.setUint16(0, 0x5055, true)],
    ['version', 2, (view) => view.setUint8(2, 2)],
    ['kind', 3, (view) => view.setUint8(3, 9)],
    ['column width', 32, (view) => view.setBigUint64(32, 0n, true)],
    ['column count', 40, (view) => view.setUint32(40, 20_000, true)],
    ['trace state', 50, (view) => view.setUint8(50, 4)],
    ['trace mode', 51, (view) => view.setUint8(51, 5)],
    ['kept columns', 68, (view) => view.setUint32(68, 3, true)],
    ['column range', 60, (view) => view.setUint32(60, 6, true)],
    ['gap count', 56, (view) => view.setUint32(56, 4097, true)],
    ['too short', 56, (view) => view.setUint32(56, 4096, true)],
    ['flags', 14, (view) => view.setUint16(14, 4, true)],
    ['trace count', 12, (view) => view.setUint16(12, 1025, true)],
    ['stage', 144, (view) => view.setUint8(144, 25)],
    ['gap flags', 145, (view) => view.setUint8(145, 4)],
    ['gap range', 128, (view) => view.setBigInt64(128, FROM, true)],
  ])('are refused for a wrong %s', (reason, offset, write) => {
    expect(refusal(changed(offset, write))).toBe(reason);
  });

  test('are refused when points go back in time', () => {
    const back = encodeView({ frame: 1, view: 1, now: 0n, from: 0n, column: 1n, columnCount: 4, traces: [{ index: 0, body: { offsets: [5, 4], values: [1, 2] } }] });
    expect(refusal(back)).toBe('point order');
  });

  test('never make the decoder throw anything but its own error, whatever the bytes', () => {
    expectNoOtherError(refusal, sample);
  });
});

const golden = goldenFrames('page');

/** The decoded frame as the encoder takes it. */
function again(frame: ViewFrame): View {
  const traces = frame.traces.map((trace) => ({
    ...trace, state: stateCode(trace.state),
    gaps: trace.gaps.map((gap) => ({ ...gap, flags: Number(gap.apportioned) + 2 * Number(gap.severalStages) })),
  }));
  return { ...frame, flags: Number(frame.live) + 2 * Number(frame.slow), traces };
}

describe('golden frames', () => {
  if (golden.length === 0) test.skip('none lie in docs/protocol/golden', () => undefined);
  test.each(golden)('%s is read whole', (name) => {
    const bytes = readHex(name);
    const frame = decodeViewFrame(bytes);
    expect(frame.traces.length).toBeGreaterThan(0);
    // Written again by the test's own encoder, it must be the same to the byte.
    expectSameBytes(encodeView(again(frame)), bytes);
  });
});
