/**
 * Reads the bytes of frames: what those of all kinds have in common.
 *
 * Nothing is trusted: every count is held against the bytes that are there before anything is read, and a frame is
 * accepted whole or refused with the reason. Kinds: `frame.ts`, `picture.ts`, `values.ts`, `waterfall.ts`.
 */

/** The first two bytes of every frame, `TP` in memory. */
export const MAGIC = 0x5054;
/** The version of the layout that this page reads. */
const VERSION = 1;
const KIND_OFFSET = 3;
/** Parts of a frame begin at multiples of this. */
const PART_BYTES = 8;
/** In place of a time that there is none of. */
export const NO_TIME = -(2n ** 63n);

/** Typed arrays read in the machine's order; the frame is little-endian like nearly every machine. */
const HOST_IS_LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** State of a trace's stream, from the server. */
export type TraceState = 'ok' | 'unknown' | 'stale' | 'ended';
/** The states by their codes. */
const TRACE_STATES: readonly TraceState[] = ['ok', 'unknown', 'stale', 'ended'];

/** Whether a frame says that it is of this kind. */
export function isKind(buffer: ArrayBuffer, kind: number): boolean {
  return buffer.byteLength > KIND_OFFSET && new DataView(buffer).getUint8(KIND_OFFSET) === kind;
}

/** Reason why a frame was refused. */
export type Reason =
  | 'too short'
  | 'magic'
  | 'version'
  | 'kind'
  | 'flags'
  | 'trace count'
  | 'column count'
  | 'column width'
  | 'trace state'
  | 'trace mode'
  | 'column range'
  | 'means'
  | 'kept columns'
  | 'point count'
  | 'point order'
  | 'gap count'
  | 'gap range'
  | 'gap flags'
  | 'stage'
  | 'hop'
  | 'picture form'
  | 'picture size'
  | 'pixel count'
  | 'padding'
  | 'obstacle'
  | 'sample'
  | 'no sample'
  | 'row form'
  | 'value count'
  | 'value'
  | 'trailing bytes';

/** Error for a malformed frame, with its position. */
export class MalformedFrame extends Error {
  constructor(
    readonly reason: Reason,
    readonly offset: number,
  ) {
    super(`view frame refused at byte ${offset}: ${reason}`);
    this.name = 'MalformedFrame';
  }
}

/** Reads little-endian fields one behind the other, never beyond the end. */
export class Reader {
  readonly #view: DataView;
  offset = 0;

  constructor(readonly buffer: ArrayBuffer) {
    this.#view = new DataView(buffer);
  }

  get left(): number {
    return this.#view.byteLength - this.offset;
  }

  /** Refuses the frame unless `count` items of `size` bytes are still there. */
  need(count: number, size: number): void {
    if (count * size > this.left) this.refuse('too short');
  }

  refuse(reason: Reason): never {
    throw new MalformedFrame(reason, this.offset);
  }

  u8(): number {
    return this.#view.getUint8(this.#advance(1));
  }

  u16(): number {
    return this.#view.getUint16(this.#advance(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#advance(4), true);
  }

  f32(): number {
    return this.#view.getFloat32(this.#advance(4), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.#advance(8), true);
  }

  i64(): bigint {
    return this.#view.getBigInt64(this.#advance(8), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#advance(8), true);
  }

  skip(bytes: number): void {
    this.#advance(bytes);
  }

  /** Reads the start of a frame of this kind, whose header has so many bytes. */
  head(kind: number, headerBytes: number): { readonly frame: number; readonly view: number } {
    this.need(1, headerBytes);
    if (this.u16() !== MAGIC) this.refuse('magic');
    if (this.u8() !== VERSION) this.refuse('version');
    if (this.u8() !== kind) this.refuse('kind');
    return { frame: this.u32(), view: this.u32() };
  }

  traceState(): TraceState {
    return TRACE_STATES[this.u8()] ?? this.refuse('trace state');
  }

  timeOrNone(): bigint | null {
    const time = this.i64();
    return time === NO_TIME ? null : time;
  }

  /** Bytes are read in place. */
  bytes(count: number): Uint8Array {
    return new Uint8Array(this.buffer, this.#advance(count), count);
  }

  /** Where the offset is a multiple of four bytes, the values are read in place. */
  singles(count: number): Float32Array {
    if (!HOST_IS_LITTLE_ENDIAN || this.offset % 4 !== 0) return Float32Array.from({ length: count }, () => this.f32());
    return new Float32Array(this.buffer, this.#advance(count * 4), count);
  }

  /** Where the offset is a multiple of eight bytes, the values are read in place. */
  doubles(count: number): Float64Array {
    if (!HOST_IS_LITTLE_ENDIAN || this.offset % 8 !== 0) return Float64Array.from({ length: count }, () => this.f64());
    return new Float64Array(this.buffer, this.#advance(count * 8), count);
  }

  /** Refuses the frame unless `bytes` and the zeros after them are whole parts. */
  needPadded(bytes: number): void {
    this.need(Math.ceil(bytes / PART_BYTES), PART_BYTES);
  }

  /** Reads the zeros that fill the last part up after `bytes`. */
  padding(bytes: number): void {
    for (let at = bytes; at % PART_BYTES !== 0; at += 1) if (this.u8() !== 0) this.refuse('padding');
  }

  /** Refuses the frame if anything is left. */
  end(): void {
    if (this.left !== 0) this.refuse('trailing bytes');
  }

  #advance(bytes: number): number {
    if (bytes > this.left) this.refuse('too short');
    const at = this.offset;
    this.offset += bytes;
    return at;
  }
}
