/**
 * Time of the last loss at each stage of one stream: from its gaps, and from rising counts.
 *
 * Gaps cover losses before the page was opened; losses without gaps (this browser's share) appear only while counts are
 * watched.
 */
import type { GapDetail } from '../wire/messages';
import { lossRows } from './gaps';
import type { Rung } from './ladder';
import { stageKey, UNSETTLED } from './stage';

/** Time for which a loss counts as current. */
const LATELY_NS = 15_000_000_000n;

/** The memory of one stream; it is bounded by the number of stages and hops. */
export class LossTimes {
  readonly #newest = new Map<string, bigint>();
  readonly #counts = new Map<string, number>();

  /** Records gaps, in any order. */
  onGaps(gaps: readonly GapDetail[]): void {
    for (const gap of gaps) for (const [stage] of lossRows(gap)) this.#lost(stageKey(stage), gap.to);
  }

  /** Records the account's counts; the first ones are the baseline. */
  onRungs(rungs: readonly Rung[], now: bigint): void {
    for (const { stage, elements } of rungs) {
      const before = this.#counts.get(stageKey(stage));
      if (before !== undefined && elements > before) this.#lost(stageKey(stage), now);
      this.#counts.set(stageKey(stage), elements);
    }
  }

  /** Returns whether something was lost there recently; unsettled losses count. */
  isRecent({ stage, elements }: Pick<Rung, 'stage' | 'elements'>, now: bigint): boolean {
    if (elements === 0) return false;
    if (stage.name === UNSETTLED.name) return true;
    const newest = this.#newest.get(stageKey(stage));
    return newest !== undefined && now - newest <= LATELY_NS;
  }

  #lost(stage: string, at: bigint): void {
    const known = this.#newest.get(stage);
    if (known === undefined || at > known) this.#newest.set(stage, at);
  }
}
