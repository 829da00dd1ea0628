/**
 * Shared views on this page: connects what `model/shared-view.ts` decides with the connection, the plots, the top bar and the panel.
 */
import type { Live } from './live';
import type { Layout } from './model/layout';
import type { Notice } from './model/notices';
import { fieldsOf, keepIds, merged, newId, shownOf, type Shown } from './model/shared-fields';
import { columnStep, nameOfTitle, readLink, writeLink, type Link } from './model/shared-link';
import { ALONE, hindrance, step, wantsFlush, type Session, type SessionEvent } from './model/shared-view';
import { chipOf, viewNotice, type ChipAction } from './model/shared-words';
import type { Zone } from './model/time';
import type { Plots } from './plots';
import { SharedBar } from './ui/shared-bar';
import { words } from './ui/steering-panel';
import { ViewsPanel, type ViewsAction } from './ui/views-panel';
import { deleteView, fetchView, fetchViews, saveView } from './views-api';
import type { Fields } from './wire/json';
import type { SharedEntry, SharedMessage } from './wire/shared-view';

/** Services that shared views need from the page. */
export interface SharedContext {
  readonly live: Live;
  readonly plots: Plots;
  now(): { readonly ns: bigint; readonly zone: Zone };
  /** A short remark for the user. */
  say(text: string): void;
  /** The page stands otherwise to its view: address and notice change. */
  onSession(): void;
}

/** Changes of a drag are joined: twenty edits a second are a smooth motion for those who follow. */
const FLUSH_MS = 50;

/** Shared views. */
export class SharedViews {
  readonly #bar: SharedBar;
  readonly #panel: ViewsPanel;
  #session: Session = ALONE;
  #barred = '';
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly context: SharedContext) {
    this.#bar = new SharedBar({ onPanel: () => this.toggle(), onAction: (action) => this.#act(action) });
    this.#panel = new ViewsPanel({
      onAction: (action) => this.#act(action),
      onNotes: (text) => this.#take({ type: 'text', field: 'notes', text }),
      onTitle: (text) => this.#take({ type: 'text', field: 'title', text }),
      fetch: fetchViews,
      follow: (name) => this.#take({ type: 'follow', target: { kind: 'view', name } }),
      copy: (name) => this.#copy(name),
      remove: deleteView,
      save: (title, replaced) => this.#save(title, replaced),
      now: () => context.now(),
      onClosed: () => {
        this.#bar.expand(false);
        this.#bar.opener.focus();
      },
    });
    this.#show();
  }

  /** What an address says of shared views is done; returns false if it says nothing. */
  load(query: string): boolean {
    const link: Link = readLink(query);
    if (link.kind === 'none') {
      this.#take({ type: 'forget' });
      return false;
    }
    if (link.kind === 'fork') this.#copy(link.name).catch((error: unknown) => this.context.say(`The view ${link.name} cannot be copied: ${words(error)}`));
    else this.#take({ type: 'follow', target: link });
    return true;
  }

  /** The query of this page's address, or null if its own layout makes it. */
  get query(): string | null {
    const session = this.#session;
    return session.kind === 'joining' || session.kind === 'following' || session.kind === 'refused' ? writeLink(session.target) : null;
  }

  /** Whether the page may move its plots by itself: not where others decide what it shows. */
  get mayMove(): boolean {
    const session = this.#session;
    return session.kind !== 'following' || (session.online && session.settled && hindrance(session) === '');
  }

  /** What is said in place of plots, or null. */
  get notice(): Notice | null {
    return viewNotice(this.#session);
  }

  /** Returns the columns that a plot of this width asks for: pages that follow ask for few different counts. */
  columns(widthPx: number): number {
    return this.#session.kind === 'following' ? columnStep(widthPx) : widthPx;
  }

  /** Says why this visitor may save no views; an empty reason lets it. */
  bar(why: string): void {
    this.#barred = why;
    this.#show();
  }

  onMessage(message: SharedMessage): void {
    this.#take({ type: 'message', message });
  }

  onWarning(text: string): void {
    this.#take({ type: 'warning', text });
  }

  onConnection(open: boolean): void {
    this.#take({ type: open ? 'connected' : 'lost' });
  }

  /** The layout of the page changed, by its user or by the view. */
  onLayout(layout: Layout): void {
    if (this.#session.kind === 'following') this.#take({ type: 'layout', layout });
  }

  /** Opens or closes the panel. */
  toggle(): void {
    this.#bar.expand(this.#panel.toggle());
  }

  /** Closes the panel; returns false if it was not open. */
  close(): boolean {
    const was = this.#panel.isOpen;
    this.#panel.toggle(false);
    return was;
  }

  #take(event: SessionEvent): void {
    const before = this.#session;
    const { session, say, show, remark } = step(before, event, Math.random);
    this.#session = session;
    for (const message of say) this.context.live.say(message);
    if (show !== null) this.#adopt(show, before);
    if (remark !== '') this.context.say(remark);
    if (session.kind !== before.kind) {
      // Those who follow ask for other numbers of columns.
      if (session.kind === 'following' || before.kind === 'following') this.context.plots.ask();
      this.context.onSession();
    }
    if (session !== before) this.#show();
    if (wantsFlush(this.#session)) this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS);
  }

  #flush(): void {
    this.#timer = undefined;
    this.#take({ type: 'flush' });
  }

  #adopt(shown: Shown, before: Session): void {
    const old = before.kind === 'following' ? before.shown.ids : [];
    this.context.plots.adopt(shown.layout, shown.ids.map((id) => { const place = old.indexOf(id); return place < 0 ? null : place; }));
  }

  #show(): void {
    this.#bar.show(chipOf(this.#session));
    this.#panel.show(this.#session, this.#barred);
  }

  #act(action: ViewsAction | ChipAction): void {
    switch (action) {
      case 'present': return this.#take({ type: 'present', take: true });
      case 'stop': return this.#take({ type: 'present', take: false });
      case 'rejoin': return this.#take({ type: 'rejoin' });
      case 'leave': return this.#take({ type: 'leave' });
      case 'forget':
      case 'dismiss': return this.#take({ type: 'forget' });
      default: return void this.#copyLink(action);
    }
  }

  async #copyLink(action: 'link' | 'watch-link' | 'fork-link'): Promise<void> {
    const session = this.#session;
    if (session.kind !== 'following') return;
    const id = session.target.kind === 'watch' ? session.target.id : session.readOnlyId;
    const { link, copied } = ({
      link: { link: { kind: 'view', name: session.name }, copied: 'Link copied: its page follows this view' },
      'watch-link': { link: { kind: 'watch', id }, copied: 'Link copied: its page follows this view and can change nothing' },
      'fork-link': { link: { kind: 'fork', name: session.name }, copied: 'Link copied: its page begins with a copy of this view' },
    } as const)[action];
    const address = `${location.origin}${location.pathname}?${writeLink(link)}`;
    try {
      await navigator.clipboard.writeText(address);
      this.context.say(copied);
    } catch {
      this.#panel.showLink(address);
      this.context.say('The browser does not allow copying here: the link is in the panel');
    }
  }

  /** Shows a view as it is now as the page's own layout. */
  async #copy(name: string): Promise<void> {
    const { fields } = await fetchView(name);
    this.#take({ type: 'forget' });
    this.context.plots.load(shownOf(fields).layout);
    this.context.say(`A copy of ${name}: changes stay on this page`);
  }

  async #save(title: string, replaced: SharedEntry | null): Promise<void> {
    const { shown, fields } = this.#saved();
    await saveView(nameOfTitle(title), { ...fieldsOf(shown, fields), title }, replaced?.revision ?? null);
  }

  /** What the page shows, with what else the document has that it shows. */
  #saved(): { shown: Shown; fields: Fields } {
    const session = this.#session;
    const { layout } = this.context.plots;
    if (session.kind === 'following') return { shown: session.shown, fields: merged(session.fields, session.texts) };
    const fields = session.kind === 'gone' ? session.fields : {};
    return { shown: { layout, ids: keepIds(shownOf(fields), layout, () => newId(Math.random)) }, fields };
  }
}

