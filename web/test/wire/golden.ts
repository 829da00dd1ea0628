/**
 * Frames of any kind under test: golden ones, malformed ones, and the reason for which those are refused.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { MalformedFrame, type Reason, type TraceState } from '../../src/wire/reader';

const GOLDEN = fileURLToPath(new URL('../../../docs/protocol/golden/', import.meta.url));

/** Names of the golden frames of a kind, such as `page`. */
export const goldenFrames = (kind: string): readonly string[] => readdirSync(GOLDEN).filter((name) => name.startsWith(`${kind}-`) && name.endsWith('.hex'));

/** Reads a golden frame: hex digits; anything after `#` on a line is a remark. */
export function readHex(name: string): ArrayBuffer {
  const digits = readFileSync(GOLDEN + name, 'utf8').replace(/#.*$/gm, '').replace(/\s+/g, '');
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16)).buffer;
}

/** Returns what tells the reason for which a decoder refuses a frame, or null for one that it reads. */
export const refusalBy = (decode: (buffer: ArrayBuffer) => unknown) => (buffer: ArrayBuffer): Reason | null => {
  try {
    decode(buffer);
    return null;
  } catch (error) {
    if (error instanceof MalformedFrame) return error.reason;
    throw error;
  }
};

type Refusal = ReturnType<typeof refusalBy>;

/** Checks that a frame is read, but not when it is cut, at any length. */
export function expectRefusedWhenCut(refusal: Refusal, whole: ArrayBuffer): void {
  for (let length = 0; length < whole.byteLength; length += 1) expect(refusal(whole.slice(0, length)), `at ${length}`).toBe('too short');
  expect(refusal(whole)).toBeNull();
}

/** Checks that a frame is refused with a byte too many. */
export function expectRefusedWhenLonger(refusal: Refusal, whole: ArrayBuffer): void {
  const longer = new Uint8Array(whole.byteLength + 1);
  longer.set(new Uint8Array(whole));
  expect(refusal(longer.buffer)).toBe('trailing bytes');
}

/** Checks that frames with a few random bytes are read or refused, and nothing else. */
export function expectNoOtherError(refusal: Refusal, whole: () => ArrayBuffer): void {
  let seed = 42;
  const next = (): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0);
  for (let round = 0; round < 3000; round += 1) {
    const bytes = new Uint8Array(whole());
    for (let i = next() % 6; i >= 0; i -= 1) bytes[next() % bytes.length] = next() & 255;
    expect(() => refusal(bytes.buffer), `round ${round}`).not.toThrow();
  }
}

/** The code of a trace's state. */
export const stateCode = (state: TraceState): number => ['ok', 'unknown', 'stale', 'ended'].indexOf(state);

/** Checks that bytes are those of a golden frame. */
export function expectSameBytes(written: ArrayBuffer, golden: ArrayBuffer): void {
  const hex = (bytes: ArrayBuffer): string => Buffer.from(bytes).toString('hex');
  expect(hex(written)).toBe(hex(golden));
}
