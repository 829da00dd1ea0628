/**
 * Decodes the frames of newest values: of each channel of a table one sample, as it was published.
 *
 * The layout's source of truth is `docs/protocol/page.md`. What frames of all kinds have in common is in `reader.ts`. Start at {@link decodeValues}.
 */
import { MAX_TRACES } from './frame';
import type { TraceRequest } from './messages';
import { isKind, NO_TIME, Reader, type TraceState } from './reader';

/** The frame kind that carries newest values. */
export const KIND_VALUES = 3;
const HEADER_BYTES = 32;
const ROW_BYTES = 40;
const VALUE_BYTES = 8;
/** Values of one row. */
export const MAX_VALUES = 4;
const FLAG_LIVE = 1;
const FLAG_WHOLE = 2;
const NO_SAMPLE = ['not kept', 'asked', 'lost', 'not recorded', 'unreadable'] as const;
const FORMS = ['none', 'double', 'signed', 'unsigned', 'bool', 'complex', 'span'] as const;

/** One element: integers with all their digits, complex numbers as a pair. */
export type Value = number | bigint | boolean | readonly [number, number];

/** The sample of a row. */
export interface ValueSample {
  /** Of a span the end of the time that its samples are from. */
  readonly time: bigint;
  /** Elements of the channel. */
  readonly elements: number;
  /** Elements that never arrived. */
  readonly lostElements: number;
  /** The first elements in the channel's unit; null: one that never arrived. */
  readonly values: readonly (Value | null)[];
  /** Smallest and largest element, complex ones by their magnitude; NaN without a number. */
  readonly low: number;
  readonly high: number;
  /** Only the extremes of many samples are kept of this time. */
  readonly isSpan: boolean;
}

/** Why a row has no sample. */
export type NoSample = (typeof NO_SAMPLE)[number];

/** One channel of a table. */
export interface ValueRow {
  readonly index: number;
  readonly state: TraceState;
  readonly sample: ValueSample | null;
  /** Of no meaning beside a sample. */
  readonly noSample: NoSample;
}

/** The rows of a table that have changed. */
export interface ValuesFrame {
  readonly frame: number;
  readonly view: number;
  readonly live: boolean;
  /** It has every row. */
  readonly whole: boolean;
  readonly now: bigint;
  readonly droppedFrames: number;
  readonly rows: readonly ValueRow[];
}

/** A table as the page asks for it. */
export interface ValuesRequest {
  readonly view: number;
  readonly traces: readonly TraceRequest[];
  /** Null follows the newest samples. */
  readonly endNs: bigint | null;
}

/** Writes a request; the nanoseconds keep all their digits. */
export function writeValues({ view, traces, endNs }: ValuesRequest): string {
  const head = JSON.stringify({ type: 'values', view, traces: traces.map(({ stream, channel }) => ({ stream, channel })) });
  return `${head.slice(0, -1)},"end_ns":${endNs ?? 'null'}}`;
}

/** Whether a frame says that it has newest values. */
export function isValues(buffer: ArrayBuffer): boolean {
  return isKind(buffer, KIND_VALUES);
}

/**
 * Decodes one frame.
 *
 * @throws MalformedFrame when any field contradicts the layout or the frame's length.
 */
export function decodeValues(buffer: ArrayBuffer): ValuesFrame {
  const reader = new Reader(buffer);
  const numbers = reader.head(KIND_VALUES, HEADER_BYTES);
  const [count, flags] = [reader.u16(), reader.u16()];
  if (count > MAX_TRACES) reader.refuse('trace count');
  if ((flags & ~(FLAG_LIVE | FLAG_WHOLE)) !== 0) reader.refuse('flags');
  const [now, droppedFrames] = [reader.i64(), reader.u32()];
  if (reader.u32() !== 0) reader.refuse('padding');
  const rows = Array.from({ length: count }, () => readRow(reader));
  reader.end();
  return { ...numbers, now, droppedFrames, rows, live: (flags & FLAG_LIVE) !== 0, whole: (flags & FLAG_WHOLE) !== 0 };
}

function readRow(reader: Reader): ValueRow {
  reader.need(1, ROW_BYTES);
  const index = reader.u16();
  const state = reader.traceState();
  const form = FORMS[reader.u8()] ?? reader.refuse('row form');
  const [count, lost] = [reader.u8(), reader.u8()];
  const noSample = NO_SAMPLE[reader.u8()] ?? reader.refuse('no sample');
  if (reader.u8() !== 0) reader.refuse('padding');
  const [elements, lostElements, time, low, high] = [reader.u32(), reader.u32(), reader.i64(), reader.f64(), reader.f64()];
  if (count > MAX_VALUES || count > elements || lost >= 2 ** count || lostElements > elements) reader.refuse('value count');
  if (form === 'none') {
    if (elements !== 0 || time !== NO_TIME) reader.refuse('sample');
    return { index, state, sample: null, noSample };
  }
  if (time === NO_TIME) reader.refuse('sample');
  if (noSample !== 'not kept') reader.refuse('no sample');
  if (form === 'span' && count !== 0) reader.refuse('value count');
  reader.need(count * (form === 'complex' ? 2 : 1), VALUE_BYTES);
  const read = readerOf(reader, form);
  const values = Array.from({ length: count }, (_, k) => {
    const value = read();
    return (lost & (1 << k)) === 0 ? value : null;
  });
  return { index, state, noSample, sample: { time, elements, lostElements, values, low, high, isSpan: form === 'span' } };
}

function readerOf(reader: Reader, form: (typeof FORMS)[number]): () => Value {
  switch (form) {
    case 'signed': return () => reader.i64();
    case 'unsigned': return () => reader.u64();
    case 'bool': return () => {
      const bit = reader.u64();
      return bit > 1n ? reader.refuse('value') : bit === 1n;
    };
    case 'complex': return () => [reader.f64(), reader.f64()];
    default: return () => reader.f64();
  }
}
