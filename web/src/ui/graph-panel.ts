/**
 * The editor of the processing graph: the drawing, the form of one node, and what applying the draft would do.
 *
 * It covers a part of the page and blocks nothing. `model/graph-draft.ts` decides; this file asks the server and shows. The draft
 * outlasts a lost connection and a reload of the page.
 */
import { Refused } from '../api';
import { applyGraph, checkGraph, fetchGraph, fetchKinds, undoGraph } from '../graph-api';
import { add, begin, bodyOf, changeParts, differenceOf, edit, inputsOf, isChanged, keep, nameOf, readDifference, rebase, remove, restore, runningNode, settle, type Difference, type Draft, type DraftNode, type Graph } from '../model/graph-draft';
import { newNode, suggestName, type Kind } from '../model/graph-kinds';
import { layoutOf, sourceOf } from '../model/graph-layout';
import { faresOf, lossText, markOf, otherProblems, problemsOf, readPlanned, readProblems, shortLoss, streamFacts, type KnownStream, type Problem } from '../model/graph-state';
import { count } from '../model/quantity';
import { text, type Fields } from '../wire/json';
import type { Stream, TraceRequest } from '../wire/messages';
import { byId, el, iconButton, panelButton, setAttribute, setText } from './dom';
import { GraphDrawing, type BoxContent } from './graph-drawing';
import { GraphForm } from './graph-form';

/** Services that the editor needs from the page. */
export interface GraphContext {
  catalogue(): ReadonlyMap<string, Stream>;
  /** The visitor's name, and why it may change nothing, or an empty text. */
  visitor(): { readonly principal: string; readonly barred: string };
  onPlot(traces: readonly TraceRequest[]): void;
}

/** The states of the nodes are asked for this often while the editor is open. */
const PERIOD_MS = 1_000;
const PRECONDITION_FAILED = 412;
const KEPT = 'tallycast-graph-draft';

const nodeKey = (id: number): string => `node ${id}`;

/** The editor. */
export class GraphPanel {
  readonly #element = byId('graph', HTMLElement);
  readonly #facts = el('p', { class: 'graph-origin' });
  readonly #news = el('div', { class: 'graph-news', role: 'status', hidden: true });
  readonly #whole = el('ul', { class: 'graph-problems', 'aria-label': 'Problems of the graph' });
  readonly #drawing = new GraphDrawing((key) => this.#choose(key));
  readonly #form: GraphForm;
  readonly #side = el('section', { class: 'graph-side', 'aria-label': 'The chosen node' });
  readonly #title = el('h3');
  readonly #nodeState = el('p', { class: 'graph-node-state' });
  readonly #problems = el('ul', { class: 'graph-problems', 'aria-label': 'Problems of this node' });
  readonly #clash = el('div', { class: 'graph-clash', hidden: true });
  readonly #tools = el('div', { class: 'graph-tools' });
  readonly #hint = el('p', { class: 'graph-hint' });
  readonly #difference = el('p', { class: 'graph-difference', role: 'status' });
  readonly #note = el('p', { class: 'graph-note', role: 'status' });
  readonly #apply = button('Apply', 'submit-button', () => void this.#send());
  readonly #discard = button('Discard draft', '', () => this.#drop());
  readonly #undo = button('Undo last change', '', () => void this.#takeBack());
  readonly #add = button('+ Node', '', () => this.#addNode());
  readonly #opener = panelButton('graph', 'graph', 'Processing graph (p)', () => this.toggle());
  #kinds: readonly Kind[] = [];
  #draft: Draft | null = null;
  #found: readonly Problem[] = [];
  #planned: readonly KnownStream[] = [];
  /** What the server says that the draft changes; null while it is not known. */
  #told: Difference | null = null;
  #chosen = '';
  #drawn = '';
  #busy = false;
  #isLost = false;
  /** Number of the newest check, and of the newest look at the graph: an older answer is no news. */
  #checks = 0;
  #looks = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #before: Element | null = null;

  constructor(readonly context: GraphContext) {
    this.#form = new GraphForm({
      kinds: () => this.#kinds, streams: () => this.#known(), readOnly: () => context.visitor().barred !== '',
      onChange: (id, value) => this.#change((draft) => edit(draft, id, value)),
      onKind: (id, kind) => this.#setKind(id, kind),
    });
    this.#side.append(el('header', { class: 'graph-side-head' }, this.#title, iconButton('close', 'Close this node', () => this.#choose(''))),
      this.#nodeState, this.#clash, this.#problems, this.#form.element, this.#tools);
    this.#element.append(
      el('header', { class: 'graph-head' }, el('h2', { text: 'Processing graph' }), this.#facts, this.#add, iconButton('close', 'Close the graph (p)', () => this.toggle(false))),
      this.#news, this.#whole,
      el('div', { class: 'graph-body' }, el('div', { class: 'graph-view' }, this.#drawing.element, this.#hint), this.#side),
      el('footer', { class: 'graph-foot' }, el('div', { class: 'graph-said' }, this.#difference, this.#note), this.#undo, this.#discard, this.#apply));
    this.#element.addEventListener('keydown', (event) => this.#onKey(event));
  }

  /** Whether it shows. */
  get isOpen(): boolean {
    return !this.#element.hidden;
  }

  /** Shows or hides it. */
  toggle(on = !this.isOpen): void {
    if (on === this.isOpen) return;
    this.#element.hidden = !on;
    setAttribute(this.#opener, 'aria-expanded', String(on));
    clearInterval(this.#timer);
    if (!on) {
      if (this.#before instanceof HTMLElement) this.#before.focus();
      return;
    }
    this.#before = document.activeElement;
    this.#timer = setInterval(() => { if (!document.hidden) void this.#look(); }, PERIOD_MS);
    this.#render();
    this.#element.focus();
    void this.#look();
  }

  /** Closes it; returns false if it was not open. */
  close(): boolean {
    if (!this.isOpen) return false;
    this.toggle(false);
    return true;
  }

  #onKey(event: KeyboardEvent): void {
    if (event.key === 'Escape') {
      event.stopPropagation();
      if (this.#chosen !== '') this.#choose('');
      else this.toggle(false);
    } else if (event.target !== this.#element || !['p', '?'].includes(event.key)) {
      // Letters and arrow keys in it are its own.
      event.stopPropagation();
      if (event.key === 'p' && event.target instanceof HTMLButtonElement) this.toggle(false);
    }
  }

  /** Asks for the graph as it is now. */
  async #look(): Promise<void> {
    if (this.#busy) return;
    const look = (this.#looks += 1);
    try {
      if (this.#kinds.length === 0) this.#kinds = await fetchKinds();
      const graph = await fetchGraph();
      if (look !== this.#looks) return;
      this.#isLost = false;
      this.#take(graph);
    } catch (error) {
      if (look !== this.#looks) return;
      if (error instanceof Refused) this.#say(error.status === 404 ? 'This monitor is older than the editor: tallycast graph changes its graph.' : error.text);
      else this.#isLost = true;
      this.#render();
    }
  }

  /** Takes the graph that runs: a draft stays on top of it. */
  #take(graph: Graph): void {
    const draft = this.#draft;
    if (draft === null) {
      this.#draft = restore(stored(), this.context.visitor().principal, graph) ?? begin(graph);
      if (isChanged(this.#draft)) void this.#check();
    } else if (draft.base.revision !== graph.revision || draft.base.nodes.length !== graph.nodes.length) {
      this.#draft = rebase(draft, graph);
      if (!isChanged(this.#draft)) this.#forget();
      else void this.#check();
    } else this.#draft = { ...draft, base: graph };
    this.#keep();
    this.#render();
  }

  #change(how: (draft: Draft) => Draft): void {
    if (this.#draft === null || this.context.visitor().barred !== '') return;
    this.#draft = how(this.#draft);
    this.#told = null;
    this.#say('');
    this.#keep();
    this.#render();
    void this.#check();
  }

  /** Asks the server what the draft would change, and for all of its problems. */
  async #check(): Promise<void> {
    const [check, draft] = [(this.#checks += 1), this.#draft];
    if (draft === null || this.context.visitor().barred !== '') return;
    if (!isChanged(draft)) return this.#forget();
    try {
      const answer = await checkGraph(bodyOf(draft));
      if (check !== this.#checks) return;
      [this.#told, this.#planned, this.#found] = [readDifference(answer), readPlanned(answer), []];
    } catch (error) {
      if (check !== this.#checks) return;
      if (error instanceof Refused) [this.#told, this.#found] = [null, readProblems(error.said)];
      else this.#isLost = true;
    }
    this.#render();
  }

  #forget(): void {
    this.#checks += 1;
    [this.#told, this.#found, this.#planned] = [null, [], []];
    this.#render();
  }

  async #send(): Promise<void> {
    const draft = this.#draft;
    if (draft === null) return;
    await this.#ask(() => applyGraph(bodyOf(draft), draft.base.revision), 'Applied');
  }

  async #takeBack(): Promise<void> {
    const draft = this.#draft;
    if (draft === null) return;
    await this.#ask(() => undoGraph(draft.base.revision), 'Taken back');
  }

  /** Has the server change the graph, and shows what came of it. */
  async #ask(change: () => Promise<unknown>, done: string): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    this.#looks += 1;
    this.#render();
    let said = '';
    try {
      const answer = await change();
      const parts = changeParts(readDifference(answer));
      said = `${done}: ${parts.length === 0 ? 'nothing changed' : parts.join('; ')}.`;
      this.#checks += 1;
      [this.#told, this.#found] = [null, []];
      // What was applied comes back with the defaults of its kinds.
      if (done === 'Applied') [this.#draft, this.#chosen] = [null, ''];
      this.#keep();
    } catch (error) {
      if (!(error instanceof Refused)) {
        this.#isLost = true;
        said = 'The server did not answer. The draft is kept; whether the change was made shows when the server answers again.';
      } else if (error.status === PRECONDITION_FAILED) said = 'Not applied: the graph was changed meanwhile. Look at the change, and apply the draft again.';
      else {
        this.#found = readProblems(error.said);
        said = 'Not applied: nothing has changed.';
      }
    }
    this.#busy = false;
    this.#say(said);
    await this.#look();
    this.#render();
  }

  #drop(): void {
    if (this.#draft === null) return;
    this.#draft = begin(this.#draft.base);
    this.#chosen = '';
    this.#say('');
    this.#keep();
    this.#forget();
  }

  #keep(): void {
    const draft = this.#draft;
    try {
      if (draft === null || !isChanged(draft)) sessionStorage.removeItem(KEPT);
      else sessionStorage.setItem(KEPT, keep(draft, this.context.visitor().principal));
    } catch {
      // A browser without storage keeps it while the page is open.
    }
  }

  #node(key = this.#chosen): DraftNode | undefined {
    return this.#draft?.nodes.find(({ id }) => nodeKey(id) === key);
  }

  /** Streams of the bus and of the draft, with their channels. */
  #known(): readonly KnownStream[] {
    const planned = new Map(this.#planned.map((stream) => [stream.name, stream]));
    const bus = [...this.context.catalogue().values()].filter(({ name }) => !planned.has(name));
    const made = (this.#draft?.nodes ?? []).map(({ value }) => nameOf(value)).filter((name) => name !== '' && !planned.has(name) && !this.context.catalogue().has(name));
    return [...planned.values(), ...bus.map((stream) => ({ name: stream.name, rate: stream.nominalRate, channels: stream.channels })), ...made.map((name) => ({ name, rate: 0, channels: [] }))];
  }

  #addNode(): void {
    const draft = this.#draft;
    const kind = this.#kinds.find((each) => each.kind === 'thin') ?? this.#kinds[0];
    if (draft === null || kind === undefined) return;
    const chosen = this.#node();
    const stream = chosen !== undefined ? nameOf(chosen.value) : sourceOf(this.#chosen) ?? '';
    const value = this.#make(kind, stream === '' ? [...this.context.catalogue().values()].find(({ derived }) => !derived)?.name ?? '' : stream);
    this.#change((before) => add(before, value));
    this.#choose(nodeKey(draft.nextId));
    this.#form.element.querySelector('input')?.focus();
  }

  #make(kind: Kind, stream: string, before: Fields = {}, name = ''): Fields {
    const taken = new Set([...(this.#draft?.nodes ?? []).map(({ value }) => nameOf(value)), ...this.context.catalogue().keys()]);
    const channels = this.#known().find((each) => each.name === stream)?.channels.map((channel) => channel.name) ?? [];
    return newNode(kind, name === '' ? suggestName(stream, kind.kind, taken) : name, { stream, channels }, before);
  }

  /** Gives a node another kind: settings that both have stay, and so does a name that was chosen. */
  #setKind(id: number, kind: Kind): void {
    const node = this.#node(nodeKey(id));
    if (node === undefined) return;
    const [name, old, stream] = [nameOf(node.value), text(node.value, 'kind'), inputsOf(node.value)[0] ?? ''];
    const suggested = node.was === null && (name === '' || name.startsWith(`${stream}/${old}`) || name.startsWith(`made/${old}`));
    const value = this.#make(kind, stream, node.value, suggested ? '' : name);
    this.#change((draft) => edit(draft, id, value));
  }

  #choose(key: string): void {
    const before = this.#chosen;
    this.#chosen = key;
    this.#render();
    if (key === '') this.#drawing.focus(before);
    else this.#drawing.reveal(key);
  }

  #say(said: string): void {
    setText(this.#note, said);
  }

  #render(): void {
    const draft = this.#draft;
    const { barred } = this.context.visitor();
    if (!this.isOpen) return;
    this.#element.toggleAttribute('data-barred', barred !== '');
    this.#add.hidden = barred !== '';
    setText(this.#facts, draft === null ? (this.#isLost ? 'No answer from the server.' : 'Asking for the graph …') : originText(draft.base, barred));
    if (draft === null) return;
    this.#renderNews(draft);
    list(this.#whole, [...(draft.base.problem === '' ? [] : [draft.base.problem]), ...otherProblems(draft, this.#found)]);
    this.#renderDrawing(draft);
    this.#renderSide(draft);
    this.#renderFoot(draft, barred);
  }

  #renderNews(draft: Draft): void {
    this.#news.hidden = draft.news === '';
    if (this.#news.dataset['text'] === draft.news) return;
    this.#news.dataset['text'] = draft.news;
    this.#news.replaceChildren(el('p', { text: `${draft.news} The drawing shows it; your changes are kept as a draft on top.` }), el('div', { class: 'graph-tools' },
      button('Keep my draft', '', () => this.#change((before) => ({ ...before, news: '' }))), button('Take theirs', '', () => this.#drop())));
  }

  #renderDrawing(draft: Draft): void {
    const layout = layoutOf(draft.nodes.map(({ id, value }) => ({ key: nodeKey(id), stream: nameOf(value), inputs: inputsOf(value) })));
    const known = new Map(this.#known().map((stream) => [stream.name, stream]));
    const contents = new Map<string, BoxContent>();
    for (const { source, key } of layout.places) {
      if (source === null) continue;
      const stream = this.context.catalogue().get(source);
      contents.set(key, {
        title: source, kind: '', facts: streamFacts(known.get(source)), reads: '', problems: 0, mark: 'stays',
        mood: stream === undefined ? 'quiet' : stream.health === 'ok' ? 'good' : 'warn', state: stream === undefined ? 'not known yet' : stream.health === 'ok' ? 'sends' : stream.health,
        losses: stream !== undefined && stream.lostLastHour > 0 ? `${count(stream.lostLastHour)} lost this hour` : '',
      });
    }
    for (const node of draft.nodes) {
      const name = nameOf(node.value);
      const running = runningNode(draft.base, node.was);
      const fares = faresOf(running, this.context.catalogue().get(node.was ?? name));
      contents.set(nodeKey(node.id), {
        title: name, kind: text(node.value, 'kind'), facts: streamFacts(known.get(name)), reads: `reads ${inputsOf(node.value).join(', ')}`,
        state: fares.text, mood: fares.mood, mark: markOf(draft, node), losses: shortLoss(running), problems: problemsOf(node, this.#kinds, this.#found).length,
      });
    }
    this.#drawing.show(layout, contents, this.#chosen);
    setText(this.#hint, draft.nodes.length > 0 ? '' : 'No node computes anything yet. A node reads streams, and publishes one under its own name: thinned, filtered, combined, watched.');
  }

  #renderSide(draft: Draft): void {
    const node = this.#node();
    const source = sourceOf(this.#chosen);
    this.#side.hidden = node === undefined && source === null;
    this.#element.toggleAttribute('data-chosen', !this.#side.hidden);
    if (node === undefined && source === null) return;
    const { barred } = this.context.visitor();
    const name = node === undefined ? source ?? '' : nameOf(node.value);
    const stream = this.context.catalogue().get(name);
    setText(this.#title, name === '' ? '(no name)' : name);
    this.#form.element.hidden = node === undefined;
    if (node === undefined) {
      setText(this.#nodeState, [stream === undefined ? 'Not known yet: nodes that read it begin with it.' : stream.health, streamFacts(this.#known().find((each) => each.name === name))].join(' · '));
      list(this.#problems, []);
      this.#clash.hidden = true;
    } else {
      const running = runningNode(draft.base, node.was);
      const facts = streamFacts(this.#known().find((each) => each.name === name));
      setText(this.#nodeState, [faresOf(running, this.context.catalogue().get(node.was ?? name)).text, facts, running === undefined ? '' : `${count(running.offered)} samples`, lossText(running)].filter((part) => part !== '').join(' · '));
      list(this.#problems, problemsOf(node, this.#kinds, this.#found));
      this.#renderClash(node);
      this.#form.show(node);
    }
    const key = `${this.#chosen} ${name} ${stream !== undefined} ${node?.removed} ${barred}`;
    if (this.#drawn === key) return;
    this.#drawn = key;
    const traces = (stream?.channels ?? []).slice(0, 4).map((channel) => ({ stream: name, channel: channel.name }));
    this.#tools.replaceChildren(
      ...(traces.length === 0 ? [] : [button('Plot', '', () => this.context.onPlot(traces))]),
      ...(barred !== '' || name === '' ? [] : [button('+ Node that reads it', '', () => this.#addNode())]),
      ...(barred !== '' || node === undefined ? [] : node.removed ? [button('Keep it', '', () => this.#change((before) => remove(before, node.id, false)))]
        : [button('Remove', 'graph-danger', () => this.#change((before) => remove(before, node.id, true)))]));
  }

  #renderClash(node: DraftNode): void {
    const { theirs } = node;
    this.#clash.hidden = theirs === undefined;
    const shown = JSON.stringify([node.id, theirs]);
    if (theirs === undefined || this.#clash.dataset['of'] === shown) return;
    this.#clash.dataset['of'] = shown;
    const said = theirs === null ? 'Another visitor ended this node.' : 'Another visitor changed this node, too:';
    this.#clash.replaceChildren(el('p', { text: said }), ...(theirs === null ? [] : [el('code', { text: Object.entries(theirs).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join('\n') })]),
      el('div', { class: 'graph-tools' }, button('Keep mine', '', () => this.#change((draft) => settle(draft, node.id, 'mine'))), button('Take theirs', '', () => this.#change((draft) => settle(draft, node.id, 'theirs')))));
  }

  #renderFoot(draft: Draft, barred: string): void {
    const changed = isChanged(draft);
    const difference = this.#told ?? differenceOf(draft);
    const faulty = draft.nodes.some((node) => problemsOf(node, this.#kinds, this.#found).length > 0) || this.#found.length > 0;
    const kept = difference.kept.length;
    const continues = kept === 0 ? [] : [kept === 1 ? '1 node continues' : `${count(kept)} nodes continue`];
    const parts = changed ? [...changeParts(difference), ...continues] : [];
    const why = barred !== '' ? barred : this.#isLost ? 'No answer from the server: the draft is kept.' : faulty ? 'The problems come first.' : '';
    setText(this.#difference, [...(changed ? [`Applying: ${parts.join('; ')}.`] : []), ...(barred === '' && changed && !this.#isLost && faulty ? ['It has problems.'] : []), ...(this.#isLost ? ['No answer from the server: the draft is kept, and states are old.'] : [])].join(' '));
    for (const control of [this.#apply, this.#discard, this.#undo]) control.hidden = barred !== '';
    this.#apply.disabled = why !== '' || !changed || this.#busy;
    setAttribute(this.#apply, 'title', why === '' ? null : why);
    this.#discard.disabled = !changed || this.#busy;
    this.#undo.disabled = draft.base.undo === 0 || this.#busy || this.#isLost;
    setAttribute(this.#undo, 'title', draft.base.undo === 0 ? 'There is no earlier graph' : `Returns to the graph before the last change; ${count(draft.base.undo)} are kept`);
  }
}

function originText(graph: Graph, barred: string): string {
  const from = { settings: 'from the settings', file: 'from the file of --graph', kept: 'applied before the last restart', applied: 'applied since the start' }[graph.from];
  const facts = [`revision ${graph.revision}`, ...(from === undefined ? [] : [from])].join(', ');
  return barred === '' ? facts : `${facts} · Only to look at: ${barred}`;
}

const button = (words: string, kind: string, act: () => void): HTMLButtonElement =>
  el('button', { type: 'button', class: `word-button graph-button ${kind}`.trim(), text: words, on: { click: act } });

/** Shows lines; each may have a second one with what helps. */
function list(element: HTMLElement, lines: readonly string[]): void {
  element.hidden = lines.length === 0;
  const written = lines.join('\n\n');
  if (element.dataset['lines'] === written) return;
  element.dataset['lines'] = written;
  element.replaceChildren(...lines.map((line) => el('li', { text: line })));
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
