/**
 * The stage that leads the loss of a stream, for the sentence of the top bar.
 *
 * The catalogue tells how much is lost but not where, so the account is asked for; seldom, and only for
 * streams that are spoken of.
 */
import { fetchAccount } from './api';
import { leadingStage, type Stage } from './model/stage';

/** An answer holds this long. */
const FRESH_MS = 2_000;
/** Streams remembered. */
const KEPT = 64;

/** What is known, and asked for when it is not. */
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
      (account) => this.#keep(stream, leadingStage(account.lost, account.unexplained)),
      () => undefined,
    );
    return stage;
  }

  #keep(stream: string, stage: Stage | null): void {
    this.#known.set(stream, { stage, askedMs: Date.now() });
  }
}
