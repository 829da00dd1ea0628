/**
 * Starts frames of any kind as `docs/protocol/page.md` lays them out: their first twelve bytes.
 */

/** In place of a time that there is none of. */
export const NONE = -(2n ** 63n);

/**
 * Returns a frame of so many bytes, all zero after its start.
 * @param {{kind: number, bytes: number, frame: number, view: number}} start
 * @returns {DataView<ArrayBuffer>}
 */
export function startFrame({ kind, bytes, frame, view }) {
  const out = new DataView(new ArrayBuffer(bytes));
  out.setUint16(0, 0x5054, true);
  out.setUint8(2, 1);
  out.setUint8(3, kind);
  out.setUint32(4, frame, true);
  out.setUint32(8, view, true);
  return out;
}
