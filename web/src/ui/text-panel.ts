/**
 * A panel of the grid that holds text instead of a chart: what all of them have in common with plots.
 */
import type { PlotGap } from '../model/gaps';
import { GRID_COLUMNS, type Plot } from '../model/layout';
import type { Range } from '../model/scale';
import type { Shown } from '../paint/area';
import type { PlotPicture } from '../paint/sheet';
import { el, iconButton, setAttribute } from './dom';
import type { Measured } from './measure-panel';
import type { Panel } from './panel';
import type { PlotListener, Shared } from './plot-panel';

/** A panel of text. */
export abstract class TextPanel implements Panel {
  readonly element: HTMLElement;
  readonly body = el('div', { class: 'plot-body text-body' });
  protected readonly title = el('h2', { class: 'plot-title' });
  protected readonly note = el('span', { class: 'plot-note' });
  protected plot: Plot;
  protected dirty = true;

  /** `tools`: buttons before those that all panels have. */
  constructor(
    readonly view: number,
    plot: Plot,
    readonly listener: PlotListener,
    readonly shared: () => Shared,
    tools: readonly Node[],
  ) {
    this.plot = plot;
    const all = el('div', { class: 'plot-tools' }, ...tools,
      iconButton('single', 'This plot alone (m)', () => listener.onSingle()),
      iconButton('close', 'Close the plot (x)', () => listener.onClose()));
    const header = el('header', { class: 'plot-header' }, el('div', { class: 'plot-words' }, this.title, this.note), all);
    this.element = el('section', { class: 'plot', tabindex: '0', 'data-view': String(view), 'data-panel': plot.panel }, header, this.body, el('div', { class: 'resize', 'aria-hidden': 'true' }));
    this.element.addEventListener('pointerdown', () => listener.onActivate());
    this.element.addEventListener('focusin', () => listener.onActivate());
  }

  abstract render(nowMs: number): boolean;

  get widthPx(): number {
    return Math.max(1, this.body.clientWidth);
  }

  /** Holes are drawn in trends. */
  get gaps(): readonly PlotGap[] {
    return [];
  }

  get shown(): Shown {
    const { window, edge } = this.shared();
    return { from: (window.endNs ?? edge) - window.spanNs, spanNs: window.spanNs };
  }

  get leftRange(): Range {
    return { low: 0, high: 1 };
  }

  setPlot(plot: Plot, _units: readonly string[]): void {
    this.plot = plot;
    this.dirty = true;
  }

  invalidate(): void {
    this.dirty = true;
  }

  retheme(): void {}

  fit(): boolean {
    return false;
  }

  /** Text is no picture. */
  picture(): PlotPicture | null {
    return null;
  }

  showCursor(_share: number | null): void {}

  showCursors(): void {}

  measured(): readonly Measured[] {
    return [];
  }

  gapPlace(_gap: PlotGap): { readonly x: number; readonly y: number } {
    const { left, top } = this.body.getBoundingClientRect();
    return { x: left, y: top };
  }

  setActive(active: boolean): void {
    setAttribute(this.element, 'data-active', active ? '' : null);
  }

  setSize(columns: number, rows: number): void {
    this.element.style.gridColumn = `span ${Math.min(columns, GRID_COLUMNS)}`;
    this.element.style.gridRow = `span ${rows}`;
  }

  destroy(): void {
    this.element.remove();
  }
}
