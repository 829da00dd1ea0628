/**
 * Writes the guide as a page of HTML while the page is built, so that it can be read without a script.
 */
import { readBlocks, readLine, type Block } from './markdown';
import { splitAtMarks } from './marks';

/** Returns a page of Markdown as HTML; every heading has an anchor made from its text. */
export function htmlOf(page: string): string {
  return readBlocks(page).map(blockHtml).join('\n');
}

function blockHtml(block: Block): string {
  switch (block.kind) {
    case 'heading':
      return `<h${block.level} id="${slug(block.text)}">${lineHtml(block.text)}</h${block.level}>`;
    case 'paragraph':
      return splitAtMarks(block.source).map(({ mark, source }) => `<p>${mark === null ? '' : `<b>${mark}:</b> `}${lineHtml(source)}</p>`).join('\n');
    case 'list':
      return `<ul>${block.items.map((item) => `<li>${lineHtml(item)}</li>`).join('')}</ul>`;
    case 'commands':
      return `<pre>${escaped(block.text)}</pre>`;
    case 'table':
      return `<table><thead><tr>${cellsHtml(block.head, 'th')}</tr></thead><tbody>${block.rows.map((row) => `<tr>${cellsHtml(row, 'td')}</tr>`).join('')}</tbody></table>`;
  }
}

const cellsHtml = (cells: readonly string[], tag: 'th' | 'td'): string => cells.map((cell) => `<${tag}>${lineHtml(cell)}</${tag}>`).join('');

function lineHtml(source: string): string {
  return readLine(source).map(({ kind, text, to }) => {
    const words = escaped(text);
    if (kind === 'text') return words;
    if (kind === 'link') return `<a href="${escaped(to ?? '')}">${words}</a>`;
    const tag = kind === 'code' ? 'code' : 'em';
    return `<${tag}>${words}</${tag}>`;
  }).join('');
}

/** As GitHub makes them: the same link leads to the same heading there and here. */
const slug = (heading: string): string => heading.toLowerCase().replace(/[^\w\s-]/g, '').replaceAll(' ', '-');

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => ENTITIES[character] ?? character);
