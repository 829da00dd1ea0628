/**
 * A field of rows: lists, and tables with few columns, such as the variables of an expression.
 */
import { isBand, type Column, type Rows } from '../model/graph-kinds';
import { el } from './dom';

/** What a field needs beside its content. */
export interface RowsOptions {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly oneRow: boolean;
  readonly readOnly: boolean;
  /** Fills a list with words to choose from. */
  suggest(input: HTMLInputElement, column: Column): void;
  onChange(rows: Rows): void;
}

/** Makes the field. */
export function rowsField(first: Rows, options: RowsOptions): HTMLElement {
  const { columns, label, oneRow, readOnly } = options;
  const box = el('div', { class: 'graph-rows', role: 'group', 'aria-label': label });
  const empty = columns.map((column) => column.of?.[0] ?? '');
  let rows: (readonly string[])[] = first.map((row) => columns.map((_, place) => row[place] ?? ''));
  if (rows.length === 0 && !readOnly) rows = [empty];
  const set = (at: number, place: number, written: string): void => {
    rows = rows.map((row, each) => (each === at ? row.map((cell, k) => (k === place ? written : cell)) : row));
    options.onChange(rows);
  };
  const cell = (at: number, place: number, column: Column): HTMLElement => {
    const value = rows[at]?.[place] ?? '';
    const name = `${label}: ${column.name}${oneRow ? '' : ` ${at + 1}`}`;
    if (column.of !== undefined) {
      const select = el('select', { 'aria-label': name, disabled: readOnly, on: { change: () => { set(at, place, select.value); render(); } } }, ...column.of.map((word) => el('option', { value: word, text: word })));
      select.value = value;
      return select;
    }
    const input = el('input', { 'aria-label': name, placeholder: column.name, autocomplete: 'off', spellcheck: 'false', readonly: readOnly, ...(column.hint === 'number' ? { inputmode: 'decimal' } : {}), on: { change: () => set(at, place, input.value), focus: () => options.suggest(input, column), input: () => options.suggest(input, column) } });
    input.value = value;
    return input;
  };
  const render = (focus = -1): void => {
    box.replaceChildren(...rows.map((row, at) => {
      const shown = columns.map((column, place) => [column, place] as const).filter(([column]) => !(oneRow && column.name === 'to Hz' && !isBand(row[0] ?? '')));
      const cells = shown.map(([column, place]) => cell(at, place, column));
      const drop = el('button', { type: 'button', class: 'graph-drop', title: 'Take this row out', 'aria-label': `${label}: take row ${at + 1} out`, text: '×', on: { click: () => { rows = rows.filter((_, each) => each !== at); render(Math.min(at, rows.length - 1)); options.onChange(rows); } } });
      return el('div', { class: 'graph-row' }, ...cells, ...(oneRow || readOnly ? [] : [drop]));
    }), ...(oneRow || readOnly ? [] : [el('button', { type: 'button', class: 'word-button graph-more', text: '+ add', 'aria-label': `${label}: add a row`, on: { click: () => { rows = [...rows, empty]; render(rows.length - 1); } } })]));
    if (focus >= 0) box.children[focus]?.querySelector('input')?.focus();
  };
  render();
  return box;
}
