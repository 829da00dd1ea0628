/**
 * Pictures as PNG with a palette: a page has few colours, and its picture is a third as large then.
 *
 * Colours are cut into 256 boxes at their medians (Heckbert 1982), each weighed by how many pixels have it. PNG: W3C
 * Recommendation, third edition, without interlace and with filter 0, which suits palettes best (section 12.7).
 */
import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([137, 80, 78, 71, 13, 10, 26, 10]);
const MOST = 256;

/** Returns a picture of 8 bits per channel, as browsers make it, with a palette instead. @param {Buffer} png @returns {Buffer} */
export function withPalette(png) {
  const { width, height, pixels } = decode(png);
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const boxes = cut([...counts].map(([colour, count]) => ({ colour, count })));
  /** @type {Map<number, number>} */
  const indices = new Map(boxes.flatMap((box, index) => box.map(({ colour }) => /** @type {[number, number]} */ ([colour, index]))));
  const palette = Buffer.from(boxes.flatMap((box) => [16, 8, 0].map((shift) => mean(box, shift))));
  const rows = Buffer.alloc(height * (width + 1));
  pixels.forEach((pixel, i) => { rows[Math.floor(i / width) * (width + 1) + 1 + (i % width)] = indices.get(pixel) ?? 0; });
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([SIGNATURE, chunk('IHDR', head), chunk('PLTE', palette), chunk('IDAT', deflateSync(rows, { level: 9 })), chunk('IEND', Buffer.alloc(0))]);
}

/** @typedef {{colour: number, count: number}} Weighed */

/** @param {number} colour @param {number} shift */
const part = (colour, shift) => (colour >> shift) & 255;

/** Cuts the box with the largest spread times pixels in two, until there are enough. @param {Weighed[]} all @returns {Weighed[][]} */
function cut(all) {
  const boxes = [measure(all)];
  while (boxes.length < MOST) {
    const at = boxes.reduce((best, box, i) => (box.need > (boxes[best]?.need ?? 0) ? i : best), 0);
    const widest = boxes[at];
    if (widest === undefined || widest.need === 0) break;
    const sorted = widest.box.sort((a, b) => part(a.colour, widest.shift) - part(b.colour, widest.shift));
    const half = sorted.reduce((sum, { count }) => sum + count, 0) / 2;
    let [before, middle] = [0, 0];
    while (middle < sorted.length - 1 && (before === 0 || before + (sorted[middle]?.count ?? 0) <= half)) before += sorted[middle++]?.count ?? 0;
    boxes.splice(at, 1, measure(sorted.slice(0, middle)), measure(sorted.slice(middle)));
  }
  return boxes.map(({ box }) => box);
}

/** How much a box needs to be cut, and in which channel. @param {Weighed[]} box */
function measure(box) {
  const widths = [16, 8, 0].map((shift) => {
    const least = box.reduce((low, { colour }) => Math.min(low, part(colour, shift)), 255);
    return { shift, width: box.reduce((high, { colour }) => Math.max(high, part(colour, shift)), 0) - least };
  });
  const { shift, width } = widths.reduce((a, b) => (b.width > a.width ? b : a));
  // Rare colours of a small mark count, too: the root of the pixels, not their number.
  return { box, shift, need: box.length < 2 ? 0 : width * Math.sqrt(box.reduce((sum, { count }) => sum + count, 0)) };
}

/** @param {Weighed[]} box @param {number} shift */
const mean = (box, shift) => Math.round(box.reduce((sum, { colour, count }) => sum + part(colour, shift) * count, 0) / box.reduce((sum, { count }) => sum + count, 0));

/** @param {string} type @param {Buffer} data */
function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}

/** Reads colours as `0xRRGGBB`; pictures of pages are opaque. @param {Buffer} png @returns {{width: number, height: number, pixels: Uint32Array}} */
function decode(png) {
  const [width, height, bits, kind] = [png.readUInt32BE(16), png.readUInt32BE(20), png[24], png[25]];
  if (bits !== 8 || (kind !== 2 && kind !== 6) || png[28] !== 0) throw new Error('a picture that no browser makes');
  const bytes = kind === 2 ? 3 : 4;
  /** @type {Buffer[]} */
  const parts = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * bytes;
  let before = new Uint8Array(stride);
  const pixels = new Uint32Array(width * height);
  for (let y = 0; y < height; y += 1) {
    const from = y * (stride + 1);
    const row = unfiltered(raw[from] ?? 0, raw.subarray(from + 1, from + 1 + stride), before, bytes);
    for (let x = 0; x < width; x += 1) pixels[y * width + x] = ((row[x * bytes] ?? 0) << 16) | ((row[x * bytes + 1] ?? 0) << 8) | (row[x * bytes + 2] ?? 0);
    before = row;
  }
  return { width, height, pixels };
}

/** Undoes the filter of a line (section 9.2). @param {number} filter @param {Uint8Array} line @param {Uint8Array} above @param {number} bytes */
function unfiltered(filter, line, above, bytes) {
  const row = new Uint8Array(line.length);
  for (let i = 0; i < line.length; i += 1) {
    const [left, up, corner] = [i < bytes ? 0 : row[i - bytes] ?? 0, above[i] ?? 0, i < bytes ? 0 : above[i - bytes] ?? 0];
    const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter] ?? 0;
    row[i] = (line[i] ?? 0) + guess;
  }
  return row;
}

/** @param {number} a @param {number} b @param {number} c */
function paeth(a, b, c) {
  const [pa, pb, pc] = [Math.abs(b - c), Math.abs(a - c), Math.abs(a + b - 2 * c)];
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}
