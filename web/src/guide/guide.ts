/**
 * The guide to losses (`docs/guide/losses.md`) by stage: the one source of what a stage means and what helps.
 */
import guide from '../../../docs/guide/losses.md?raw';
import { plain, readBlocks, readLine, type Block, type Line } from './markdown';
import { splitAtMarks, type Mark } from './marks';

/** Section of the guide about one stage. */
export interface Section {
  /** Its meaning: the part before the marks, one line per paragraph or list item. */
  readonly why: readonly { readonly item: boolean; readonly line: Line }[];
  /** In the order of the guide. */
  readonly advice: readonly { readonly mark: Mark; readonly line: Line }[];
}

/** Returns the sections of a page by their headings. */
export function sectionsOf(page: string): ReadonlyMap<string, Section> {
  const parts = new Map<string, Block[]>();
  let current: Block[] = [];
  for (const block of readBlocks(page)) {
    if (block.kind === 'heading') parts.set(block.text, current = []);
    else current.push(block);
  }
  return new Map([...parts].map(([name, blocks]) => [name, sectionOf(blocks)]));
}

function sectionOf(blocks: readonly Block[]): Section {
  const why: { item: boolean; line: Line }[] = [];
  const advice: { mark: Mark; line: Line }[] = [];
  for (const block of blocks) {
    if (block.kind === 'list') why.push(...block.items.map((item) => ({ item: true, line: readLine(item) })));
    if (block.kind !== 'paragraph') continue;
    for (const { mark, source } of splitAtMarks(block.source)) {
      if (mark === null) why.push({ item: false, line: readLine(source) });
      else advice.push({ mark, line: readLine(source) });
    }
  }
  return { why, advice };
}

const SECTIONS = sectionsOf(guide);

/** Returns the section of the guide about a stage, or null if it has no heading of that name. */
export const sectionOfStage = (stage: string): Section | null => SECTIONS.get(stage) ?? null;

/** Returns the remedy in one short line, or an empty text if the guide has none. */
export function shortRemedy(stage: string): string {
  const helps = sectionOfStage(stage)?.advice.find(({ mark }) => mark === 'Helps');
  const [first = ''] = CLAUSE.exec(helps === undefined ? '' : plain(helps.line)) ?? [];
  return first === '' ? '' : `Helps: ${first}.`;
}

/** Up to a full stop or a semicolon outside parentheses. */
const CLAUSE = /^(?:\([^)]*\)|[^.;(]|[.;](?!\s|$))+/;

/** Returns the address of a stage's section of the guide on a monitor. */
export const guideAddress = (stage: string): string => `/guide#${stage}`;
