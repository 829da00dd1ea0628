/**
 * Encodes waterfalls as `docs/protocol/page.md` lays them out: for the fake server and for the decoder's tests. Written
 * from the page, not from the decoder, so that the two check each other.
 */
import { NONE, startFrame } from './encode-head.mjs';

/**
 * @typedef {object} Waterfall
 * @property {number} frame
 * @property {number} view
 * @property {number} [state]
 * @property {number} [flags] bit 0 live, bit 1 wider columns, bit 2 anew, bit 3 short of memory, bit 4 nearest plane
 * @property {bigint} now
 * @property {bigint} first
 * @property {bigint} columnNs
 * @property {number} count
 * @property {number} [bins]
 * @property {number} [block]
 * @property {number} [elements]
 * @property {number} [rows]
 * @property {number} [planes]
 * @property {number} [plane] number of the one that this is
 * @property {number} [droppedFrames]
 * @property {bigint | null} [liveFrom]
 * @property {ReadonlyMap<number, {readonly present: number, readonly expected: number, readonly bins: ArrayLike<number>}>} columns by place
 */

const HEADER = 88;
const COLUMN = 16;

/** @param {Waterfall} waterfall @returns {ArrayBuffer} */
export function encodeWaterfall({ frame, view, state = 0, flags = 1, now, first, columnNs, count, bins = 0, block = 1, elements = bins * block, rows = 1, planes = 1, plane = 0, droppedFrames = 0, liveFrom = null, columns }) {
  const values = [...columns.values()].flatMap((column) => Array.from(column.bins));
  const begin = HEADER + COLUMN * columns.size;
  const out = startFrame({ kind: 4, bytes: begin + Math.ceil((values.length * 4) / 8) * 8, frame, view });
  out.setUint8(12, state);
  out.setUint8(13, flags);
  out.setBigInt64(16, now, true);
  out.setBigInt64(24, first, true);
  out.setBigUint64(32, columnNs, true);
  [count, columns.size, bins, block, elements, rows, planes, droppedFrames].forEach((value, k) => out.setUint32(40 + 4 * k, value, true));
  out.setBigInt64(72, liveFrom ?? NONE, true);
  out.setUint32(80, plane, true);
  [...columns].forEach(([place, { present, expected }], k) => [place, present, expected].forEach((value, i) => out.setUint32(HEADER + COLUMN * k + 4 * i, value, true)));
  values.forEach((value, k) => out.setFloat32(begin + 4 * k, value, true));
  return out.buffer;
}
