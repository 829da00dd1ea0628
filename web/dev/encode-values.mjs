/**
 * Encodes frames of newest values as `docs/protocol/page.md` lays them out: for the fake server and for the decoder's tests.
 * Written from the page, not from the decoder, so that the two check each other.
 */
import { NONE, startFrame } from './encode-head.mjs';

/**
 * @typedef {object} Values
 * @property {number} frame
 * @property {number} view
 * @property {number} [flags] bit 0 live, bit 1 every row
 * @property {bigint} now
 * @property {number} [droppedFrames]
 * @property {readonly Row[]} rows
 *
 * @typedef {object} Row
 * @property {number} index
 * @property {number} [state]
 * @property {Sample | null} sample
 * @property {number} [noSample] why there is none
 *
 * @typedef {object} Sample
 * @property {number} form
 * @property {bigint} time
 * @property {number} [elements]
 * @property {number} [lostElements]
 * @property {number} [lostValues]
 * @property {number} low
 * @property {number} high
 * @property {readonly (number | bigint | boolean | readonly [number, number])[]} values
 */

const HEAD = 32;
const ROW = 40;
const COMPLEX = 5;

/** @param {Values} values @returns {ArrayBuffer} */
export function encodeValues({ frame, view, flags = 3, now, droppedFrames = 0, rows }) {
  const sizes = rows.map(({ sample }) => ROW + 8 * (sample === null ? 0 : sample.values.length * (sample.form === COMPLEX ? 2 : 1)));
  const out = startFrame({ kind: 3, bytes: HEAD + sizes.reduce((a, b) => a + b, 0), frame, view });
  out.setUint16(12, rows.length, true);
  out.setUint16(14, flags, true);
  out.setBigInt64(16, now, true);
  out.setUint32(24, droppedFrames, true);
  let at = HEAD;
  rows.forEach((row, k) => {
    writeRow(out, at, row);
    at += sizes[k] ?? 0;
  });
  return out.buffer;
}

/** @param {DataView} out @param {number} at @param {Row} row */
function writeRow(out, at, { index, state = 0, sample, noSample = 0 }) {
  out.setUint16(at, index, true);
  out.setUint8(at + 2, state);
  out.setUint8(at + 3, sample?.form ?? 0);
  out.setUint8(at + 4, sample?.values.length ?? 0);
  out.setUint8(at + 5, sample?.lostValues ?? 0);
  out.setUint8(at + 6, noSample);
  out.setUint32(at + 8, sample === null ? 0 : sample.elements ?? 1, true);
  out.setUint32(at + 12, sample?.lostElements ?? 0, true);
  out.setBigInt64(at + 16, sample?.time ?? NONE, true);
  out.setFloat64(at + 24, sample?.low ?? NaN, true);
  out.setFloat64(at + 32, sample?.high ?? NaN, true);
  const parts = (sample?.values ?? []).flatMap((value) => (Array.isArray(value) ? value : [value]));
  parts.forEach((value, k) => writeValue(out, at + ROW + 8 * k, value, sample?.form ?? 0));
}

/** @param {DataView} out @param {number} at @param {number | bigint | boolean} value @param {number} form */
function writeValue(out, at, value, form) {
  if (form === 2) out.setBigInt64(at, BigInt(value), true);
  else if (form === 3 || form === 4) out.setBigUint64(at, BigInt(value), true);
  else out.setFloat64(at, Number(value), true);
}
