/**
 * Decodes the frames that show one whole sample: a matrix, reduced to the pixels that a panel has for it.
 *
 * The layout's source of truth is `docs/protocol/page.md`. What frames of all kinds have in common is in `reader.ts`. Start at {@link decodePicture}.
 */
import type { TraceRequest } from './messages';
import { isKind, NO_TIME, Reader, type TraceState } from './reader';

/** The frame kind that carries one sample. */
export const KIND_PICTURE = 2;
/** Bytes before the pixels. */
export const PICTURE_HEADER_BYTES = 112;
/** Pixels of one picture. */
export const MAX_PIXELS = 262_144;

const FORM_NONE = 0;
const FORM_VALUES = 1;
const FORM_STEPS = 2;
const FLAG_LIVE = 1;
const FLAG_SLOW = 2;
const FLAG_MAX = 4;
const FLAG_NEAREST = 8;
const FLAGS_KNOWN = FLAG_LIVE | FLAG_SLOW | FLAG_MAX | FLAG_NEAREST;
const LAST_STEP = 255;

/** Reason why the server keeps no samples of a channel. */
export type Obstacle = 'too large' | 'no room' | 'unasked';
const OBSTACLES: readonly (Obstacle | null)[] = [null, 'too large', 'no room', 'unasked'];

/** One sample of one channel, as a matrix of pixels. */
export interface Sample {
  readonly time: bigint;
  readonly index: bigint;
  /** Samples that arrived since the view's previous frame and were not shown. */
  readonly skipped: number;
  /** Matrices in a sample, and the number of the one that this is. */
  readonly planes: number;
  readonly plane: number;
  /** The plane asked for is not there: this is the nearest. */
  readonly isNearest: boolean;
  readonly rows: number;
  readonly columns: number;
  /** Rows and columns of the matrix before it was reduced. */
  readonly size: readonly [number, number];
  /** Rows and columns of the matrix that are one pixel. */
  readonly block: readonly [number, number];
  /** Values row by row in the channel's unit; `NaN` where there is none. */
  readonly values: Float32Array | Float64Array;
  /** The smallest and largest finite value; both NaN without one. */
  readonly low: number;
  readonly high: number;
}

/** One picture at one moment. */
export interface PictureFrame {
  readonly frame: number;
  readonly view: number;
  readonly state: TraceState;
  readonly live: boolean;
  readonly slow: boolean;
  /** A pixel is the largest of its elements, else their mean. */
  readonly isMax: boolean;
  readonly obstacle: Obstacle | null;
  readonly now: bigint;
  /** Time of the oldest sample kept; null: none. */
  readonly keptFrom: bigint | null;
  readonly droppedFrames: number;
  readonly sample: Sample | null;
}

/** A picture as the page asks for it. */
export interface PictureRequest {
  readonly view: number;
  readonly trace: TraceRequest;
  /** Indices of the plane, none of the first one. */
  readonly plane: readonly number[];
  readonly widthPx: number;
  readonly heightPx: number;
  /** Null follows the live edge. */
  readonly endNs: bigint | null;
  readonly reduction: 'mean' | 'max';
}

/** Writes a request; the nanoseconds keep all their digits. */
export function writePicture({ view, trace: { stream, channel }, plane, widthPx, heightPx, endNs, reduction }: PictureRequest): string {
  const head = JSON.stringify({ type: 'picture', view, stream, channel, plane, width_px: widthPx, height_px: heightPx, reduction });
  return `${head.slice(0, -1)},"end_ns":${endNs ?? 'null'}}`;
}

/** Whether a frame says that it is a picture. */
export function isPicture(buffer: ArrayBuffer): boolean {
  return isKind(buffer, KIND_PICTURE);
}

/**
 * Decodes one picture.
 *
 * @throws MalformedFrame when any field contradicts the layout or the frame's length.
 */
export function decodePicture(buffer: ArrayBuffer): PictureFrame {
  const reader = new Reader(buffer);
  const numbers = reader.head(KIND_PICTURE, PICTURE_HEADER_BYTES);
  const state = reader.traceState();
  const form = reader.u8();
  const flags = reader.u8();
  if ((flags & ~FLAGS_KNOWN) !== 0) reader.refuse('flags');
  const obstacle = OBSTACLES[reader.u8()];
  if (obstacle === undefined) return reader.refuse('obstacle');
  const now = reader.i64();
  const head = readHead(reader);
  const keptFrom = reader.timeOrNone();
  const droppedFrames = reader.u32();
  const [planes, plane, isNearest] = [reader.u32(), reader.u32(), (flags & FLAG_NEAREST) !== 0];
  if (reader.u32() !== 0) reader.refuse('flags');
  const sample = readSample(reader, form, { ...head, planes, plane, isNearest });
  reader.end();
  return {
    ...numbers, state, obstacle, now, keptFrom, droppedFrames, sample,
    live: (flags & FLAG_LIVE) !== 0, slow: (flags & FLAG_SLOW) !== 0, isMax: (flags & FLAG_MAX) !== 0,
  };
}

type Head = Omit<Sample, 'values' | 'planes' | 'plane' | 'isNearest'>;

function readHead(reader: Reader): Head {
  const [time, index, skipped] = [reader.i64(), reader.u64(), Number(reader.u64())];
  const [rows, columns] = [reader.u32(), reader.u32()];
  const size = [reader.u32(), reader.u32()] as const;
  const block = [reader.u32(), reader.u32()] as const;
  const [low, high] = [reader.f64(), reader.f64()];
  return { time, index, skipped, rows, columns, size, block, low, high };
}

function readSample(reader: Reader, form: number, head: Omit<Sample, 'values'>): Sample | null {
  const { rows, columns, size, block, planes, plane, isNearest } = head;
  if (form === FORM_NONE) {
    if (rows + columns + size[0] + size[1] + planes + plane !== 0 || isNearest || head.time !== NO_TIME) reader.refuse('sample');
    return null;
  }
  if (form !== FORM_VALUES && form !== FORM_STEPS) reader.refuse('picture form');
  if (plane >= planes || head.time === NO_TIME) reader.refuse('sample');
  const reduced = (side: 0 | 1): number => (size[side] > 0 && block[side] > 0 ? Math.ceil(size[side] / block[side]) : -1);
  if (reduced(0) !== rows || reduced(1) !== columns) reader.refuse('picture size');
  const count = rows * columns;
  if (count > MAX_PIXELS) reader.refuse('pixel count');
  const bytes = count * (form === FORM_VALUES ? 4 : 1);
  reader.needPadded(bytes);
  const pixels = form === FORM_VALUES ? { values: reader.singles(count) } : valuesOf(reader.bytes(count), head);
  reader.padding(bytes);
  return { ...head, ...pixels };
}

/** The values of steps, and their extremes. */
function valuesOf(steps: Uint8Array, { low, high }: Head): { values: Float64Array; low: number; high: number } {
  const value = (step: number): number => low + (step / LAST_STEP) * (high - low);
  let [least, most] = [LAST_STEP, 0];
  const values = new Float64Array(steps.length);
  for (const [at, step] of steps.entries()) {
    least = Math.min(least, step);
    most = Math.max(most, step);
    values[at] = value(step);
  }
  const ends = [value(least), value(most)];
  return { values, low: Math.min(...ends), high: Math.max(...ends) };
}
