/**
 * What every plot of the grid does, whatever it shows: its header, its place, and what a plot without an axis of time answers.
 */
import type { PlotGap } from '../model/gaps';
import { GRID_COLUMNS, type Plot } from '../model/layout';
import type { Limit } from '../model/limits';
import type { RunMark } from '../model/run-marks';
import type { AxisMode, Range } from '../model/scale';
import type { Mark } from '../model/steering-marks';
import type { CursorName, Cursors } from '../model/stretch';
import type { Zone } from '../model/time';
import type { TimeWindow } from '../model/window';
import type { Shown } from '../paint/area';
import type { PlotPicture } from '../paint/sheet';
import { el, iconButton, setAttribute } from './dom';
import type { Measured } from './measure-panel';
import type { Palette } from './theme';

/** State shared by all plots of the page. */
export interface Shared {
  readonly window: TimeWindow;
  readonly zone: Zone;
  readonly palette: Palette;
  /** Right edge of a following window, until a frame gives it exactly. */
  readonly edge: bigint;
  /** Changes of apps. */
  readonly marks: readonly Mark[];
  /** Starts and ends of runs, and the start that time is counted from. */
  readonly runs: { readonly marks: readonly RunMark[]; readonly zero: bigint | null };
  /** Limits of watched channels, by `stream:channel`. */
  readonly limits: ReadonlyMap<string, readonly Limit[]>;
}

/** Receiver of the events. */
export interface PlotListener {
  onActivate(): void;
  onPan(shareOfWidth: number): void;
  onZoom(factor: number, share: number): void;
  /** The pointer is at this share of the width, or gone. */
  onCursor(share: number | null): void;
  /** The two cursors are to be placed, or taken away. */
  onCursors(): void;
  /** One of the two cursors was dragged to this share of the width. */
  onDragCursor(name: CursorName, share: number): void;
  onGap(gap: PlotGap | null, at: { readonly x: number; readonly y: number }): void;
  onAxis(mode: AxisMode): void;
  onRemoveTrace(index: number): void;
  onSingle(): void;
  onExport(): void;
  onClose(): void;
}

/** Range of an axis before the first number. */
export const UNIT_RANGE: Range = { low: 0, high: 1 };
/** A body lower than this, or narrower, is not drawn in. */
const LEAST_PX = 40;
/** A plot lower than this, or narrower, has no room for large figures. */
const COMPACT_PX = { height: 190, width: 480 };

/** A plot of the grid. */
export abstract class Panel {
  readonly element: HTMLElement;
  /** Box of what is shown. */
  readonly body: HTMLElement;
  protected readonly title = el('h2', { class: 'plot-title' });
  protected readonly note = el('span', { class: 'plot-note' });
  /** Buttons of the header; all plots have the last two. */
  protected readonly tools: HTMLElement;
  protected dirty = true;

  /** `bodyClass`: class of the body; `alone`: the ways to show the plot alone. */
  constructor(
    readonly view: number,
    protected plot: Plot,
    readonly listener: PlotListener,
    readonly shared: () => Shared,
    { bodyClass, alone }: { readonly bodyClass: string; readonly alone: string },
  ) {
    this.body = el('div', { class: bodyClass });
    this.tools = el('div', { class: 'plot-tools' },
      iconButton('single', `This plot alone (${alone})`, () => listener.onSingle()),
      iconButton('close', 'Close the plot (x)', () => listener.onClose()));
    const header = el('header', { class: 'plot-header' }, el('div', { class: 'plot-words' }, this.title, this.note), this.tools);
    this.element = el('section', { class: 'plot', tabindex: '0', 'data-view': String(view), 'data-panel': plot.panel }, header, this.body, el('div', { class: 'resize', 'aria-hidden': 'true' }));
    this.element.addEventListener('pointerdown', () => listener.onActivate());
    this.element.addEventListener('focus', () => listener.onActivate());
  }

  /** Changes what is plotted. */
  abstract setPlot(plot: Plot, units: readonly string[]): void;

  /** Draws if anything has changed since the last time; returns whether it did. */
  abstract render(nowMs: number): boolean;

  /** Width of the data in CSS pixels: the columns a view asks for. */
  get widthPx(): number {
    return Math.max(1, this.body.clientWidth);
  }

  /** The gaps in view, by time: only trends draw them. */
  get gaps(): readonly PlotGap[] {
    return [];
  }

  /** The stretch of time drawn last. */
  get shown(): Shown {
    const { window, edge } = this.shared();
    return { from: (window.endNs ?? edge) - window.spanNs, spanNs: window.spanNs };
  }

  /** The range of the left axis as drawn last. */
  get leftRange(): Range {
    return UNIT_RANGE;
  }

  /** Something outside changed: window, theme, size. */
  invalidate(): void {
    this.dirty = true;
  }

  /** Applies the theme that holds now. */
  retheme(): void {
    this.dirty = true;
  }

  /** Fits what is drawn to its box; returns whether its size changed. */
  fit(): boolean {
    return false;
  }

  /** Returns the plot as it was drawn last, for a picture; null of text. */
  picture(): PlotPicture | null {
    return null;
  }

  /** Shows the shared cursor at a share of the width, or takes it away; while following, time passes under it. */
  showCursor(_share: number | null): void {}

  /** Shows the two cursors where they are in time, or takes them away. */
  showCursors(_cursors: Cursors | null): void {}

  /** Returns what each trace does between the cursors. */
  measured(_cursors: Cursors): readonly Measured[] {
    return [];
  }

  /** Returns the position of a gap on the page, for a card beside it. */
  gapPlace(_gap: PlotGap): { readonly x: number; readonly y: number } {
    const { left, top } = this.body.getBoundingClientRect();
    return { x: left, y: top };
  }

  /** Marks the plot that keys act on. */
  setActive(active: boolean): void {
    setAttribute(this.element, 'data-active', active ? '' : null);
  }

  /** Places the plot in the grid. */
  setSize(columns: number, rows: number): void {
    this.element.style.gridColumn = `span ${Math.min(columns, GRID_COLUMNS)}`;
    this.element.style.gridRow = `span ${rows}`;
  }

  /** Takes the plot off the page. */
  destroy(): void {
    this.element.remove();
  }

  /** Returns the size of the body; null of one that is not drawn in. */
  protected room(): { readonly width: number; readonly height: number } | null {
    const { clientWidth: width, clientHeight: height } = this.body;
    return width < LEAST_PX || height < LEAST_PX ? null : { width, height };
  }

  /** Marks a plot that has no room for large figures. */
  protected markCompact(widthPx: number): void {
    const { height } = this.element.getBoundingClientRect();
    setAttribute(this.element, 'data-compact', height < COMPACT_PX.height || widthPx < COMPACT_PX.width ? '' : null);
  }
}
