/**
 * Finding of one stage with losses: number, evidence, and the location of the rest.
 *
 * Its meaning and remedy come from the guide (`guide/guide.ts`).
 */
import type { GapDetail } from '../wire/messages';
import { lossRows } from './gaps';
import type { PathPlace } from './path';
import type { Rung } from './ladder';
import { stageKey } from './stage';

/** Gaps whose evidence is shown; the list below has them all. */
export const SHOWN_GAPS = 3;
/** Lines of evidence shown of one gap. */
const SHOWN_LINES = 3;

/** The evidence of one gap. */
export interface GapEvidence {
  readonly gap: GapDetail;
  /** Lost of it at the stage, in elements. */
  readonly elements: number;
  readonly lines: readonly string[];
}

/** Finding of one stage. */
export interface Finding {
  readonly rung: Rung;
  /** Newest first. */
  readonly gaps: readonly GapEvidence[];
  /** Gaps of this stage that are only in the list. */
  readonly furtherGaps: number;
}

/** Returns the findings of a place, in the order of the path; `gaps` are in time order. */
export function findingsOf(place: PathPlace, gaps: readonly GapDetail[]): readonly Finding[] {
  return place.rungs.filter(({ elements }) => elements > 0).map((rung) => {
    const found = gaps.flatMap((gap) => {
      const elements = lossRows(gap).find(([stage]) => stageKey(stage) === stageKey(rung.stage))?.[1] ?? 0;
      return elements > 0 ? [{ gap, elements, lines: gap.evidence.slice(0, SHOWN_LINES) }] : [];
    });
    return { rung, gaps: found.slice(-SHOWN_GAPS).reverse(), furtherGaps: Math.max(0, found.length - SHOWN_GAPS) };
  });
}

/** Returns the stages of a place at which nothing was lost. */
export const spared = (place: PathPlace): readonly Rung[] => place.rungs.filter(({ elements }) => elements === 0);
