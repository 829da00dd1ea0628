/**
 * Encodes view frames as `docs/protocol/page.md` lays them out: for the fake server and for the decoder's
 * tests. Written from the page, not from the decoder, so that the two check each other.
 */
import { startFrame } from './encode-head.mjs';

/**
 * @typedef {object} Gap
 * @property {bigint} from
 * @property {bigint} to
 * @property {number} lostElements
 * @property {number} code
 * @property {number} [flags]
 * @property {{hop: number, code: number} | null} [inherited] the earlier hop that lost most
 * @property {bigint} firstIndex
 * @property {number} samples
 *
 * @typedef {object} Trace
 * @property {number} index
 * @property {number} [state]
 * @property {{first: number, pairs: ArrayLike<number>, kept?: number, means?: ArrayLike<number> | null} | {offsets: ArrayLike<number>, values: ArrayLike<number>}} body
 * @property {number} [samplesPerColumn]
 * @property {bigint} [newest]
 * @property {number} [newestValue]
 * @property {bigint} [liveMemoryFrom]
 * @property {Gap[]} [gaps]
 *
 * @typedef {object} View
 * @property {number} frame
 * @property {number} view
 * @property {number} [flags] bit 0 live, bit 1 thinned further
 * @property {bigint} now
 * @property {bigint} from
 * @property {bigint} column
 * @property {number} columnCount
 * @property {number} [droppedFrames]
 * @property {Trace[]} traces
 */

const HEADER = 48;
const TRACE = 48;
const GAP = 48;

/** @param {Trace} trace */
function bodyBytes({ body }) {
  return 'pairs' in body ? body.pairs.length * valueBytes(body.pairs) + meansBytes(body.means) : body.values.length * 16;
}

/** Four means fill eight bytes. @param {ArrayLike<number> | null} [means] */
function meansBytes(means) {
  return 8 * Math.ceil((means?.length ?? 0) / 4);
}

/**
 * The means of columns as shares of their height, 65535 where there is none.
 * @param {ArrayLike<number>} pairs @param {ArrayLike<number>} means
 */
export function meanShares(pairs, means) {
  return Uint16Array.from({ length: means.length }, (_, k) => {
    const [low, high, mean] = [pairs[2 * k] ?? NaN, pairs[2 * k + 1] ?? NaN, means[k] ?? NaN];
    const share = high > low ? Math.max(0, Math.min(1, (mean - low) / (high - low))) : 0;
    return Number.isFinite(mean) ? Math.round(share * 65_534) : 65_535;
  });
}

/** Doubles are written as exact columns. @param {ArrayLike<number>} pairs */
function valueBytes(pairs) {
  return pairs instanceof Float64Array ? 8 : 4;
}

/**
 * @param {View} view
 * @returns {ArrayBuffer}
 */
export function encodeView(view) {
  const size = view.traces.reduce((sum, t) => sum + TRACE + bodyBytes(t) + (t.gaps?.length ?? 0) * GAP, HEADER);
  const out = startFrame({ kind: 1, bytes: size, frame: view.frame, view: view.view });
  out.setUint16(12, view.traces.length, true);
  out.setUint16(14, view.flags ?? 0, true);
  out.setBigInt64(16, view.now, true);
  out.setBigInt64(24, view.from, true);
  out.setBigUint64(32, view.column, true);
  out.setUint32(40, view.columnCount, true);
  out.setUint32(44, view.droppedFrames ?? 0, true);
  let at = HEADER;
  for (const trace of view.traces) at = encodeTrace(out, at, trace);
  return out.buffer;
}

/**
 * @param {DataView} out
 * @param {number} at
 * @param {Trace} trace
 */
function encodeTrace(out, at, trace) {
  const { body, gaps = [] } = trace;
  const columns = 'pairs' in body;
  out.setUint16(at, trace.index, true);
  out.setUint8(at + 2, trace.state ?? 0);
  const exact = columns && valueBytes(body.pairs) === 8;
  out.setUint8(at + 3, !columns ? 1 : body.means ? (exact ? 4 : 3) : exact ? 2 : 0);
  out.setUint32(at + 4, columns ? body.pairs.length / 2 : body.values.length, true);
  out.setUint32(at + 8, gaps.length, true);
  out.setUint32(at + 12, columns ? body.first : 0, true);
  out.setFloat32(at + 16, trace.samplesPerColumn ?? 1, true);
  out.setUint32(at + 20, columns ? body.kept ?? 0 : 0, true);
  out.setBigInt64(at + 24, trace.newest ?? 0n, true);
  out.setFloat64(at + 32, trace.newestValue ?? NaN, true);
  out.setBigInt64(at + 40, trace.liveMemoryFrom ?? 0n, true);
  let next = at + TRACE;
  if (columns) {
    const size = valueBytes(body.pairs);
    for (let i = 0; i < body.pairs.length; i += 1, next += size) {
      if (size === 8) out.setFloat64(next, body.pairs[i] ?? NaN, true);
      else out.setFloat32(next, body.pairs[i] ?? NaN, true);
    }
    for (let k = 0; k < (body.means?.length ?? 0); k += 1) out.setUint16(next + 2 * k, body.means?.[k] ?? 0, true);
    next += meansBytes(body.means);
  } else {
    for (let i = 0; i < body.values.length; i += 1, next += 16) {
      out.setBigInt64(next, BigInt(Math.round(body.offsets[i] ?? 0)), true);
      out.setFloat64(next + 8, body.values[i] ?? NaN, true);
    }
  }
  for (const gap of gaps) next = encodeGap(out, next, gap);
  return next;
}

/**
 * @param {DataView} out
 * @param {number} at
 * @param {Gap} gap
 */
function encodeGap(out, at, gap) {
  out.setBigInt64(at, gap.from, true);
  out.setBigInt64(at + 8, gap.to, true);
  out.setBigUint64(at + 16, BigInt(gap.lostElements), true);
  out.setUint8(at + 24, gap.code);
  out.setUint8(at + 25, gap.flags ?? 0);
  out.setUint8(at + 26, gap.inherited ? gap.inherited.hop + 1 : 0);
  out.setUint8(at + 27, gap.inherited?.code ?? 0);
  out.setBigUint64(at + 32, gap.firstIndex, true);
  out.setBigUint64(at + 40, BigInt(gap.samples), true);
  return at + GAP;
}
