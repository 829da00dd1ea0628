/**
 * Marks in the plots: the moments from which on changes of apps are in the samples.
 *
 * The stream `steer/APP` has a sample for each record of the app's log. Its channel `index` is a number only where a change
 * took effect, and that sample has the time of the first sample with the change.
 */
import { fields, list } from '../wire/json';
import type { Shown } from './window';

/** Prefix of the streams of commands. */
export const STEER_PREFIX = 'steer/';

/** A change of an app. */
export interface Mark {
  readonly at: bigint;
  readonly app: string;
  readonly words: string;
}

/** Reads the changes of an app from a range of its channel `index`: columns `[t0, t1, min, max]`. */
export function readMarks(app: string, answer: unknown): readonly Mark[] {
  return list(fields(answer), 'columns').flatMap((column) => {
    const [from, , low, high] = Array.isArray(column) ? (column as readonly unknown[]) : [];
    if (typeof from !== 'number' || typeof low !== 'number' || typeof high !== 'number') return [];
    const samples = low === high ? `sample ${low.toLocaleString('en')}` : `samples ${low.toLocaleString('en')} to ${high.toLocaleString('en')}`;
    return [{ at: BigInt(Math.round(from)), app, words: `${app} was changed: ${samples}` }];
  });
}

/** Returns the shares of the width at which marks stand; those outside are left out. */
export function placed(marks: readonly Mark[], shown: Shown): readonly { readonly share: number; readonly mark: Mark }[] {
  return marks.flatMap((mark) => {
    const share = Number(mark.at - shown.from) / Number(shown.spanNs);
    return share >= 0 && share <= 1 ? [{ share, mark }] : [];
  });
}
