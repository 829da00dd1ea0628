/**
 * The grid of plots: their layout, the dragging of corners, the drop targets of streams.
 *
 * The grid knows sizes and places; what is plotted and what keys do is the page's business.
 */
import { defaultColumns, GRID_COLUMNS, MAX_ROWS, type Plot } from '../model/layout';
import { setAttribute } from './dom';
import type { Panel } from './panel';

/** Receiver of the events. */
export interface GridListener {
  /** A corner was dragged: the plot at `index` now spans this number of columns and rows. */
  onResize(index: number, columns: number, rows: number): void;
  /** Boxes changed: views need another width. */
  onFitted(): void;
}

/** Drop target of a dragged stream. */
export type DropTarget = { readonly kind: 'plot'; readonly index: number } | { readonly kind: 'new' } | null;

/** The element that holds the plots. */
export class PlotGrid {
  readonly #panels: Panel[] = [];
  readonly #observer: ResizeObserver;

  constructor(
    readonly element: HTMLElement,
    readonly listener: GridListener,
  ) {
    this.#observer = new ResizeObserver(() => this.fit());
    this.#observer.observe(element);
    element.addEventListener('pointerdown', (event) => this.#onCorner(event));
  }

  /** The plots in their order. */
  get panels(): readonly Panel[] {
    return this.#panels;
  }

  /** Adds a plot at the end. */
  add(panel: Panel): void {
    this.#panels.push(panel);
    this.element.append(panel.element);
    // Also when its header takes another line.
    this.#observer.observe(panel.body);
  }

  /** Puts a plot in the place of the one at `index`. */
  replace(index: number, panel: Panel): void {
    const before = this.#panels[index];
    if (before === undefined) return;
    this.#panels[index] = panel;
    before.element.before(panel.element);
    this.#observer.unobserve(before.body);
    this.#observer.observe(panel.body);
    before.destroy();
  }

  /** Takes the plot at `index` away. */
  remove(index: number): void {
    const [panel] = this.#panels.splice(index, 1);
    if (panel === undefined) return;
    this.#observer.unobserve(panel.body);
    panel.destroy();
  }

  /** Puts the plots, which are all here, in this order. */
  order(panels: readonly Panel[]): void {
    if (panels.every((panel, place) => panel === this.#panels[place])) return;
    this.#panels.splice(0, this.#panels.length, ...panels);
    this.element.append(...panels.map((panel) => panel.element));
  }

  /** Places the plots according to the layout; `single` alone fills the page. */
  arrange(plots: readonly Plot[], single: number | null): void {
    setAttribute(this.element, 'data-single', single === null ? null : '');
    this.#panels.forEach((panel, i) => {
      const plot = plots[i];
      panel.element.hidden = single !== null && single !== i;
      panel.setSize(single === null ? plot?.columns ?? defaultColumns(plots.length) : GRID_COLUMNS, single === null ? plot?.rows ?? 1 : 1);
    });
    this.fit();
  }

  /** Fits every chart to its box. */
  fit(): void {
    const changed = this.#panels.filter((panel) => !panel.element.hidden && panel.fit());
    if (changed.length > 0) this.listener.onFitted();
    else this.#panels.forEach((panel) => panel.invalidate());
  }

  /** Marks where a dragged stream would land at this place of the page, and returns it. */
  aim(at: { readonly x: number; readonly y: number } | null): DropTarget {
    const under = at === null ? null : document.elementFromPoint(at.x, at.y);
    const inside = under !== null && this.element.parentElement?.contains(under) === true;
    const index = this.#panels.findIndex((panel) => under !== null && panel.element.contains(under));
    this.#panels.forEach((panel, i) => setAttribute(panel.element, 'data-drop', i === index ? '' : null));
    setAttribute(this.element, 'data-drop', inside && index < 0 ? '' : null);
    if (!inside) return null;
    return index < 0 ? { kind: 'new' } : { kind: 'plot', index };
  }

  #onCorner(event: PointerEvent): void {
    const { target } = event;
    if (!(target instanceof Element) || !target.classList.contains('resize')) return;
    const index = this.#panels.findIndex((panel) => panel.element.contains(target));
    const panel = this.#panels[index];
    if (panel === undefined) return;
    event.preventDefault();
    target.setPointerCapture(event.pointerId);
    const box = panel.element.getBoundingClientRect();
    const rowHeight = box.height / spanOf(panel.element.style.gridRow);
    const stop = new AbortController();
    window.addEventListener('pointermove', (move) => {
      const columns = clamp(Math.round(((move.clientX - box.left) / this.element.clientWidth) * GRID_COLUMNS), 2, GRID_COLUMNS);
      const rows = clamp(Math.round((move.clientY - box.top) / rowHeight), 1, MAX_ROWS);
      this.listener.onResize(index, columns, rows);
    }, { signal: stop.signal });
    for (const type of ['pointerup', 'pointercancel']) window.addEventListener(type, () => stop.abort(), { signal: stop.signal });
  }
}

const clamp = (value: number, low: number, high: number): number => Math.max(low, Math.min(high, value));

const spanOf = (gridRow: string): number => Number(/span (\d+)/.exec(gridRow)?.[1] ?? 1);
