/**
 * The two cursors on one plot: a line each with its letter, and the stretch between them.
 *
 * A cursor is dragged by a strip beside its line, the earlier one at its left, the later one at its right, so that two on
 * one pixel can both be taken. One beyond the window is a flag at that edge, which says how far away it is and is dragged
 * in from there. Keys move the cursors in the read-out (`measure-panel.ts`).
 */
import { duration } from '../model/quantity';
import type { CursorName, Cursors } from '../model/stretch';
import type { Box } from '../chart';
import type { Shown } from '../paint/area';
import { el, setAttribute, setText } from './dom';
import { OWN_GESTURES } from './gestures';

/** Receiver of a drag: the cursor is to be at this share of the plot's width. */
export type DragListener = (name: CursorName, share: number) => void;

interface Parts {
  readonly line: HTMLDivElement;
  readonly flag: HTMLSpanElement;
}

const NAMES: readonly CursorName[] = ['a', 'b'];

/** The cursors of a plot. */
export class CursorLines {
  readonly #stretch = el('div', { class: 'stretch', hidden: true });
  readonly #parts: Readonly<Record<CursorName, Parts>>;
  #box: Box = { left: 0, top: 0, width: 1, height: 1 };

  constructor(
    readonly body: HTMLElement,
    readonly onDrag: DragListener,
  ) {
    this.#parts = { a: this.#make('a'), b: this.#make('b') };
    body.append(this.#stretch, ...NAMES.map((name) => this.#parts[name].line));
  }

  /** Shows the cursors on the stretch of time drawn in `box`, or takes them away. */
  show(cursors: Cursors | null, shown: Shown, box: Box): void {
    this.#box = box;
    this.#stretch.hidden = cursors === null;
    for (const name of NAMES) this.#parts[name].line.hidden = cursors === null;
    if (cursors === null) return;
    const share = (at: bigint): number => Number(at - shown.from) / Number(shown.spanNs);
    const shares = { a: share(cursors.a), b: share(cursors.b) };
    for (const name of NAMES) this.#place(name, shares[name], Number(shown.spanNs));
    const isFirst = cursors.a <= cursors.b;
    setAttribute(this.#parts.a.line, 'data-side', isFirst ? 'left' : 'right');
    setAttribute(this.#parts.b.line, 'data-side', isFirst ? 'right' : 'left');
    const [from, to] = [Math.min(shares.a, shares.b), Math.max(shares.a, shares.b)].map((each) => clamp(each) * box.width) as [number, number];
    this.#stretch.style.transform = `translate(${box.left + from}px, ${box.top}px)`;
    this.#stretch.style.inlineSize = `${to - from}px`;
    this.#stretch.style.blockSize = `${box.height}px`;
  }

  #place(name: CursorName, share: number, spanNs: number): void {
    const { line, flag } = this.#parts[name];
    const { left, top, width, height } = this.#box;
    const edge = share < 0 ? 'before' : share > 1 ? 'after' : null;
    setAttribute(line, 'data-edge', edge);
    line.style.transform = `translate(${left + clamp(share) * width}px, ${top}px)`;
    line.style.blockSize = `${height}px`;
    const letter = name.toUpperCase();
    const away = duration((edge === 'before' ? -share : share - 1) * spanNs);
    setText(flag, edge === null ? letter : edge === 'before' ? `◂ ${letter} ${away}` : `${letter} ${away} ▸`);
    setAttribute(line, 'title', edge === null ? `Cursor ${letter}: drag it` : `Cursor ${letter} is ${away} ${edge} this window: drag it in`);
  }

  #make(name: CursorName): Parts {
    const flag = el('span', { class: 'stretch-flag' });
    const line = el('div', { class: 'stretch-line', 'data-cursor': name, 'aria-hidden': 'true', hidden: true, [OWN_GESTURES]: '' },
      el('span', { class: 'stretch-grip' }), flag);
    let grabbedAt = 0;
    line.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      line.setPointerCapture(event.pointerId);
      // A line keeps its distance from the pointer; a flag comes to it.
      grabbedAt = line.dataset['edge'] === undefined ? this.#x(event) - this.#lineX(line) : 0;
    });
    line.addEventListener('pointermove', (event) => {
      if (line.hasPointerCapture(event.pointerId)) this.onDrag(name, clamp((this.#x(event) - grabbedAt) / Math.max(1, this.#box.width)));
    });
    return { line, flag };
  }

  /** The pointer's distance from the left edge of the data. */
  #x(event: PointerEvent): number {
    return event.clientX - this.body.getBoundingClientRect().left - this.#box.left;
  }

  #lineX(line: HTMLElement): number {
    const { left, width } = line.getBoundingClientRect();
    return left + width / 2 - this.body.getBoundingClientRect().left - this.#box.left;
  }
}

const clamp = (share: number): number => Math.max(0, Math.min(1, share));
