/**
 * When something was last lost at each stage of one stream: by its gaps, and by counts that rise.
 *
 * Gaps tell of what was lost before anybody looked; what has none (this browser's share) shows only while counts are
 * watched.
 */
import type { GapDetail } from '../wire/messages';
import { lossRows } from './gaps';
import type { Rung } from './ladder';
import { UNSETTLED } from './stage';

/** So long a loss is said to be of now. */
const LATELY_NS = 15_000_000_000n;

/** The memory of one stream; it is bounded by the number of stages. */
export class LossTimes {
  readonly #newest = new Map<string, bigint>();
  readonly #counts = new Map<string, number>();

  /** Takes note of gaps, in any order. */
  onGaps(gaps: readonly GapDetail[]): void {
    for (const gap of gaps) for (const [stage] of lossRows(gap)) this.#lost(stage.name, gap.to);
  }

  /** Takes note of what the account counts; the first ones are where it begins. */
  onRungs(rungs: readonly Rung[], now: bigint): void {
    for (const { stage, elements } of rungs) {
      const before = this.#counts.get(stage.name);
      if (before !== undefined && elements > before) this.#lost(stage.name, now);
      this.#counts.set(stage.name, elements);
    }
  }

  /** Whether something was lost there lately; what is not settled yet was. */
  isRecent({ stage, elements }: Pick<Rung, 'stage' | 'elements'>, now: bigint): boolean {
    if (elements === 0) return false;
    if (stage.name === UNSETTLED.name) return true;
    const newest = this.#newest.get(stage.name);
    return newest !== undefined && now - newest <= LATELY_NS;
  }

  #lost(stage: string, at: bigint): void {
    const known = this.#newest.get(stage);
    if (known === undefined || at > known) this.#newest.set(stage, at);
  }
}
