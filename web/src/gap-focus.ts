/**
 * The gap that is looked at: found with `g`, shown in the middle of the plots with its card, forgotten when the window
 * moves.
 */
import { searchGap } from './gap-search';
import { neighbour, type Direction, type PlotGap } from './model/gaps';
import type { Plot } from './model/layout';
import type { Zone } from './model/time';
import { centre, pause, type TimeWindow } from './model/window';
import type { FetchGaps, GapCard } from './ui/gap-card';
import type { Panel } from './ui/panel';

/** Services of the plots. */
export interface GapFocusContext {
  readonly card: GapCard;
  readonly fetchGaps: FetchGaps;
  zone(): Zone;
  window(): TimeWindow;
  /** The newest time shown, and where it is by now. */
  edge(): { readonly shown: bigint; readonly now: bigint };
  /** The plot that keys act on. */
  active(): { readonly plot: Plot; readonly panel: Panel } | null;
  /** The panel that shows a stream. */
  panelWith(stream: string): Panel | undefined;
  /** Shows this window. */
  look(window: TimeWindow): void;
  say(text: string): void;
}

/** The gap that is looked at. */
export class GapFocus {
  #gap: PlotGap | null = null;

  constructor(readonly context: GapFocusContext) {}

  /** Moves to the next or previous gap of the active plot, wherever it is. */
  async step(direction: Direction): Promise<void> {
    const active = this.context.active();
    if (active === null) return;
    const { gaps, shown: { from, spanNs } } = active.panel;
    const at = this.#gap?.from ?? (direction === 'next' ? from : from + spanNs);
    const gap = neighbour(gaps, at, direction) ?? (await this.#search(active.plot, at, direction));
    if (gap === null) this.context.say(direction === 'next' ? 'No later gap' : 'No earlier gap within a day');
    else this.show(gap);
  }

  /** Shows a gap in the middle of the plots, with its card. */
  show(gap: PlotGap): void {
    const panel = this.context.panelWith(gap.stream);
    const { shown, now } = this.context.edge();
    const held = pause(this.context.window(), shown);
    const start = (held.endNs ?? 0n) - held.spanNs;
    const inView = gap.from >= start && gap.to <= (held.endNs ?? 0n);
    this.context.look(inView ? held : centre(held, gap.from, gap.to, now));
    this.#gap = gap;
    // After the drawing that this change has asked for: only then is the gap's place known.
    requestAnimationFrame(() => {
      if (panel !== undefined) this.context.card.show(gap, panel.gapPlace(gap), this.context.zone(), true);
    });
  }

  /** The pointer is over a gap, or over none. */
  hover(gap: PlotGap | null, at: { readonly x: number; readonly y: number }): void {
    if (gap === null) this.context.card.hide();
    else if (this.#gap === null) this.context.card.show(gap, at, this.context.zone());
  }

  /** Forgets the gap. */
  leave(): void {
    this.#gap = null;
    this.context.card.hide(true);
  }

  #search(plot: Plot, at: bigint, direction: Direction): Promise<PlotGap | null> {
    const streams = new Set(plot.traces.map((trace) => trace.stream));
    return searchGap(this.context.fetchGaps, [...streams], at, this.context.edge().now, direction);
  }
}
