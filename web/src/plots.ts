/**
 * All plots of the page: their content, their window of time, and when they are drawn.
 *
 * One `requestAnimationFrame` at a time, and only when a frame came or something changed; a hidden page has none.
 */
import { Credit } from './credit';
import { GapFocus } from './gap-focus';
import type { Live } from './live';
import { Measuring } from './measuring';
import type { Direction, PlotGap } from './model/gaps';
import { EMPTY_LAYOUT, hasPlane, MAX_PLOTS, overlay, plotOf, withoutRoom, type Layout, type Plot } from './model/layout';
import { limitsOf, sameLimits, type Limit } from './model/limits';
import { LiveEdge } from './model/live-edge';
import type { ShownRun } from './model/run-link';
import type { RunMark } from './model/run-marks';
import type { Mark } from './model/steering-marks';
import { channelOf, firstPanel, type PanelKind } from './model/picture';
import { FIRST_PLANE, firstElementOf } from './model/plane';
import { nextMode, type AxisMode } from './model/scale';
import { ordered, type Cursors } from './model/stretch';
import type { Zone } from './model/time';
import { axesOf, MAX_AXES, titlesOf, unitsOf } from './model/titles';
import { centre, follow, pan, pause, withSpan, zoom, type Shown, type TimeWindow } from './model/window';
import type { PlotPicture } from './paint/sheet';
import type { Exportable } from './ui/export-panel';
import type { GapCard, FetchGaps } from './ui/gap-card';
import { PlotGrid, type DropTarget } from './ui/plot-grid';
import type { Panel, Shared } from './ui/panel';
import { offerPanels } from './ui/panel-choice';
import { kindsOf, makePanel } from './ui/panel-kinds';
import { PlotPanel } from './ui/plot-panel';
import { AlarmPanel } from './ui/alarm-panel';
import type { AlarmContext } from './ui/alarm-rows';
import { SamplePanel, type SamplePanelListener } from './ui/sample-panel';
import { TablePanel } from './ui/table-panel';
import { TextPanel } from './ui/text-panel';
import type { Palette } from './ui/theme';
import type { ViewFrame } from './wire/frame';
import type { Stream, TraceRequest } from './wire/messages';
import type { PictureFrame } from './wire/picture';
import type { ValuesFrame } from './wire/values';
import type { WaterfallFrame } from './wire/waterfall';

/** Services that the plots need from the page. */
export interface PlotsContext {
  readonly live: Live;
  readonly card: GapCard;
  readonly fetchGaps: FetchGaps;
  palette(): Palette;
  zone(): Zone;
  catalogue(): ReadonlyMap<string, Stream>;
  alarms(): AlarmContext;
  /** Columns that a plot of this width asks for. */
  columns(widthPx: number): number;
  /** Layout, window or active plot changed. */
  onChange(): void;
  /** The active plot is to be exported. */
  onExport(): void;
  /** A short remark for the user. */
  say(text: string): void;
}

/** The plots. */
export class Plots {
  readonly #grid: PlotGrid;
  readonly #measuring: Measuring;
  #layout: Layout = EMPTY_LAYOUT;
  #active = 0;
  #nextView = 1;
  readonly #edge = new LiveEdge(BigInt(Date.now()) * 1_000_000n, performance.now());
  readonly #credit: Credit;
  readonly #gap: GapFocus;
  /** Share of the width at which the pointer is. */
  #cursor: number | null = null;
  #marks: readonly Mark[] = [];
  #runs: { readonly marks: readonly RunMark[]; readonly zero: bigint | null } = { marks: [], zero: null };
  #limits: ReadonlyMap<string, readonly Limit[]> = new Map();
  #scheduled = 0;
  #draws = 0;

  constructor(element: HTMLElement, readonly context: PlotsContext) {
    this.#credit = new Credit((frame) => context.live.shown(frame));
    this.#gap = new GapFocus({
      card: context.card,
      fetchGaps: context.fetchGaps,
      zone: () => context.zone(),
      window: () => this.#layout.window,
      edge: () => ({ shown: this.#edge.time, now: this.#edgeNow() }),
      active: () => this.#activePair(),
      panelWith: (stream) => this.#panelWith(stream),
      look: (window) => this.#look(window),
      say: (text) => context.say(text),
    });
    this.#grid = new PlotGrid(element, {
      onResize: (index, columns, rows) => this.#change(index, { columns, rows }),
      onFitted: () => this.#request(),
    });
    this.#measuring = new Measuring({
      panels: () => this.#grid.panels.filter(({ element: { hidden } }) => !hidden),
      active: () => this.#grid.panels[this.#active],
      cursors: () => this.#layout.cursors,
      zone: () => context.zone(),
      set: (cursors) => this.#setCursors(cursors),
      show: (cursors) => this.#showStretch(cursors),
      say: (text) => context.say(text),
    });
  }

  /** Content of the plots. */
  get layout(): Layout {
    return this.#layout;
  }

  /** The plot that keys act on. */
  get activePlot(): Plot | null {
    return this.#layout.plots[this.#active] ?? null;
  }

  /** Shows another layout in place of this one. */
  load(layout: Layout): void {
    while (this.#grid.panels.length > 0) this.#dropPanel(0);
    this.#layout = layout;
    for (const plot of layout.plots) this.#addPanel(plot);
    this.#active = layout.single ?? 0;
    this.#arrange();
  }

  /** Changes to another layout; its plot at each place is that of the place `kept` in this one, or a new one. */
  adopt(layout: Layout, kept: readonly (number | null)[]): void {
    const old = this.#layout;
    if (old.window !== layout.window) this.unfocus();
    // A presenter's drag moves the window alone, many times a second.
    if (old.single === layout.single && old.plots.length === layout.plots.length && layout.plots.every((plot, i) => plot === old.plots[i] && kept[i] === i)) {
      this.#layout = layout;
      this.wake();
      this.#request();
      return this.context.onChange();
    }
    const before = [...this.#grid.panels];
    const active = before[this.#active];
    // A panel shows one kind of plot.
    const places = kept.map((place, i) => (place !== null && old.plots[place]?.panel === layout.plots[i]?.panel ? place : null));
    for (let place = before.length - 1; place >= 0; place -= 1) if (!places.includes(place)) this.#dropPanel(place);
    this.#layout = layout;
    const panels = layout.plots.map((plot, i) => this.#adoptPanel(before[places[i] ?? -1], plot));
    this.#grid.order(panels);
    panels.forEach((panel, i) => {
      this.#offer(i);
      panel.invalidate();
    });
    this.#active = layout.single ?? Math.max(0, panels.findIndex((panel) => panel === active));
    return this.#arrange();
  }

  #adoptPanel(panel: Panel | undefined, plot: Plot): Panel {
    if (panel === undefined) {
      const made = this.#makePanel(plot);
      this.#grid.add(made);
      return made;
    }
    panel.setPlot(plot, unitsOf(plot.traces, this.context.catalogue()));
    return panel;
  }

  /** Asks the server again, for other numbers of columns. */
  ask(): void {
    this.#request();
  }

  /** The catalogue changed: units may be known now. */
  onCatalogue(): void {
    const limits = limitsOf(this.context.catalogue().values());
    if (!sameLimits(limits, this.#limits)) this.#grid.panels.forEach((panel) => panel.invalidate());
    this.#limits = limits;
    this.#layout.plots.forEach((plot, i) => {
      const units = unitsOf(plot.traces, this.context.catalogue());
      this.#grid.panels[i]?.setPlot(plot, units);
      this.#offer(i);
    });
    this.#schedule();
  }

  /** Takes a frame from the server. */
  onFrame(frame: ViewFrame): void {
    const panel = this.#take(frame, frame.live ? frame.from + frame.column * BigInt(frame.columnCount) : null);
    if (panel instanceof PlotPanel) panel.setFrame(frame);
  }

  /** Takes a whole sample from the server. */
  onPicture(frame: PictureFrame): void {
    const panel = this.#take(frame, frame.live ? frame.sample?.time ?? null : null);
    if (panel instanceof SamplePanel) panel.setPicture(frame);
  }

  /** Takes the rows of a table that have changed. */
  onValues(frame: ValuesFrame): void {
    const panel = this.#take(frame, null);
    if (panel instanceof TablePanel) panel.setValues(frame);
  }

  /** Takes columns of a waterfall from the server; returns whether they fit those before them. */
  onWaterfall(frame: WaterfallFrame): boolean {
    const last = (frame.first + BigInt(frame.count) - 1n) * frame.columnNs;
    const panel = this.#take(frame, frame.live && frame.count > 0 ? last : null);
    return !(panel instanceof SamplePanel) || panel.setWaterfall(frame);
  }

  /** Counts a frame that reaches to this time, if it follows the newest data; returns the panel of its view. */
  #take(frame: { readonly view: number; readonly frame: number }, reach: bigint | null): Panel | undefined {
    this.#credit.took(frame);
    if (reach !== null) this.#edge.reach(reach, performance.now());
    this.#schedule();
    return this.#grid.panels.find((each) => each.view === frame.view);
  }

  /** Time has passed: ages are others. */
  beat(): void {
    const texts = this.#grid.panels.filter((panel) => panel instanceof TextPanel && !panel.element.hidden);
    texts.forEach((panel) => panel.invalidate());
    if (texts.length > 0) this.#schedule();
  }

  /** Shows the alarms in a panel, or goes to the one that there is. */
  showAlarms(): void {
    const at = this.#layout.plots.findIndex(({ panel }) => panel === 'alarms');
    if (at < 0) this.#add(plotOf([], 'alarms'));
    else this.show(at);
  }

  /** The connection is gone, and with it what was owed on it. */
  onDisconnect(): void {
    this.#credit.forget();
  }

  /** Plots traces in a new plot, over the active plot, or where they were dropped. */
  plot(traces: readonly TraceRequest[], target: DropTarget | 'active'): void {
    if (this.#under(target)?.panel === 'table') return this.#plotTraces(traces, target);
    const whole = traces.filter((trace) => this.#firstPanel(trace) !== 'trend');
    for (const trace of whole) this.#add(plotOf([trace], this.#firstPanel(trace)));
    const others = traces.filter((trace) => !whole.includes(trace));
    if (others.length > 0) this.#plotTraces(others, target);
  }

  #firstPanel(trace: TraceRequest): PanelKind {
    const [stream, channel] = [this.context.catalogue().get(trace.stream), channelOf(trace, this.context.catalogue())];
    return stream === undefined || channel === undefined ? 'trend' : firstPanel(stream, channel);
  }

  #placeOf(target: DropTarget | 'active'): number {
    return target === 'active' ? this.#active : target?.kind === 'plot' ? target.index : -1;
  }

  #under(target: DropTarget | 'active'): Plot | undefined {
    return this.#layout.plots[this.#placeOf(target)];
  }

  #plotTraces(traces: readonly TraceRequest[], target: DropTarget | 'active'): void {
    const [index, under] = [this.#placeOf(target), this.#under(target)];
    if (under?.panel === 'table' || (under?.panel === 'trend' && this.#fits(under, traces))) {
      const laid = overlay(under, traces);
      this.#change(index, { traces: laid.traces });
      this.activate(index);
      this.#sayWithoutRoom(laid, traces);
      return;
    }
    if (under?.panel === 'trend') this.context.say('A third unit does not fit on two axes: plotted separately');
    const plot = plotOf(traces);
    this.#add(plot);
    this.#sayWithoutRoom(plot, traces);
  }

  /** Marks where a dragged stream would land, and returns it. */
  aim(at: { readonly x: number; readonly y: number } | null): DropTarget {
    return this.#grid.aim(at);
  }

  /** Makes a plot the one that keys act on. */
  activate(index: number): void {
    if (this.#layout.plots.length === 0) return;
    this.#active = Math.max(0, Math.min(this.#layout.plots.length - 1, index));
    this.#grid.panels.forEach((panel, i) => panel.setActive(i === this.#active && this.#grid.panels.length > 1));
    this.context.onChange();
  }

  /** Makes a plot the active one, and brings it into view. */
  show(index: number): void {
    this.activate(index);
    this.#grid.panels[this.#active]?.element.scrollIntoView({ block: 'nearest' });
  }

  /** Goes to the plot after or before, also while one is shown alone. */
  step(by: number): void {
    const { length } = this.#layout.plots;
    if (length === 0) return;
    this.show((this.#active + by + length) % length);
    if (this.#layout.single !== null) this.#set({ single: this.#active });
  }

  /** Closes the active plot. */
  close(index = this.#active): void {
    if (this.#layout.plots[index] === undefined) return;
    this.#dropPanel(index);
    this.#layout = { ...this.#layout, plots: this.#layout.plots.filter((_, i) => i !== index), single: null };
    this.#active = Math.min(this.#active, Math.max(0, this.#layout.plots.length - 1));
    this.#arrange();
  }

  /** Shows the active plot alone, or all again. */
  single(index = this.#active): void {
    if (this.#layout.plots.length === 0) return;
    this.#active = index;
    this.#set({ single: this.#layout.single === null ? index : null });
  }

  /** Changes the y-axis of the active plot to its next mode. */
  nextAxis(): void {
    const plot = this.activePlot;
    const range = this.#grid.panels[this.#active]?.leftRange;
    if (plot !== null && range !== undefined && plot.panel !== 'table' && plot.panel !== 'alarms') this.#change(this.#active, { axis: nextMode(plot.axis, range) });
  }

  /** Goes to another plane of the active plot, if its samples have several. */
  stepPlane(by: number): void {
    const panel = this.#grid.panels[this.#active];
    if (panel instanceof SamplePanel) panel.stepPlane(by);
  }

  /** Follows the live edge. */
  follow(): void {
    this.#look(follow(this.#layout.window));
  }

  /** Holds the view, or continues. */
  togglePause(): void {
    const { window } = this.#layout;
    this.#look(window.endNs === null ? pause(window, this.#shownEdge()) : follow(window));
  }

  /** The right edge of the active plot: streams of others may arrive later or sooner. */
  #shownEdge(): bigint {
    const shown = this.#grid.panels[this.#active]?.shown;
    const drawn = shown !== undefined && shown.spanNs === this.#layout.window.spanNs;
    return drawn ? shown.from + shown.spanNs : this.#edge.time;
  }

  /** Moves the window by a share of its width; positive is later. */
  pan(share: number): void {
    const delta = BigInt(Math.round(Number(this.#layout.window.spanNs) * share));
    this.#look(pan(this.#layout.window, delta, this.#edgeNow()));
  }

  /** Zooms around a share of the width. */
  zoom(factor: number, share = 1): void {
    this.#look(zoom(this.#layout.window, factor, share, this.#edgeNow()));
  }

  /** Shows a run, or none, in this window. */
  showRun(run: ShownRun | null, window: TimeWindow): void {
    this.#look(window, run);
  }

  /** Shows this much time. */
  span(spanNs: bigint): void {
    this.#look(withSpan(this.#layout.window, spanNs));
  }

  /** Places two cursors, which hold the view, or takes them away. */
  toggleCursors(): void {
    if (this.#layout.plots.length === 0) return this.context.say('Plot a stream first: cursors measure on plots');
    if (this.#layout.cursors === null) this.#look(pause(this.#layout.window, this.#shownEdge()));
    this.#measuring.toggle();
  }

  /** Moves to the next or previous gap of the active plot, wherever it is. */
  stepGap(direction: Direction): Promise<void> {
    return this.#gap.step(direction);
  }

  /** Shows a gap in the middle of the plots, with its card. */
  focusGap(gap: PlotGap): void {
    this.#gap.show(gap);
  }

  /** Forgets the gap that was looked at. */
  unfocus(): void {
    this.#gap.leave();
  }

  /** The stretch of time that the active plot shows; null without a plot. */
  get stretch(): Shown | null {
    return this.#grid.panels[this.#active]?.shown ?? null;
  }

  /** The active plot as it is seen; null without a plot. */
  get seen(): Exportable | null {
    const [plot, panel] = [this.activePlot, this.#grid.panels[this.#active]];
    if (plot === null || panel === undefined || plot.traces.length === 0) return null;
    const { from, spanNs } = panel.shown;
    const { path, name } = titlesOf(plot.traces);
    const traces = plot.traces.map((trace) => firstElementOf(trace, channelOf(trace, this.context.catalogue()), plot.plane));
    return { title: `${path}${name}`, traces, stretch: { from, to: from + spanNs } };
  }

  /** Draws all plots that are seen and returns them, or the active one, for a picture. */
  pictures(what: 'plot' | 'page'): readonly PlotPicture[] {
    this.renderNow();
    const panels = this.#grid.panels.filter((panel, i) => !panel.element.hidden && (what === 'page' || i === this.#active));
    return panels.map((panel) => panel.picture()).filter((picture) => picture !== null);
  }

  /** Marks changes of apps in every plot. */
  mark(marks: readonly Mark[]): void {
    this.#marks = marks;
    this.#grid.panels.forEach((panel) => panel.invalidate());
    this.#schedule();
  }

  /** Marks starts and ends of runs in every plot; time is counted from `zero` on, if it is given. */
  markRuns(marks: readonly RunMark[], zero: bigint | null): void {
    this.#runs = { marks, zero };
    this.wake();
  }

  /** Colours, type or zone changed. */
  retheme(): void {
    this.#grid.panels.forEach((panel) => panel.retheme());
    this.#grid.fit();
    this.#schedule();
  }

  /** The page is seen again. */
  wake(): void {
    this.#grid.panels.forEach((panel) => panel.invalidate());
    this.#schedule();
  }

  /** Draws at once, for a printer that does not wait. */
  renderNow(): void {
    this.#render(performance.now());
  }

  #activePair(): { readonly plot: Plot; readonly panel: Panel } | null {
    const [plot, panel] = [this.activePlot, this.#grid.panels[this.#active]];
    return plot === null || panel === undefined ? null : { plot, panel };
  }

  #panelWith(stream: string): Panel | undefined {
    const shows = (plot: Plot | undefined): boolean => plot?.traces.some((trace) => trace.stream === stream) === true;
    const index = shows(this.#layout.plots[this.#active]) ? this.#active : this.#layout.plots.findIndex(shows);
    return this.#grid.panels[index];
  }

  #sayWithoutRoom(plot: Plot, traces: readonly TraceRequest[]): void {
    const words = withoutRoom(plot, traces);
    if (words !== '') this.context.say(words);
  }

  #fits(plot: Plot, traces: readonly TraceRequest[]): boolean {
    const units = unitsOf(overlay(plot, traces).traces, this.context.catalogue());
    return new Set(units).size <= MAX_AXES && !axesOf(units).axis.includes(-1);
  }

  #add(plot: Plot): void {
    if (this.#layout.plots.length >= MAX_PLOTS) {
      this.context.say(`A page holds at most ${MAX_PLOTS} plots: close one first`);
      return;
    }
    this.#layout = { ...this.#layout, plots: [...this.#layout.plots, plot], single: null };
    this.#addPanel(plot);
    this.#active = this.#layout.plots.length - 1;
    this.#arrange();
    this.show(this.#active);
  }

  #addPanel(plot: Plot): void {
    this.#grid.add(this.#makePanel(plot));
    this.#offer(this.#grid.panels.length - 1);
  }

  #makePanel(plot: Plot): Panel {
    const view = this.#nextView;
    this.#nextView += 1;
    const shared = (): Shared => ({
      window: this.#layout.window, zone: this.context.zone(), palette: this.context.palette(), edge: this.#edge.time, marks: this.#marks, runs: this.#runs, limits: this.#limits,
    });
    const listener = this.#listener(() => panel);
    const panel = makePanel(view, plot, listener, shared, {
      catalogue: () => this.context.catalogue(), alarms: () => this.context.alarms(), cursors: () => this.#layout.cursors,
      say: (text) => this.context.say(text), onNews: () => this.#schedule(),
    });
    panel.setPlot(plot, unitsOf(plot.traces, this.context.catalogue()));
    return panel;
  }

  /** Offers the other kinds of panels that show the plot's channels. */
  #offer(index: number): void {
    const plot = this.#layout.plots[index];
    if (plot === undefined) return;
    const panel = this.#grid.panels[index];
    const tools = panel?.element.querySelector('.plot-tools') ?? null;
    const kinds = kindsOf(plot, this.context.catalogue(), () => this.#fits(plot, []));
    offerPanels(tools, kinds, plot.panel, (kind) => {
      const at = panel === undefined ? -1 : this.#grid.panels.indexOf(panel);
      if (at >= 0) this.#showAs(at, kind);
    });
  }

  /** Shows the channel of a plot in another kind of panel. */
  #showAs(index: number, kind: PanelKind): void {
    const plot = this.#layout.plots[index];
    const before = this.#grid.panels[index];
    if (plot === undefined || before === undefined || plot.panel === kind) return;
    const plane = hasPlane(kind) ? plot.plane : FIRST_PLANE;
    const changed = { ...plotOf(plot.traces, kind), columns: plot.columns, rows: plot.rows, plane };
    this.#layout = { ...this.#layout, plots: this.#layout.plots.map((each, i) => (i === index ? changed : each)) };
    this.context.live.closeView(before.view);
    this.#grid.replace(index, this.#makePanel(changed));
    this.#offer(index);
    this.#arrange();
  }

  #dropPanel(index: number): void {
    const panel = this.#grid.panels[index];
    if (panel !== undefined) this.context.live.closeView(panel.view);
    this.#grid.remove(index);
  }

  #listener(panel: () => Panel): SamplePanelListener {
    const index = (): number => this.#grid.panels.indexOf(panel());
    return {
      onActivate: () => { if (index() !== this.#active) this.activate(index()); },
      onPan: (share) => this.pan(-share),
      onZoom: (factor, share) => this.zoom(factor, share),
      onCursor: (share) => {
        this.#setCursor(share);
        this.#schedule();
      },
      onLog: (log) => this.#change(index(), { log }),
      onPlane: (plane) => this.#change(index(), { plane }),
      onCursors: () => {
        this.activate(index());
        this.toggleCursors();
      },
      onDragCursor: (name, share) => this.#measuring.drag(panel(), name, share),
      onGap: (gap, at) => this.#gap.hover(gap, at),
      onAxis: (axis: AxisMode) => this.#change(index(), { axis }),
      onRemoveTrace: (trace) => this.#removeTrace(index(), trace),
      onSingle: () => this.single(index()),
      onExport: () => {
        this.activate(index());
        this.context.onExport();
      },
      onClose: () => this.close(index()),
    };
  }

  #removeTrace(index: number, trace: number): void {
    const traces = this.#layout.plots[index]?.traces.filter((_, i) => i !== trace) ?? [];
    if (traces.length > 0) this.#change(index, { traces });
  }

  #change(index: number, change: Partial<Plot>): void {
    const plot = this.#layout.plots[index];
    if (plot === undefined) return;
    const changed = { ...plot, ...change };
    this.#layout = { ...this.#layout, plots: this.#layout.plots.map((each, i) => (i === index ? changed : each)) };
    this.#grid.panels[index]?.setPlot(changed, unitsOf(changed.traces, this.context.catalogue()));
    this.#arrange();
  }

  #set(change: Partial<Layout>): void {
    this.#layout = { ...this.#layout, ...change };
    this.#arrange();
  }

  #arrange(): void {
    this.#grid.arrange(this.#layout.plots, this.#layout.single);
    this.activate(this.#active);
    if (this.#layout.plots.length === 0) this.context.onChange();
    this.#request();
  }

  /** Changes the window; what is drawn moves at once, the data follow. A window of the user's own is the run's no longer. */
  #look(window: TimeWindow, run = this.#runIn(window)): void {
    this.unfocus();
    this.#layout = { ...this.#layout, window, run };
    this.#grid.panels.forEach((panel) => panel.invalidate());
    this.#request();
    this.context.onChange();
  }

  /** Asks for what is visible; a plot hidden behind a single one costs nothing. */
  #request(): void {
    const { window, plots, single } = this.#layout;
    this.#grid.panels.forEach((panel, i) => {
      const plot = plots[i];
      if (plot === undefined || (single !== null && single !== i)) this.context.live.closeView(panel.view);
      else if (panel instanceof SamplePanel && plot.panel === 'waterfall') this.context.live.setWaterfall(panel.waterfallRequest(window));
      else if (panel instanceof SamplePanel) this.context.live.setPicture(panel.request(window));
      else if (panel instanceof TablePanel) this.context.live.setValues(panel.request());
      else if (panel instanceof AlarmPanel) this.context.live.closeView(panel.view);
      else this.context.live.setView({ view: panel.view, traces: plot.traces, widthPx: this.context.columns(panel.widthPx), ...window });
    });
    this.#schedule();
  }

  #runIn({ spanNs, endNs }: TimeWindow): ShownRun | null {
    const { run, window } = this.#layout;
    return run === null || !run.whole || (spanNs === window.spanNs && endNs === window.endNs) ? run : { ...run, whole: false };
  }

  #setCursor(share: number | null): void {
    this.#cursor = share;
    this.#grid.panels.forEach((panel) => panel.showCursor(share));
  }

  #setCursors(cursors: Cursors | null): void {
    this.#layout = { ...this.#layout, cursors };
    // A table has the values at cursor A.
    this.#request();
    this.context.onChange();
  }

  #showStretch(cursors: Cursors): void {
    const [from, to] = ordered(cursors);
    this.#look(centre(pause(this.#layout.window, this.#edge.time), from, to, this.#edgeNow()));
  }

  #edgeNow(): bigint {
    return this.#edge.now(performance.now());
  }

  #schedule(): void {
    if (this.#scheduled === 0 && !document.hidden) this.#scheduled = requestAnimationFrame((now) => this.#render(now));
  }

  #render(nowMs: number): void {
    this.#scheduled = 0;
    let drawn = 0;
    for (const panel of this.#grid.panels) {
      if (panel.element.hidden || !panel.render(nowMs)) continue;
      drawn += 1;
      // The picture moved under a cursor that did not: its values are others now.
      panel.showCursor(this.#cursor);
    }
    this.#measuring.draw(nowMs);
    this.#credit.drawn();
    if (drawn === 0) return;
    // For the tests: the only way to see from outside that a hidden page draws nothing.
    this.#draws += 1;
    document.documentElement.dataset['draws'] = String(this.#draws);
  }
}
