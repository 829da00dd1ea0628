/**
 * The account of one stream as a ladder: sent, every stage in the order of the path, this browser.
 *
 * Of a relayed stream the losses of earlier hops come first, each at its hop and stage.
 *
 * The page computes no term of the law from the others: it adds up the server's counts and reports whether
 * the two sides agree.
 */
import type { Account, BrowserLoss } from '../wire/messages';
import { hopRows } from './hops';
import { STAGES, UNEXPLAINED, UNSETTLED, type Stage } from './stage';

/** One rung. */
export interface Rung {
  readonly stage: Stage;
  readonly elements: number;
  /** Share of all that the rungs hold, 0 to 1. */
  readonly share: number;
}

/** The ladder with its ends and its check. */
export interface Ladder {
  /** Elements of one sample. */
  readonly perSample: number;
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
  const lost = STAGES.reduce((sum, stage) => sum + (OUTSIDE.has(stage.name) ? 0 : elementsOf(stage)), 0);
  const { delivered, unexplained, unsettled, inFlight } = account;
  const balanced = sent === delivered + lost + unexplained + unsettled + inFlight;
  // Losses of earlier hops stand at their hop and stage, not at `source` once more.
  const before = hopRows(account.hops);
  const told = before.reduce((sum, [, elements]) => sum + elements, 0);
  const ownOf = (stage: Stage): number => (stage.name === 'source' ? Math.max(0, elementsOf(stage) - told) : elementsOf(stage));
  const counted = [...before, ...STAGES.map((stage) => [stage, ownOf(stage)] as const), [UNEXPLAINED, unexplained] as const, [UNSETTLED, unsettled] as const];
  const all = counted.reduce((sum, [, elements]) => sum + elements, 0);
  return {
    perSample: account.perSample,
    sent, delivered, lost, unexplained, unsettled, inFlight, balanced,
    rungs: counted.map(([stage, elements]) => ({ stage, elements, share: elements / Math.max(1, all) })),
    verdict: verdictOf(account, balanced),
  };
}

/** Writes which share of `whole` a part is: `99.98 %`; what rounds to all or nothing without being it says so. */
export function percent(part: number, whole: number): string {
  if (!(whole > 0)) return '';
  const share = (part / whole) * 100;
  if (share > 0 && share < 0.001) return '< 0.001 %';
  if (share < 100 && share > 99.999) return '> 99.999 %';
  const decimals = share === 0 || share === 100 ? 0 : share < 1 || share > 99 ? 3 : 1;
  return `${share.toFixed(decimals)} %`;
}

function verdictOf(account: Account, balanced: boolean): string {
  if (!balanced) return 'does not balance';
  if (account.state === 'unconfirmed') return 'balanced, tail unknown';
  if (account.state === 'cut') return 'balanced, left early';
  const pending = account.unsettled + account.inFlight > 0;
  if (account.unexplained > 0) return 'balanced, part unexplained';
  return account.state === 'closed' && !pending ? 'closed and explained' : 'balanced';
}
