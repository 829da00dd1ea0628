/**
 * Encodes pictures as `docs/protocol/page.md` lays them out: for the fake server and for the decoder's tests. Written from
 * the page, not from the decoder, so that the two check each other.
 */
import { NONE, startFrame } from './encode-head.mjs';

/**
 * @typedef {object} Picture
 * @property {number} frame
 * @property {number} view
 * @property {number} [state]
 * @property {number} [flags] bit 0 live, bit 1 reduced further, bit 2 maxima, bit 3 nearest plane
 * @property {number} [obstacle]
 * @property {bigint} now
 * @property {bigint | null} [keptFrom]
 * @property {number} [droppedFrames]
 * @property {Sample | null} sample
 *
 * @typedef {object} Sample
 * @property {bigint} time
 * @property {bigint} index
 * @property {number} [skipped]
 * @property {number} rows
 * @property {number} columns
 * @property {readonly [number, number]} [size] of the matrix; without it that of the picture
 * @property {readonly [number, number]} [block]
 * @property {number} [planes]
 * @property {number} [plane] number of the one that this is
 * @property {number} low
 * @property {number} high
 * @property {Float32Array | Uint8Array} pixels values, or steps
 */

const HEADER = 112;

/** @param {Picture} picture @returns {ArrayBuffer} */
export function encodePicture({ frame, view, state = 0, flags = 1, obstacle = 0, now, keptFrom = null, droppedFrames = 0, sample }) {
  const bytes = sample === null ? 0 : sample.pixels.byteLength;
  const out = startFrame({ kind: 2, bytes: HEADER + Math.ceil(bytes / 8) * 8, frame, view });
  out.setUint8(12, state);
  out.setUint8(13, sample === null ? 0 : sample.pixels instanceof Float32Array ? 1 : 2);
  out.setUint8(14, flags);
  out.setUint8(15, obstacle);
  out.setBigInt64(16, now, true);
  out.setBigInt64(24, sample?.time ?? NONE, true);
  out.setBigUint64(32, sample?.index ?? 0n, true);
  out.setBigUint64(40, BigInt(sample?.skipped ?? 0), true);
  const { rows = 0, columns = 0, block = [1, 1], size = [rows, columns] } = sample ?? {};
  [rows, columns, ...size, ...block].forEach((value, k) => out.setUint32(48 + 4 * k, value, true));
  out.setFloat64(72, sample?.low ?? NaN, true);
  out.setFloat64(80, sample?.high ?? NaN, true);
  out.setBigInt64(88, keptFrom ?? NONE, true);
  out.setUint32(96, droppedFrames, true);
  out.setUint32(100, sample === null ? 0 : sample.planes ?? 1, true);
  out.setUint32(104, sample?.plane ?? 0, true);
  if (sample === null) return out.buffer;
  if (sample.pixels instanceof Uint8Array) sample.pixels.forEach((step, k) => out.setUint8(HEADER + k, step));
  else sample.pixels.forEach((value, k) => out.setFloat32(HEADER + 4 * k, value, true));
  return out.buffer;
}
