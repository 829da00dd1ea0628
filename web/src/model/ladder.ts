/**
 * The account of one stream as a ladder: sent, every stage in the order of the path, this browser.
 *
 * The page computes no term of the law from the others: it adds up the server's counts and reports whether
 * the two sides agree.
 */
import type { Account, BrowserLoss } from '../wire/messages';
import { STAGES, UNEXPLAINED, UNSETTLED, type Stage } from './stage';

/** One rung. */
export interface Rung {
  readonly stage: Stage;
  readonly elements: number;
  /** Length of the bar, 0 to 1, on a logarithmic scale: one lost of a million must show. */
  readonly bar: number;
}

/** The ladder with its ends and its check. */
export interface Ladder {
  readonly sent: number;
  readonly delivered: number;
  readonly lost: number;
  readonly unexplained: number;
  readonly unsettled: number;
  readonly inFlight: number;
  readonly rungs: readonly Rung[];
  /** Both sides of the law agree. */
  readonly balanced: boolean;
  readonly verdict: string;
}

/** Stages behind the reader's own account: separate hops, shown but outside its law. */
const OUTSIDE = new Set(['browser', 'archive_write']);

/** Returns the ladder of an account as this browser sees it. */
export function ladderOf(account: Account, browser: BrowserLoss | null): Ladder {
  const sent = (account.next - account.first) * account.perSample;
  const here = browser?.lostElements.get(account.stream) ?? account.lost.get('browser') ?? 0;
  const elementsOf = (stage: Stage): number =>
    stage.name === 'browser' ? here : account.lost.get(stage.name) ?? 0;
  const rungs = STAGES.map((stage) => rung(stage, elementsOf(stage), sent));
  const lost = STAGES.reduce((sum, stage) => sum + (OUTSIDE.has(stage.name) ? 0 : elementsOf(stage)), 0);
  const { delivered, unexplained, unsettled, inFlight } = account;
  const balanced = sent === delivered + lost + unexplained + unsettled + inFlight;
  const pending = [rung(UNEXPLAINED, unexplained, sent), rung(UNSETTLED, unsettled, sent)];
  return {
    sent, delivered, lost, unexplained, unsettled, inFlight, balanced,
    rungs: [...rungs, ...pending],
    verdict: verdictOf(account, balanced),
  };
}

function rung(stage: Stage, elements: number, sent: number): Rung {
  const bar = elements > 0 ? Math.log10(1 + elements) / Math.log10(1 + Math.max(sent, elements, 9)) : 0;
  return { stage, elements, bar };
}

function verdictOf(account: Account, balanced: boolean): string {
  if (!balanced) return 'does not balance';
  if (account.state === 'unconfirmed') return 'balanced, tail unknown';
  if (account.state === 'cut') return 'balanced, left early';
  const pending = account.unsettled + account.inFlight > 0;
  if (account.unexplained > 0) return 'balanced, part unexplained';
  return account.state === 'closed' && !pending ? 'closed and explained' : 'balanced';
}
