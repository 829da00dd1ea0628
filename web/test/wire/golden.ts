/**
 * Frames of any kind under test: golden ones, and the reason for which a malformed one is refused.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MalformedFrame, type Reason } from '../../src/wire/frame';

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
