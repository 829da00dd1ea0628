/**
 * The part of Markdown that `docs/guide/losses.md` is written in: headings, paragraphs, lists, tables, commands
 * indented by four spaces; in a line `code`, *stress* and links within the page.
 *
 * Limited on purpose: other Markdown is shown as plain text, and a test ensures that the guide has none of it.
 */

/** A stretch of a line. */
export interface Span {
  readonly kind: 'text' | 'code' | 'stress' | 'link';
  readonly text: string;
  /** Of a link: `#heading`. */
  readonly to?: string;
}

/** A line of text, or several that belong together. */
export type Line = readonly Span[];

/** Blocks of a text. */
export type Block =
  | { readonly kind: 'heading'; readonly level: number; readonly text: string }
  | { readonly kind: 'paragraph'; readonly source: string }
  | { readonly kind: 'list'; readonly items: readonly string[] }
  | { readonly kind: 'commands'; readonly text: string }
  | { readonly kind: 'table'; readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] };

const SPAN = /`([^`]+)`|\*([^*]+)\*|\[([^\]]+)\]\((#[\w-]+)\)/g;

/** Reads the inline elements of a line. */
export function readLine(source: string): Line {
  const spans: Span[] = [];
  let end = 0;
  for (const found of source.matchAll(SPAN)) {
    if (found.index > end) spans.push({ kind: 'text', text: source.slice(end, found.index) });
    const [whole, code, stress, words, to] = found;
    if (code !== undefined) spans.push({ kind: 'code', text: code });
    else if (stress !== undefined) spans.push({ kind: 'stress', text: stress });
    else spans.push({ kind: 'link', text: words ?? '', to: to ?? '' });
    end = found.index + whole.length;
  }
  if (end < source.length) spans.push({ kind: 'text', text: source.slice(end) });
  return spans;
}

/** Returns the text of a line without its formatting. */
export const plain = (line: Line): string => line.map(({ text }) => text).join('');

/** Reads a page; blocks are parted by empty lines. */
export function readBlocks(page: string): readonly Block[] {
  return page.split(/\n\s*\n/).map((each) => each.replace(/^\n+|\s+$/g, '')).filter((each) => each !== '').map(readBlock);
}

function readBlock(source: string): Block {
  const lines = source.split('\n');
  const heading = /^(#+) (.+)$/.exec(source);
  if (heading !== null) return { kind: 'heading', level: heading[1]?.length ?? 1, text: heading[2] ?? '' };
  if (lines.every((line) => line.startsWith('    '))) return { kind: 'commands', text: lines.map((line) => line.slice(4)).join('\n') };
  if (source.startsWith('- ')) return { kind: 'list', items: source.slice(2).split('\n- ').map(joined) };
  if (lines.every((line) => line.startsWith('|'))) {
    // The second line only rules the head off.
    const [head = [], , ...rows] = lines.map(cells);
    return { kind: 'table', head, rows };
  }
  return { kind: 'paragraph', source: joined(source) };
}

const joined = (source: string): string => source.replace(/\s*\n\s*/g, ' ');
const cells = (line: string): readonly string[] => line.slice(1, line.lastIndexOf('|')).split('|').map((cell) => cell.trim());
