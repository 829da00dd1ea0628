/**
 * Following a shared view: what this page shows, what it may write, and what it does when the document, the connection, or its
 * own layout changes.
 *
 * A machine of values: {@link step} takes what happened and says what to send and what to show. It knows no time: the page calls
 * `flush` when it is time to send. An edit waits for the answer to the one before, so a slow connection gets fewer edits and never a queue.
 *
 * What a page shows is the server's document, with the edit on its way over it, with what was changed since over that. A page
 * whose changes would not be taken leaves the view with its first change: it is never pulled back, and never lies about what the others see.
 */
import type { Fields } from '../wire/json';
import type { SharedMessage, Watcher } from '../wire/shared-view';
import { EMPTY_LAYOUT, type Layout } from './layout';
import { changedFields, keepIds, merged, newId, placesOf, rebasedOrder, shownOf, withAdded, type Shown } from './shared-fields';
import type { Target } from './shared-link';

/** A page that follows a document. */
export interface Following {
  readonly kind: 'following';
  readonly target: Target;
  readonly name: string;
  readonly readOnlyId: string;
  /** This page among the watchers. */
  readonly you: string;
  readonly mayWrite: boolean;
  readonly whyNot: string;
  /** The document as the server has it. */
  readonly fields: Fields;
  /** Revision at which the server told the order of plots last: what others have placed since, this page does not know. */
  readonly orderRevision: number;
  /** The edit that the server has not answered. */
  readonly inFlight: Fields | null;
  /** What the page shows. */
  readonly shown: Shown;
  /** Texts that were changed and not sent. */
  readonly texts: Fields;
  readonly watchers: readonly Watcher[];
  /** True if the watchers are known since the page last joined. */
  readonly settled: boolean;
  /** True if this page presented when the connection was lost. */
  readonly resumes: boolean;
  readonly online: boolean;
}

/** How a page stands to shared views. */
export type Session =
  | { readonly kind: 'alone' }
  | { readonly kind: 'joining'; readonly target: Target }
  | Following
  | { readonly kind: 'left'; readonly target: Target; readonly name: string; readonly title: string; readonly why: string }
  | { readonly kind: 'gone'; readonly name: string; readonly title: string; readonly fields: Fields }
  | { readonly kind: 'refused'; readonly target: Target; readonly text: string };

/** What happened. */
export type SessionEvent =
  | { readonly type: 'follow'; readonly target: Target }
  | { readonly type: 'message'; readonly message: SharedMessage }
  /** The server said a warning. */
  | { readonly type: 'warning'; readonly text: string }
  | { readonly type: 'connected' }
  | { readonly type: 'lost' }
  /** The page's layout is now this, whatever changed it. */
  | { readonly type: 'layout'; readonly layout: Layout }
  | { readonly type: 'text'; readonly field: 'title' | 'notes'; readonly text: string }
  | { readonly type: 'flush' }
  | { readonly type: 'leave' }
  | { readonly type: 'rejoin' }
  /** The layout stays, the view is forgotten. */
  | { readonly type: 'forget' }
  | { readonly type: 'present'; readonly take: boolean };

/** What follows from it. */
export interface Step {
  readonly session: Session;
  /** To the server, in this order. */
  readonly say: readonly Fields[];
  /** The page is to show this, or what it shows. */
  readonly show: Shown | null;
  /** A remark for the user. */
  readonly remark: string;
}

/** A page that follows nothing. */
export const ALONE: Session = { kind: 'alone' };

/** Returns the name of a watcher. */
export const nameOf = (watcher: Watcher): string => (watcher.user === '' ? 'a visitor' : watcher.user);

/** Returns the page that presents. */
export function presenterOf(session: Following): Watcher | null {
  return session.watchers.find(({ presenter }) => presenter) ?? null;
}

/** Returns whether this page presents. */
export const presents = (session: Following): boolean => presenterOf(session)?.id === session.you;

/** Returns why changes of this page are not taken, or an empty text. */
export function hindrance(session: Following): string {
  if (!session.mayWrite) return session.whyNot === '' ? 'it is read-only' : session.whyNot;
  const presenter = presenterOf(session);
  return presenter === null || presenter.id === session.you ? '' : `${nameOf(presenter)} presents`;
}

/** Returns what the page has changed and not sent. */
export function unsent(session: Following): Fields {
  const sent = merged(session.fields, session.inFlight ?? {});
  return { ...changedFields(shownOf(sent), session.shown, sent), ...session.texts };
}

/** Returns whether there is something to send now. */
export function wantsFlush(session: Session): boolean {
  return session.kind === 'following' && session.online && session.settled && session.inFlight === null && hindrance(session) === ''
    && Object.keys(unsent(session)).length > 0;
}

/** Returns what follows from an event; `random` gives numbers from 0 to 1. */
export function step(session: Session, event: SessionEvent, random: () => number): Step {
  switch (event.type) {
    case 'follow':
      return { ...stay({ kind: 'joining', target: event.target }), say: [followMessage(event.target)] };
    case 'message':
      return onMessage(session, event.message);
    case 'warning':
      return stay(session.kind === 'joining' ? { kind: 'refused', target: session.target, text: event.text } : session);
    case 'connected':
      return session.kind === 'joining' || session.kind === 'following' ? { ...stay(session), say: [followMessage(session.target)] } : stay(session);
    case 'lost':
      return stay(session.kind === 'following' ? onLost(session) : session);
    case 'layout':
      return session.kind === 'following' ? onLayout(session, event.layout, random) : stay(session);
    case 'text':
      return session.kind === 'following' ? onText(session, event.field, event.text) : stay(session);
    case 'flush':
      return session.kind === 'following' && wantsFlush(session) ? flush(session) : stay(session);
    case 'leave':
      return session.kind === 'following' ? leave(session, '') : session.kind === 'joining' ? forget(session) : stay(session);
    case 'rejoin':
      return session.kind === 'left' || session.kind === 'refused' ? step(session, { type: 'follow', target: session.target }, random) : stay(session);
    case 'forget':
      return forget(session);
    case 'present':
      return session.kind === 'following' ? { ...stay({ ...session, resumes: false }), say: [{ type: 'present', take: event.take }] } : stay(session);
  }
}

const stay = (session: Session): Step => ({ session, say: [], show: null, remark: '' });

const followMessage = (target: Target): Fields => (target.kind === 'view' ? { type: 'follow', name: target.name } : { type: 'follow', read_only_id: target.id });

function forget(session: Session): Step {
  const followed = session.kind === 'following' || session.kind === 'joining';
  return { ...stay(ALONE), say: followed ? [{ type: 'unfollow' }] : [] };
}

function leave(session: Following, why: string): Step {
  const { target, name } = session;
  return { ...stay({ kind: 'left', target, name, title: titleOf(session), why }), say: [{ type: 'unfollow' }] };
}

/** Returns what a followed view is called. */
export function titleOf({ fields, name }: Following): string {
  return typeof fields['title'] === 'string' && fields['title'] !== '' ? fields['title'] : name;
}

function onMessage(session: Session, message: SharedMessage): Step {
  if (message.type === 'shared_view') return onDocument(session, message);
  if (session.kind === 'joining') return onNoDocument(session, message);
  // Without a name it is about the view that is followed.
  if (session.kind !== 'following' || (message.name !== session.name && message.name !== '')) return stay(session);
  switch (message.type) {
    case 'shared_view_changed': {
      const orderRevision = message.fields['order'] === undefined ? session.orderRevision : message.revision;
      const next: Following = { ...session, fields: merged(session.fields, message.fields), orderRevision, inFlight: onItsWay(session, message) };
      return reshow(session, next, unsent(session));
    }
    case 'shared_view_refused': {
      const inFlight = without(session.inFlight, message.fields);
      return { ...reshow(session, { ...session, inFlight }, without(unsent(session), message.fields) ?? {}), remark: message.text };
    }
    case 'shared_view_gone':
      return stay({ kind: 'gone', name: session.name, title: titleOf(session), fields: session.fields });
    case 'watchers':
      return onWatchers(session, message.watchers);
  }
}

/**
 * The edit on its way without the fields that the server has told the values of: of a field that several pages wrote, it tells the newest
 * value alone, so another page's message may be the only answer to an edit.
 */
function without(edit: Fields | null, names: readonly string[]): Fields | null {
  const kept = Object.entries(edit ?? {}).filter(([name]) => !names.includes(name));
  return kept.length === 0 ? null : Object.fromEntries(kept);
}

/**
 * The edit on its way after a change. The order that another page wrote may have been written before this page's order is: then the server
 * puts the plots that this page adds into it, and here they keep their places until it says so.
 */
function onItsWay({ fields, inFlight, you }: Following, { fields: changed, by }: SharedMessage & { readonly type: 'shared_view_changed' }): Fields | null {
  const left = without(inFlight, Object.keys(changed));
  if (left === null || by === you || changed['order'] === undefined || inFlight?.['order'] === undefined) return left;
  const [known, theirs] = [placesOf(fields), placesOf(changed)];
  const mine = placesOf(inFlight).filter((id) => theirs.includes(id) || (!known.includes(id) && left[`plot/${id}`] !== undefined));
  const added = mine.some((id) => !theirs.includes(id));
  return added ? { ...left, order: withAdded(theirs, mine) } : left;
}

/** A request to follow that brings no document. */
function onNoDocument(session: Session & { readonly kind: 'joining' }, message: SharedMessage): Step {
  const { target } = session;
  if (message.type === 'shared_view_gone' && (target.kind === 'watch' || message.name === target.name)) return stay({ kind: 'refused', target, text: 'There is no such view' });
  if (message.type === 'shared_view_refused') return stay({ kind: 'refused', target, text: message.text });
  return stay(session);
}

/** A document came because the page follows it, for the first time or again. */
function onDocument(session: Session, message: SharedMessage & { readonly type: 'shared_view' }): Step {
  if (session.kind !== 'joining' && session.kind !== 'following' && session.kind !== 'refused') return stay(session);
  const { target } = session;
  const { document, you, mayWrite, whyNot } = message;
  // An answer to an earlier request.
  if (target.kind === 'view' && document.name !== target.name) return stay(session);
  const again = session.kind === 'following' && session.name === document.name ? session : null;
  const joined: Following = {
    kind: 'following', target, name: document.name, readOnlyId: document.readOnlyId, you, mayWrite, whyNot,
    fields: document.fields, orderRevision: document.revision, inFlight: null, shown: again?.shown ?? { layout: EMPTY_LAYOUT, ids: [] }, texts: {},
    // A document that was replaced comes whole, too, and those who watch it are told only when they change.
    watchers: again?.online === true ? again.watchers : [], settled: again?.online === true && again.settled, resumes: again?.resumes ?? false, online: true,
  };
  if (again === null) {
    const shown = shownOf(document.fields);
    return { ...stay({ ...joined, shown }), show: shown };
  }
  // What was not answered may be lost with its connection, or be in the document already: it is sent again.
  const mine = unsent({ ...again, inFlight: null, texts: { ...textsOf(again.inFlight), ...again.texts } });
  return reshow(again, joined, hindrance(joined) === '' ? mine : {});
}

function onLost(session: Following): Following {
  const resumes = session.resumes || (session.online && presents(session));
  return { ...session, inFlight: null, texts: { ...textsOf(session.inFlight), ...session.texts }, settled: false, online: false, resumes };
}

function onWatchers(session: Following, watchers: readonly Watcher[]): Step {
  const known: Following = { ...session, watchers, settled: true };
  const presenter = presenterOf(known);
  const back = session.resumes && presenter === null;
  const next: Following = { ...known, resumes: false };
  const say: readonly Fields[] = back ? [{ type: 'present', take: true }] : [];
  const why = hindrance(next);
  if (why === '' || Object.keys(unsent(next)).length === 0) return { ...stay(next), say };
  return { ...reshow(session, next, {}), say, remark: `Your changes were not taken: ${why}` };
}

function onLayout(session: Following, layout: Layout, random: () => number): Step {
  const shown: Shown = { layout, ids: keepIds(session.shown, layout, () => newId(random)) };
  const changed = Object.keys(changedFields(session.shown, shown, session.fields)).length > 0;
  if (!changed) return stay({ ...session, shown });
  const why = hindrance(session);
  return why === '' ? stay({ ...session, shown }) : leave(session, why);
}

function onText(session: Following, field: 'title' | 'notes', text: string): Step {
  const why = hindrance(session);
  // A new session, so that the old text is shown again.
  if (why !== '') return { ...stay({ ...session }), remark: `The ${field} did not change: ${why}` };
  return stay({ ...session, texts: { ...session.texts, [field]: text } });
}

function flush(session: Following): Step {
  const sent = unsent(session);
  const known: Fields = sent['order'] === undefined ? {} : { order_revision: session.orderRevision };
  return { ...stay({ ...session, inFlight: sent, texts: {} }), say: [{ type: 'edit', fields: sent, ...known }] };
}

/** Shows what the server has by now, with `mine` over it, which was changed over what it had before. */
function reshow(before: Following, after: Following, mine: Fields): Step {
  const base = merged(after.fields, after.inFlight ?? {});
  const order = mine['order'] === undefined ? {}
    : { order: rebasedOrder(placesOf(merged(before.fields, before.inFlight ?? {})), placesOf(base), placesOf(mine)) };
  const shown = shownOf(merged(base, { ...mine, ...order }), before.shown);
  const session: Following = { ...after, shown, texts: textsOf(mine) };
  const moved = Object.keys(changedFields(before.shown, shown, base)).length > 0;
  return { ...stay(session), show: moved ? shown : null };
}

const TEXTS = ['title', 'notes'];

function textsOf(changed: Fields | null): Fields {
  return Object.fromEntries(Object.entries(changed ?? {}).filter(([name]) => TEXTS.includes(name)));
}
