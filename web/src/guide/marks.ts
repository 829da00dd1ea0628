/**
 * Words that begin the separate parts of a section of the guide: how to see a loss, what helps, what does not, and the
 * undo.
 */

const MARKS = ['See', 'Helps', 'Does not help', 'Undo'] as const;
/** One of them. */
export type Mark = (typeof MARKS)[number];

/** A part of a paragraph, and the mark it began with. */
export interface Marked {
  readonly mark: Mark | null;
  readonly source: string;
}

const AT_MARKS = new RegExp(`(?:^|\\s)(?=(?:${MARKS.join('|')}): )`);

/** Splits a paragraph where a mark begins. */
export function splitAtMarks(paragraph: string): readonly Marked[] {
  return paragraph.split(AT_MARKS).map((part) => {
    const mark = MARKS.find((each) => part.startsWith(`${each}: `)) ?? null;
    return { mark, source: mark === null ? part : part.slice(mark.length + 2) };
  });
}
