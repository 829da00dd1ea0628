/**
 * The page as a whole: holds the shared state and passes events between the parts.
 *
 * Decisions worth a test are in `model/`; this file only routes events.
 */
import { AccountWatch } from './account-watch';
import { fetchGaps, fetchInjection, fetchStreams, fetchVisitor, Refused, setInjection } from './api';
import { LeadingStages } from './leading-stages';
import { Live, type Connection } from './live';
import { hopsOf, type Hop } from './model/hops';
import { leftOut, readLayout, writeLayout } from './model/layout';
import { isBare, shownRun, writeRunLink } from './model/run-link';
import { connectionSentence, noticeOf, type Standing } from './model/notices';
import { sentence, worstStream, type Alarms } from './model/sentence';
import { AttackWatch } from './model/unauthentic';
import { firstPlots } from './model/tree';
import { full, type Zone } from './model/time';
import { ANYONE, barred, closedText, doorOf, type Visitor } from './model/visitor';
import { paintSheet } from './paint/sheet';
import { Plots } from './plots';
import { RunWatch } from './run-watch';
import { SharedViews } from './shared-views';
import { SteeringWatch } from './steering-watch';
import { AlarmBoard } from './alarm-board';
import { AlarmList } from './ui/alarm-list';
import { byId } from './ui/dom';
import { ExportPanel } from './ui/export-panel';
import { GapCard } from './ui/gap-card';
import { GraphPanel } from './ui/graph-panel';
import { commandOf, KeySheet, type Command } from './ui/keys';
import { NoticeBoard } from './ui/notice-board';
import { keepReason, SignIn } from './ui/sign-in';
import { SourcesForm } from './ui/sources-form';
import { SteeringPanel } from './ui/steering-panel';
import { StreamList } from './ui/stream-list';
import { applyTheme, onSystemTheme, otherTheme, readPalette, storedTheme, type Palette } from './ui/theme';
import { TopBar, type Tool } from './ui/top-bar';
import type { ViewFrame } from './wire/frame';
import type { ServerInfo, ServerMessage, Stream, TraceRequest } from './wire/messages';

/** The clock, the connection's wording and the gap list are looked at this often. */
const BEAT_MS = 500;
/** The level of the archive's disk is asked for this often. */
const DISK_MS = 60_000;
/** The address follows what is shown, but not every step of a drag. */
const ADDRESS_MS = 250;
const ONE_PERCENT = 0.01;
/** One press of an arrow key moves by this share of the window. */
const STEP = 0.25;

/** The page. */
export class App {
  readonly #root = document.documentElement;
  readonly #notices = new NoticeBoard();
  readonly #keys = new KeySheet();
  readonly #card = new GapCard(fetchGaps, (stream, hop) => this.#hopOf(stream, hop));
  readonly #live: Live;
  readonly #plots: Plots;
  readonly #shared: SharedViews;
  readonly #list: StreamList;
  readonly #top: TopBar;
  readonly #account: AccountWatch;
  readonly #signIn = new SignIn();
  readonly #sources = new SourcesForm();
  readonly #steering = new SteeringPanel();
  readonly #alarmContext = {
    board: new AlarmBoard(), zone: () => this.#zone, now: () => this.#now(), barred: () => barred(this.#visitor, 'steer', 'some'),
    onPlot: (stream: string, channel: string) => this.#plots.plot([{ stream, channel }], { kind: 'new' }),
    onPanel: () => this.#plots.showAlarms(),
  };
  readonly #alarmList = new AlarmList(this.#alarmContext);
  readonly #export = new ExportPanel({
    seen: () => this.#plots.seen, picture: (what) => this.#picture(what), catalogue: () => this.#byName,
    zone: () => this.#zone, say: (text) => this.#notices.toast(text),
  });
  readonly #runs = new RunWatch({
    now: () => this.#now(), zone: () => this.#zone, say: (text) => this.#notices.toast(text),
    layout: () => this.#plots.layout, stretch: () => this.#plots.stretch, mayMove: () => this.#shared.mayMove,
    show: (run, window) => this.#plots.showRun(run, window), mark: (marks, zero) => this.#plots.markRuns(marks, zero?.startNs ?? null),
  });
  readonly #graph = new GraphPanel({
    catalogue: () => this.#byName, onPlot: (traces) => this.#plots.plot(traces, { kind: 'new' }),
    visitor: () => ({ principal: this.#visitor.principal, barred: barred(this.#visitor, 'derive', 'some') }),
  });
  readonly #changes = new SteeringWatch((marks) => this.#plots.mark(marks));
  #visitor: Visitor = ANYONE;
  #palette: Palette;
  #zone: Zone = 'local';
  #streams: readonly Stream[] = [];
  #byName: ReadonlyMap<string, Stream> = new Map();
  #connection: Connection = { kind: 'connecting' };
  #server: ServerInfo | null = null;
  #clockOffset = 0n;
  #refused: Refused | null = null;
  readonly #stages = new LeadingStages();
  readonly #attacks = new AttackWatch();
  #injecting = false;
  /** The server's reason when it closed the page. */
  #closedBy = '';
  #fresh = isBare(location.search);
  #addressTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    applyTheme(storedTheme());
    this.#palette = readPalette();
    const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
    this.#live = new Live(`${scheme}://${location.host}/api/live`, {
      onConnection: (connection) => this.#onConnection(connection),
      onRetry: () => void this.#enter(),
      onMessage: (message) => this.#onMessage(message),
      onFrame: (frame) => this.#onFrame(frame),
      onPicture: (frame) => this.#plots.onPicture(frame),
      onValues: (frame) => this.#plots.onValues(frame),
      onWaterfall: (frame) => this.#plots.onWaterfall(frame),
      onMalformed: (reason) => this.#notices.toast(reason),
    });
    this.#top = new TopBar({
      onSentence: () => this.#openSentence(),
      onFollow: () => this.#plots.togglePause(),
      onSpan: (span) => this.#plots.span(span),
      onZone: () => this.#run('utc'),
      onInject: (on) => void this.#inject(on),
      onTool: (tool: Tool) => this.#run(tool),
      onList: () => this.#run('list'),
    });
    this.#list = new StreamList({
      onPlot: (traces, how) => this.#plots.plot(traces, how === 'overlay' ? 'active' : { kind: 'new' }),
      onSelect: (stream) => this.#account.select(stream),
      onRemark: (text) => this.#notices.toast(text),
      onDrag: (traces, at, phase) => this.#onDrag(traces, at, phase),
    }, () => this.#palette);
    this.#account = new AccountWatch({
      catalogue: () => this.#byName, now: () => this.#now(), zone: () => this.#zone, hasArchive: () => this.#server?.archive ?? false,
      first: () => this.#plots.activePlot?.traces[0]?.stream ?? this.#streams[0]?.name,
      watch: (stream) => this.#live.watchAccount(stream), onSelect: (stream) => this.#list.select(stream), onGap: (gap) => this.#plots.focusGap(gap),
    });
    this.#plots = new Plots(byId('grid', HTMLDivElement), {
      live: this.#live, card: this.#card, fetchGaps,
      palette: () => this.#palette, zone: () => this.#zone, catalogue: () => this.#byName, alarms: () => this.#alarmContext,
      columns: (widthPx) => this.#shared.columns(widthPx), onChange: () => this.#onPlots(), onExport: () => this.#export.toggle(true), say: (text) => this.#notices.toast(text),
    });
    this.#shared = new SharedViews({
      live: this.#live, plots: this.#plots, now: () => ({ ns: this.#now(), zone: this.#zone }), say: (text) => this.#notices.toast(text),
      onSession: () => this.#onPlots(),
    });
  }

  /** Listens to the user and connects. */
  start(): void {
    this.#loadAddress();
    addEventListener('keydown', (event) => this.#onKey(event));
    addEventListener('popstate', () => this.#loadAddress());
    document.addEventListener('visibilitychange', () => this.#onVisibility());
    onSystemTheme(() => {
      applyTheme(storedTheme());
      this.#retheme();
    });
    addEventListener('beforeprint', () => this.#print(true));
    addEventListener('afterprint', () => this.#print(false));
    setInterval(() => { if (!document.hidden) this.#beat(); }, BEAT_MS);
    setInterval(() => void this.#askDisk(), DISK_MS);
    this.#onVisibility();
    void this.#enter();
    this.#beat();
  }

  /** Connects a visitor that may read; others would be refused again and again. The permission may have ended with the last connection. */
  async #enter(): Promise<void> {
    await this.#ask();
    if (doorOf(this.#visitor).kind === 'open') this.#live.connect();
  }

  #loadAddress(): void {
    if (this.#shared.load(location.search)) return;
    this.#plots.load({ ...readLayout(location.search), run: shownRun(location.search) });
    const words = leftOut(location.search);
    if (words !== '') this.#notices.toast(words);
  }

  /** Requests over HTTP what the socket does not send: the permission, and whether loss can be injected. */
  async #ask(): Promise<void> {
    try {
      this.#admit(await fetchVisitor());
      if (doorOf(this.#visitor).kind === 'sign-in') return this.#say();
      const { server, streams } = await fetchStreams();
      this.#refused = null;
      this.#hello(server);
      this.#onStreams(streams);
      const { available, probability } = await fetchInjection();
      this.#injecting = probability > 0;
      this.#top.showInjection(available, this.#injecting, barred(this.#visitor, 'steer', 'all'));
    } catch (error) {
      // Anything else shows as a lost connection, which the socket reports with its own wording.
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) this.#refused = error;
    }
    this.#beat();
  }

  /** Shows who the visitor is, and disables what it may not do. */
  #admit(visitor: Visitor): void {
    this.#visitor = visitor;
    // Nothing of a visitor stays on a page whose session has ended.
    if (doorOf(visitor).kind === 'sign-in' && this.#streams.length > 0) {
      keepReason(closedText(this.#closedBy));
      return location.reload();
    }
    this.#root.toggleAttribute('data-insecure', visitor.insecure);
    this.#signIn.show(visitor);
    if (doorOf(visitor).kind !== 'open') this.#live.disconnect();
    this.#steering.bar(barred(visitor, 'read', 'some'));
    this.#shared.bar(barred(visitor, 'derive', 'some'));
    this.#sources.bar({ join: barred(visitor, 'steer', 'some'), derive: barred(visitor, 'derive', 'some') });
  }

  /** The socket tells of the server once; its disk fills up meanwhile. */
  async #askDisk(): Promise<void> {
    if (document.hidden || this.#server?.archive !== true) return;
    try {
      this.#hello((await fetchStreams()).server);
    } catch {
      // A lost connection is told by the socket.
    }
  }

  #onConnection(connection: Connection): void {
    this.#connection = connection;
    this.#root.dataset['connection'] = connection.kind;
    if (connection.kind !== 'connecting') this.#shared.onConnection(connection.kind === 'open');
    if (connection.kind === 'open') this.#runs.onConnection();
    if (connection.kind === 'waiting') {
      this.#plots.onDisconnect();
      this.#closedBy = connection.reason;
    }
    this.#beat();
  }

  #onMessage(message: ServerMessage): void {
    switch (message.type) {
      case 'hello': return this.#hello(message.server);
      case 'streams': return this.#onStreams(message.streams);
      case 'account': return this.#account.take(message.account);
      case 'alarms': return this.#alarmContext.board.take(message.news);
      case 'runs': return this.#runs.onNews();
      case 'note':
        if (message.level === 'warn') this.#shared.onWarning(message.text);
        return this.#notices.toast(message.text);
      case 'browser': return this.#account.takeLoss(message.loss);
      case 'unknown': return undefined;
      default: return this.#shared.onMessage(message);
    }
  }

  #hello(server: ServerInfo): void {
    this.#server = server;
    if (server.nowNs > 0n) this.#clockOffset = server.nowNs - BigInt(Date.now()) * 1_000_000n;
    this.#showNotice();
  }

  #onStreams(streams: readonly Stream[]): void {
    this.#streams = streams;
    this.#attacks.take(streams, performance.now());
    this.#byName = new Map(streams.map((stream) => [stream.name, stream]));
    this.#list.show(streams);
    this.#plots.onCatalogue();
    // An address without plots shows some by default: a page full of signals is more useful than an empty one.
    if (this.#fresh && streams.length > 0) {
      this.#fresh = false;
      for (const traces of firstPlots(streams)) this.#plots.plot(traces, { kind: 'new' });
      this.#plots.show(0);
    }
    this.#account.onCatalogue();
    this.#say();
    this.#showNotice();
  }

  #onFrame(frame: ViewFrame): void {
    this.#clockOffset = frame.now - BigInt(Date.now()) * 1_000_000n;
    this.#plots.onFrame(frame);
  }

  /** An earlier hop of a relayed stream by the names in the catalogue. */
  #hopOf(stream: string, hop: number): Hop | null {
    const known = this.#byName.get(stream);
    return known === undefined ? null : hopsOf({ hop: known.stations.length, hops: [], relay: null }, known)[hop] ?? null;
  }

  /** The server's time now. */
  #now(): bigint {
    return BigInt(Date.now()) * 1_000_000n + this.#clockOffset;
  }

  #beat(): void {
    this.#runs.look();
    void this.#changes.look(this.#byName.keys(), this.#plots.stretch);
    this.#alarmList.show();
    this.#plots.beat();
    this.#top.showClock(this.#now(), this.#zone);
    this.#say();
    this.#showNotice();
  }

  #standing(): Standing {
    const { kind } = this.#connection;
    const waiting = this.#connection.kind === 'waiting' ? this.#connection : null;
    return {
      connection: kind,
      lostForMs: waiting === null ? 0 : Date.now() - waiting.sinceMs,
      retryInMs: waiting === null ? 0 : Math.max(0, waiting.retryAtMs - Date.now()),
      server: this.#server,
      refused: this.#refused,
      streams: this.#streams.length,
      plots: this.#plots.layout.plots.length,
      view: this.#shared.notice,
    };
  }

  #say(): void {
    if (doorOf(this.#visitor).kind === 'sign-in') return this.#top.say('quiet', 'Sign in to see the streams');
    const said = connectionSentence(this.#standing()) ?? sentence(this.#streams, (stream) => this.#stages.of(stream), this.#alarms());
    this.#top.say(said.mood, said.text);
  }

  #alarms(): Alarms {
    return { disk: this.#server?.archiveDisk ?? null, attack: this.#attacks.worst(this.#streams, performance.now()) };
  }

  #showNotice(): void {
    this.#notices.show(noticeOf(this.#standing()));
  }

  #openSentence(): void {
    const worst = this.#alarms().attack?.stream ?? worstStream(this.#streams) ?? this.#streams.find((stream) => stream.lostLastHour > 0);
    if (worst !== undefined) {
      this.#account.select(worst.name);
      this.#list.select(worst.name);
    }
    this.#account.toggle(true);
  }

  async #inject(on: boolean): Promise<void> {
    try {
      const { probability } = await setInjection(on ? ONE_PERCENT : 0);
      this.#injecting = probability > 0;
    } catch (error) {
      this.#notices.toast(error instanceof Refused ? error.message : 'The server did not answer');
    }
    this.#top.showInjection(true, this.#injecting, barred(this.#visitor, 'steer', 'all'));
  }

  #onDrag(traces: readonly TraceRequest[], at: { x: number; y: number }, phase: 'move' | 'drop' | 'cancel'): void {
    const words = traces.map((trace) => trace.stream).find(() => true) ?? '';
    this.#notices.dragLabel(phase === 'move' ? words : '', at);
    const target = this.#plots.aim(phase === 'cancel' ? null : at);
    if (phase === 'move') return;
    this.#plots.aim(null);
    if (target !== null && phase === 'drop') this.#plots.plot(traces, target);
  }

  /** The content of the plots changed: address, list and top bar follow. */
  #onPlots(): void {
    const { layout } = this.#plots;
    this.#shared.onLayout(layout);
    this.#runs.onLayout();
    this.#top.showWindow(layout.window, this.#zone);
    this.#root.toggleAttribute('data-paused', layout.window.endNs !== null);
    this.#list.setPlotted(new Set(layout.plots.flatMap((plot) => plot.traces.map((trace) => trace.stream))));
    this.#showNotice();
    clearTimeout(this.#addressTimer);
    if (!this.#fresh) this.#addressTimer = setTimeout(() => this.#writeAddress(), ADDRESS_MS);
  }

  #writeAddress(): void {
    history.replaceState(null, '', `?${this.#shared.query ?? this.#query()}`);
  }

  #query(): string {
    const { layout } = this.#plots;
    return writeRunLink(writeLayout(layout), { choice: layout.run?.choice ?? null, relative: layout.run?.relative ?? false }, layout.run?.whole === true);
  }

  #onVisibility(): void {
    this.#live.setVisible(!document.hidden);
    if (document.hidden) return;
    this.#plots.wake();
    this.#beat();
  }

  #onKey(event: KeyboardEvent): void {
    const command = commandOf(event);
    if (command === null) return;
    event.preventDefault();
    this.#run(command);
  }

  #run(command: Command): void {
    switch (command) {
      case 'follow': return this.#plots.follow();
      case 'pause': return this.#plots.togglePause();
      case 'earlier': return this.#plots.pan(-STEP);
      case 'later': return this.#plots.pan(STEP);
      case 'zoom-in': return this.#plots.zoom(0.5, 0.5);
      case 'zoom-out': return this.#plots.zoom(2, 0.5);
      case 'next-gap': return void this.#plots.stepGap('next');
      case 'previous-gap': return void this.#plots.stepGap('previous');
      case 'next-plot': return this.#plots.step(1);
      case 'previous-plot': return this.#plots.step(-1);
      case 'axis': return this.#plots.nextAxis();
      case 'next-plane': return this.#plots.stepPlane(1);
      case 'previous-plane': return this.#plots.stepPlane(-1);
      case 'single': return this.#plots.single();
      case 'close-plot': return this.#plots.close();
      case 'search': return this.#focusSearch();
      case 'account': return this.#account.toggle();
      case 'list': return void this.#root.toggleAttribute('data-list-toggled');
      case 'cursors': return this.#plots.toggleCursors();
      case 'utc': return this.#setZone(this.#zone === 'utc' ? 'local' : 'utc');
      case 'theme': return this.#changeTheme();
      case 'wall': return this.#toggleWall();
      case 'share': return void this.#share();
      case 'runs': return this.#runs.toggle();
      case 'next-run': return void this.#runs.step('next');
      case 'previous-run': return void this.#runs.step('previous');
      case 'run-time': return this.#runs.toggleRelative();
      case 'run-marks': return this.#runs.toggleMarks();
      case 'views': return this.#shared.toggle();
      case 'graph': return this.#graph.toggle();
      case 'alarms': return this.#alarmList.toggle();
      case 'export': return this.#export.toggle();
      case 'keys': return void this.#keys.toggle();
      case 'escape': return this.#escape();
    }
  }

  #focusSearch(): void {
    // A folded-away list unfolds for the one who searches.
    if (byId('list', HTMLElement).offsetWidth === 0) this.#root.toggleAttribute('data-list-toggled');
    this.#list.focus();
  }

  #setZone(zone: Zone): void {
    this.#zone = zone;
    this.#plots.wake();
    this.#onPlots();
    this.#beat();
  }

  #changeTheme(): void {
    applyTheme(otherTheme());
    this.#retheme();
  }

  #toggleWall(): void {
    this.#root.toggleAttribute('data-wall');
    this.#retheme();
  }

  #print(on: boolean): void {
    this.#root.toggleAttribute('data-printing', on);
    this.#retheme();
    this.#plots.renderNow();
  }

  /** Draws plots in ink on white for a picture, and then as they were: nothing of that is seen. */
  #picture(what: 'plot' | 'page'): HTMLCanvasElement | null {
    const now = this.#plots.stretch;
    if (now === null) return null;
    this.#print(true);
    const { chart } = this.#palette;
    const { zero } = this.#runs;
    const since = zero === null ? [] : [`t = 0 at the start of run ${zero.id}, ${full(zero.startNs, this.#zone)}`];
    const foot = [...since, `${full(now.from, this.#zone)} to ${full(now.from + now.spanNs, this.#zone)} · Tallycast`];
    const canvas = paintSheet(this.#plots.pictures(what), foot, { accent: this.#palette.accent, ink: chart.ink, dim: chart.axis, font: chart.font, ratio: devicePixelRatio });
    this.#print(false);
    return canvas;
  }

  #retheme(): void {
    this.#palette = readPalette();
    this.#plots.retheme();
    this.#list.repaint();
  }

  async #share(): Promise<void> {
    this.#writeAddress();
    try {
      await navigator.clipboard.writeText(location.href);
      this.#notices.toast('Address copied: it opens this view in any browser');
    } catch {
      this.#notices.toast('The address bar holds this view; the browser does not allow copying here');
    }
  }

  #escape(): void {
    if (!byId('keys', HTMLDivElement).hidden) this.#keys.toggle(false);
    else if (this.#shared.close() || this.#runs.close() || this.#graph.close()) return;
    else if (this.#alarmList.isOpen) this.#alarmList.toggle(false);
    else if (this.#export.isOpen) this.#export.toggle(false);
    else if (!byId('gap-card', HTMLDivElement).hidden) this.#plots.unfocus();
    else if (this.#account.closeFindings()) return;
    else if (this.#plots.layout.cursors !== null) this.#plots.toggleCursors();
    else if (this.#plots.layout.single !== null) this.#plots.single();
    else if (this.#account.isOpen) this.#account.toggle(false);
    else this.#root.removeAttribute('data-wall');
  }
}
