/**
 * The stage that leads the loss of a stream, for the sentence of the top bar.
 *
 * The catalogue has the number of losses but not their stage, so the account is requested; rarely, and only for
 * streams that are mentioned.
 */
import { fetchAccount } from './api';
import { rowsOf } from './model/hops';
import { leadingStage, type Stage } from './model/stage';

/** An answer holds this long. */
const FRESH_MS = 2_000;
/** Streams remembered. */
const KEPT = 64;

/** Returns the known answer, and requests one if there is none. */
export class LeadingStages {
  readonly #known = new Map<string, { readonly stage: Stage | null; readonly askedMs: number }>();

  /** Returns the stage as far as it is known, and sees to it that it soon is. */
  of(stream: string): Stage | null {
    const known = this.#known.get(stream);
    if (known !== undefined && Date.now() - known.askedMs < FRESH_MS) return known.stage;
    const stage = known?.stage ?? null;
    if (this.#known.size > KEPT) this.#known.clear();
    this.#keep(stream, stage);
    void fetchAccount(stream).then(
      (account) => this.#keep(stream, leadingStage(rowsOf(account))),
      () => undefined,
    );
    return stage;
  }

  #keep(stream: string, stage: Stage | null): void {
    this.#known.set(stream, { stage, askedMs: Date.now() });
  }
}
