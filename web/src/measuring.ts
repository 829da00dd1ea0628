/**
 * Measuring with two cursors: connects the cursors of all plots with one read-out.
 *
 * The cursors are times, so they stay with the data while a window moves. The read-out is written at once after a move of
 * a cursor, and else at most ten times a second: figures that change faster cannot be read.
 */
import type { CursorName, Cursors } from './model/stretch';
import type { Zone } from './model/time';
import { MeasurePanel } from './ui/measure-panel';
import type { Panel } from './ui/panel';

/** Services that measuring needs from the plots. */
export interface MeasuringContext {
  /** The plots that are seen. */
  panels(): readonly Panel[];
  /** The plot that keys act on. */
  active(): Panel | undefined;
  cursors(): Cursors | null;
  zone(): Zone;
  /** The cursors are to be here, or none. */
  set(cursors: Cursors | null): void;
  /** A stretch is to be brought into view. */
  show(cursors: Cursors): void;
  say(text: string): void;
}

/** Shortest time between two writings that no cursor's move asked for. */
const PERIOD_MS = 100;

/** The cursors and their read-out. */
export class Measuring {
  readonly #panel: MeasurePanel;
  #written: Cursors | null = null;
  #writtenMs = 0;
  #later: number | undefined;

  constructor(readonly context: MeasuringContext) {
    this.#panel = new MeasurePanel({
      onMove: (name, to) => this.#onKey(name, to),
      onShow: () => { const cursors = context.cursors(); if (cursors !== null) context.show(cursors); },
      onClose: () => context.set(null),
      onRemark: (text) => context.say(text),
    });
  }

  /** Places the cursors in the window, and gives the first one to the keys; or takes them away. */
  toggle(): void {
    const shown = this.context.active()?.shown;
    if (this.context.cursors() !== null || shown === undefined) return this.context.set(null);
    const third = shown.spanNs / 3n;
    this.context.set({ a: shown.from + third, b: shown.from + shown.spanNs - third });
    this.draw(performance.now());
    this.#panel.focus('a');
  }

  /** A cursor was dragged to a share of a plot's width. */
  drag(panel: Panel, name: CursorName, share: number): void {
    const { from, spanNs } = panel.shown;
    this.#move(name, from + BigInt(Math.round(share * Number(spanNs))));
  }

  /** Draws the cursors on every plot, and writes the read-out, now or soon. */
  draw(nowMs: number): void {
    const cursors = this.context.cursors();
    for (const panel of this.context.panels()) panel.showCursors(cursors);
    window.clearTimeout(this.#later);
    const tooSoonMs = this.#writtenMs + PERIOD_MS - nowMs;
    if (cursors === this.#written && tooSoonMs > 0) {
      if (cursors !== null) this.#later = window.setTimeout(() => this.#write(performance.now()), tooSoonMs);
      return;
    }
    this.#write(nowMs);
  }

  #write(nowMs: number): void {
    const cursors = this.context.cursors();
    this.#written = cursors;
    this.#writtenMs = nowMs;
    const [first, ...others] = this.context.panels();
    const panel = this.context.active() ?? first;
    if (cursors === null || first === undefined || panel === undefined) return this.#panel.show(null);
    const traces = [first, ...others].flatMap((each) => each.measured(cursors));
    this.#panel.show({ cursors, shown: panel.shown, widthPx: panel.widthPx, zone: this.context.zone(), traces });
  }

  #onKey(name: CursorName, to: { readonly by: number } | { readonly edge: 0 | 1 }): void {
    const cursors = this.context.cursors();
    const shown = this.context.active()?.shown;
    if (cursors === null || shown === undefined) return;
    if ('edge' in to) this.#move(name, to.edge === 0 ? shown.from : shown.from + shown.spanNs);
    else this.#move(name, cursors[name] + BigInt(Math.round(to.by * Number(shown.spanNs))));
  }

  #move(name: CursorName, at: bigint): void {
    const cursors = this.context.cursors();
    if (cursors !== null) this.context.set({ ...cursors, [name]: at < 0n ? 0n : at });
  }
}
