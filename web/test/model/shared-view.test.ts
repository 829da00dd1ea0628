import { describe, expect, test } from 'vitest';
import { Places } from '../../dev/fake-views.mjs';
import { changedFields, fieldsOf, merged, placesOf, shownOf } from '../../src/model/shared-fields';
import { ALONE, step, unsent, wantsFlush, type Session, type SessionEvent, type Step } from '../../src/model/shared-view';
import { chipOf, deletionQuestion, entryFacts } from '../../src/model/shared-words';
import type { Layout } from '../../src/model/layout';
import { fields, list, parseJson, text, writeJson, type Fields } from '../../src/wire/json';
import { readMessage } from '../../src/wire/messages';
import { readSharedMessage, type SharedMessage } from '../../src/wire/shared-view';
import { below, seeded, someChange, somePlot, someShown } from './some-layouts';

/** A server with one document, and a page without a screen. Messages wait until the scene delivers them. */
class Server {
  document: Fields = {};
  revision = 0;
  readonly pages: Page[] = [];
  presenter: Page | null = null;
  /** Plots that were added by edits, and that none has deleted. */
  readonly added = new Set<string>();
  #places = new Places();

  constructor(random: () => number) {
    this.replace(random);
  }

  hear(page: Page, message: Fields): void {
    switch (text(message, 'type')) {
      case 'follow':
        page.joined = true;
        this.whole(page);
        return this.tell();
      case 'unfollow': return this.drop(page);
      case 'present':
        if (page.mayWrite) this.presenter = message['take'] === true ? page : this.presenter === page ? null : this.presenter;
        return this.tell();
      case 'edit': return this.edit(page, fields(message['fields']), typeof message['order_revision'] === 'number' ? message['order_revision'] : undefined);
    }
  }

  edit(page: Page, edit: Fields, known: number | undefined): void {
    if (!page.mayWrite || (this.presenter !== null && this.presenter !== page)) {
      return page.hears({ type: 'shared_view_refused', name: 'rod', fields: Object.keys(edit), text: 'not now' });
    }
    const changed = this.#places.merged(this.document, edit, known);
    for (const [field, value] of Object.entries(changed)) {
      const id = field.replace('plot/', '');
      if (value === null) this.added.delete(id);
      else if (id !== field && this.document[field] === undefined && placesOf(changed).includes(id)) this.added.add(id);
    }
    this.document = merged(this.document, changed);
    this.revision += 1;
    if (changed['order'] !== undefined) this.#places.write(placesOf(changed), this.revision);
    for (const each of this.pages) if (each.joined) for (const [field, value] of Object.entries(changed)) each.untold.set(field, { value, by: page.id });
  }

  /** Tells a page what it does not know: the newest value of each field, a message for each writer. */
  inform(page: Page): void {
    const told = [...page.untold];
    page.untold.clear();
    for (const by of new Set(told.map(([, { by }]) => by))) {
      const changed = Object.fromEntries(told.filter(([, each]) => each.by === by).map(([field, { value }]) => [field, value]));
      page.hears({ type: 'shared_view_changed', name: 'rod', revision: this.revision, changed_by: by, by, fields: changed });
    }
  }

  /** Somebody replaces the document: it is told whole. */
  replace(random: () => number): void {
    this.document = fieldsOf(someShown(random));
    this.revision += 1;
    this.added.clear();
    this.#places = new Places();
    this.#places.write(placesOf(this.document), this.revision);
    for (const page of this.pages) if (page.joined) this.whole(page);
  }

  whole(page: Page): void {
    page.untold.clear();
    page.hears({ type: 'shared_view', document: { name: 'rod', revision: this.revision, fields: this.document }, you: page.id, may_write: page.mayWrite, why_not: null });
  }

  drop(page: Page): void {
    page.joined = false;
    page.untold.clear();
    if (this.presenter === page) this.presenter = null;
    this.tell();
  }

  tell(): void {
    const watchers = this.pages.filter(({ joined }) => joined).map((page) => ({ id: page.id, user: page.id, presenter: page === this.presenter, read_only: !page.mayWrite }));
    for (const page of this.pages) if (page.joined) page.hears({ type: 'watchers', name: 'rod', watchers });
  }
}

/** A page: its session, its layout, its ways to the server and from it. */
class Page {
  session: Session = ALONE;
  layout: Layout = shownOf({}).layout;
  joined = false;
  connected = true;
  readonly out: string[] = [];
  readonly in: string[] = [];
  /** Changes that the server has not told the page yet. */
  readonly untold = new Map<string, { value: unknown; by: string }>();
  remarks: string[] = [];

  constructor(readonly id: string, readonly mayWrite: boolean, readonly random: () => number) {}

  hears(message: unknown): void {
    if (this.connected) this.in.push(writeJson(message));
  }

  does(event: SessionEvent): Step {
    const done = step(this.session, event, this.random);
    this.session = done.session;
    if (this.connected) for (const message of done.say) this.out.push(writeJson(message));
    if (done.remark !== '') this.remarks.push(done.remark);
    if (done.show !== null) this.moves(done.show.layout);
    return done;
  }

  /** The page's plots are now these, by its user or by the view. */
  moves(layout: Layout): Step {
    this.layout = layout;
    return this.does({ type: 'layout', layout });
  }

  reads(): void {
    const next = this.in.shift();
    const message = next === undefined ? null : readSharedMessage(fields(parseJson(next)));
    if (message !== null) this.does({ type: 'message', message });
  }

  loses(server: Server): void {
    this.connected = false;
    this.out.length = 0;
    this.in.length = 0;
    server.drop(this);
    this.does({ type: 'lost' });
  }
}

const TARGET = { kind: 'view', name: 'rod' } as const;
const scene = (seed: number): { server: Server; random: () => number } => {
  const random = seeded(seed);
  const server = new Server(random);
  for (let i = 0; i < 4; i += 1) server.pages.push(new Page(`w${i}`, i !== 3, random));
  return { server, random };
};

function deliver(server: Server, page: Page): void {
  const next = page.out.shift();
  if (next !== undefined) server.hear(page, fields(parseJson(next)));
}

/** Delivers everything, and sends what waits, until nothing is left. */
function settle(server: Server): void {
  for (let round = 0; round < 200; round += 1) {
    for (const page of server.pages) {
      if (!page.connected) { page.connected = true; page.does({ type: 'connected' }); }
      while (page.out.length > 0) deliver(server, page);
      server.inform(page);
      while (page.in.length > 0) page.reads();
      if (wantsFlush(page.session)) page.does({ type: 'flush' });
    }
    if (server.pages.every((page) => page.out.length + page.in.length + page.untold.size === 0 && !wantsFlush(page.session))) return;
  }
  throw new Error('the pages never come to rest');
}

describe('pages that follow one view', () => {
  test.each(Array.from({ length: 250 }, (_, seed) => seed))('come to show the same, whatever happens and in whatever order, seed %i', (seed) => {
    const { server, random } = scene(seed);
    for (const page of server.pages) page.does({ type: 'follow', target: TARGET });
    for (let turn = 0; turn < 120; turn += 1) {
      const page = server.pages[below(random, 4)];
      if (page === undefined) continue;
      const act = below(random, 20);
      if (act < 2) server.inform(page);
      else if (act < 7) page.reads();
      else if (act < 12) deliver(server, page);
      else if (act < 15) page.moves(someChange(random, page.layout));
      else if (act < 17) page.does({ type: 'flush' });
      else if (act === 17) page.does(random() < 0.5 ? { type: 'present', take: random() < 0.6 } : { type: 'rejoin' });
      else if (act === 18 && random() < 0.3 && page.connected) page.loses(server);
      else if (!page.connected) { page.connected = true; page.does({ type: 'connected' }); }
      if (turn % 60 === 59) server.replace(random);
    }
    settle(server);
    expect([...server.added].filter((id) => !placesOf(server.document).includes(id))).toEqual([]);
    for (const page of server.pages) {
      if (page.session.kind !== 'following') continue;
      expect(unsent(page.session)).toEqual({});
      const shown = shownOf(server.document);
      expect(changedFields(shown, page.session.shown, server.document)).toEqual({});
      expect(page.layout).toEqual(shown.layout);
    }
    // Those who left or may only watch come back to the same.
    for (const page of server.pages) page.does({ type: 'rejoin' });
    settle(server);
    for (const page of server.pages) expect([page.session.kind, page.layout]).toEqual(['following', shownOf(server.document).layout]);
  });
});

/** Pages that have joined. */
function joined(count = 2): { server: Server; pages: readonly Page[]; random: () => number } {
  const { server, random } = scene(11);
  server.pages.splice(count);
  for (const page of server.pages) page.does({ type: 'follow', target: TARGET });
  settle(server);
  return { server, pages: server.pages, random };
}

const SPAN = (spanNs: bigint) => (page: Page): Step => page.moves({ ...page.layout, window: { ...page.layout.window, spanNs } });
const pageAt = (pages: readonly Page[], place: number): Page => {
  const page = pages[place];
  if (page === undefined) throw new Error('there is one');
  return page;
};

describe('a page', () => {
  test('that may not change a view leaves it with its first change, which stays', () => {
    const { server, pages } = joined(4);
    const reader = pageAt(pages, 3);
    SPAN(777_000n)(reader);
    expect(reader.session).toMatchObject({ kind: 'left', name: 'rod', why: 'it is read-only' });
    SPAN(5_000n)(pageAt(pages, 0));
    settle(server);
    expect(reader.layout.window.spanNs).toBe(777_000n);
    expect(server.pages.filter((page) => page.joined)).toHaveLength(3);
    reader.does({ type: 'rejoin' });
    settle(server);
    expect(reader.layout.window.spanNs).toBe(5_000n);
  });

  test('follows the one that presents, and leaves when it moves by itself', () => {
    const { server, pages } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    anna.does({ type: 'present', take: true });
    settle(server);
    SPAN(2_000n)(anna);
    settle(server);
    expect(other.layout.window.spanNs).toBe(2_000n);
    SPAN(9_000n)(other);
    expect(other.session).toMatchObject({ kind: 'left', why: 'w0 presents' });
  });

  test('is not pulled back by the echo of its own drag', () => {
    const { server, pages } = joined();
    const [anna] = [pageAt(pages, 0)];
    SPAN(2_000n)(anna);
    anna.does({ type: 'flush' });
    SPAN(3_000n)(anna);
    // An edit waits for the answer to the one before.
    expect([anna.out.length, wantsFlush(anna.session)]).toEqual([1, false]);
    deliver(server, anna);
    server.inform(anna);
    while (anna.in.length > 0) anna.reads();
    expect(anna.layout.window.spanNs).toBe(3_000n);
    settle(server);
    expect([anna.layout.window.spanNs, pageAt(pages, 1).layout.window.spanNs]).toEqual([3_000n, 3_000n]);
  });

  test('has the server\'s values again for what was refused, and keeps its other changes', () => {
    const { server, pages } = joined();
    const [anna] = [pageAt(pages, 0)];
    const before = anna.layout.window;
    SPAN(2_000n)(anna);
    anna.does({ type: 'flush' });
    anna.out.length = 0;
    anna.moves({ ...anna.layout, cursors: { a: 1n, b: 2n } });
    anna.does({ type: 'message', message: { type: 'shared_view_refused', name: 'rod', fields: ['window'], text: 'the span is too long' } });
    expect([anna.layout.window, anna.layout.cursors, anna.remarks]).toEqual([before, { a: 1n, b: 2n }, ['the span is too long']]);
    settle(server);
    expect(pageAt(pages, 1).layout.cursors).toEqual({ a: 1n, b: 2n });
  });

  test('that presented presents again when its connection is back, and what it changed meanwhile is sent', () => {
    const { server, pages } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    anna.does({ type: 'present', take: true });
    settle(server);
    anna.loses(server);
    SPAN(4_000n)(anna);
    expect(anna.session).toMatchObject({ kind: 'following', online: false });
    settle(server);
    expect([server.presenter?.id, other.layout.window.spanNs]).toEqual(['w0', 4_000n]);
  });

  test('whose place was taken meanwhile gives up what it changed, and says so', () => {
    const { server, pages } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    anna.loses(server);
    SPAN(4_000n)(anna);
    other.does({ type: 'present', take: true });
    deliver(server, other);
    settle(server);
    expect(anna.remarks).toEqual(['Your changes were not taken: w1 presents']);
    expect(anna.layout).toEqual(other.layout);
  });

  test('whose edit another page wrote over, before it was answered, goes on', () => {
    const { server, pages } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    for (const [page, span] of [[anna, 2_000n], [other, 3_000n]] as const) {
      SPAN(span)(page);
      page.does({ type: 'flush' });
      deliver(server, page);
    }
    settle(server);
    SPAN(4_000n)(anna);
    settle(server);
    expect([anna.layout.window.spanNs, other.layout.window.spanNs]).toEqual([4_000n, 4_000n]);
  });

  test('that is told the whole document anew still knows who presents', () => {
    const { server, pages, random } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    anna.does({ type: 'present', take: true });
    settle(server);
    server.replace(random);
    settle(server);
    expect(other.layout).toEqual(shownOf(server.document).layout);
    SPAN(9_000n)(other);
    expect(other.session).toMatchObject({ kind: 'left', why: 'w0 presents' });
  });

  test('that adds a plot while another page does loses neither', () => {
    const { server, pages, random } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    const count = anna.layout.plots.length;
    for (const page of [anna, other]) page.moves({ ...page.layout, plots: [...page.layout.plots, somePlot(random)] });
    other.does({ type: 'flush' });
    deliver(server, other);
    server.inform(anna);
    while (anna.in.length > 0) anna.reads();
    settle(server);
    expect([anna.layout.plots.length, other.layout]).toEqual([count + 2, anna.layout]);
  });

  test.each([['hears of the other\'s first', true], ['is heard first', false]])('that adds a plot in the same round trip as another page, and %s, keeps it', (_, overtaken) => {
    const { server, pages, random } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    const count = anna.layout.plots.length;
    for (const page of [anna, other]) {
      page.moves({ ...page.layout, plots: [...page.layout.plots, somePlot(random)] });
      page.does({ type: 'flush' });
    }
    const mine = anna.layout.plots.at(-1);
    if (!overtaken) deliver(server, anna);
    deliver(server, other);
    server.inform(anna);
    while (anna.in.length > 0) {
      anna.reads();
      // It is not gone for a moment, either.
      expect(anna.layout.plots).toContain(mine);
    }
    settle(server);
    expect([anna.layout.plots.length, other.layout]).toEqual([count + 2, anna.layout]);
  });

  test('writes notes for all, and none where it may not', () => {
    const { server, pages } = joined(4);
    const [anna, reader] = [pageAt(pages, 0), pageAt(pages, 3)];
    anna.does({ type: 'text', field: 'notes', text: 'look at shot 40' });
    reader.does({ type: 'text', field: 'notes', text: 'mine' });
    settle(server);
    expect([server.document['notes'], chipOf(reader.session)]).toEqual(['look at shot 40', { mood: 'live', title: 'rod', facts: 'read-only · 4 watch', action: null }]);
  });

  test('says how it stands to its view', () => {
    const { server, pages } = joined();
    const [anna, other] = [pageAt(pages, 0), pageAt(pages, 1)];
    const said = (page: Page): string => { const chip = chipOf(page.session); return chip === null ? '' : `${chip.title} | ${chip.facts} | ${chip.action ?? ''}`; };
    expect(said(anna)).toBe('rod | all may edit · 2 watch | present');
    anna.does({ type: 'present', take: true });
    settle(server);
    expect([said(anna), said(other)]).toEqual(['rod | you present · 2 watch | stop', 'rod | w0 presents · 2 watch | ']);
    anna.loses(server);
    expect(said(anna)).toBe('rod | no connection | ');
    SPAN(4_000n)(anna);
    expect(said(anna)).toBe('rod | no connection · your changes wait | ');
    other.does({ type: 'leave' });
    expect(said(other)).toBe('You left rod |  | rejoin');
    other.does({ type: 'forget' });
    expect(said(other)).toBe('');
  });

  test('keeps what it shows when the view is deleted', () => {
    const { pages } = joined();
    const [anna] = [pageAt(pages, 0)];
    const { layout } = anna;
    anna.does({ type: 'message', message: { type: 'shared_view_gone', name: 'another' } });
    expect(anna.session.kind).toBe('following');
    anna.does({ type: 'message', message: { type: 'shared_view_gone', name: 'rod' } });
    expect([anna.session.kind, anna.layout]).toEqual(['gone', layout]);
  });

  test.each<[string, SharedMessage | string, string]>([
    ['no view of this name', { type: 'shared_view_gone', name: 'rod' }, 'There is no such view'],
    ['a refusal', { type: 'shared_view_refused', name: 'rod', fields: [], text: 'denied by line 3' }, 'denied by line 3'],
    ['a warning', 'no view `rod`', 'no view `rod`'],
  ])('that gets %s says so, and can try again', (_, answer, text) => {
    const page = new Page('w9', true, seeded(1));
    page.does({ type: 'follow', target: TARGET });
    page.does(typeof answer === 'string' ? { type: 'warning', text: answer } : { type: 'message', message: answer });
    expect(page.session).toEqual({ kind: 'refused', target: TARGET, text });
    expect(page.does({ type: 'rejoin' }).say).toEqual([{ type: 'follow', name: 'rod' }]);
  });

  test('asks for its view again with each connection', () => {
    const page = new Page('w9', true, seeded(1));
    const target = { kind: 'watch', id: 'a'.repeat(32) } as const;
    page.does({ type: 'follow', target });
    expect(page.does({ type: 'connected' }).say).toEqual([{ type: 'follow', read_only_id: target.id }]);
    expect(page.does({ type: 'leave' }).say).toEqual([{ type: 'unfollow' }]);
    expect(page.does({ type: 'connected' }).say).toEqual([]);
  });
});

test('messages of shared views are read field by field', () => {
  expect(readMessage({ type: 'watchers', name: 'rod', watchers: [{ id: 'w1', user: null, presenter: true }, 7] })).toEqual(
    { type: 'watchers', name: 'rod', watchers: [{ id: 'w1', user: '', presenter: true, readOnly: false }] });
  expect(readMessage({ type: 'shared_view' })).toMatchObject({ document: { name: '', fields: {} }, mayWrite: false, whyNot: '' });
  expect(readMessage({ type: 'notice', level: 'warn', text: 'bob presents now' })).toEqual({ type: 'note', level: 'warn', text: 'bob presents now' });
  expect(list(fields(parseJson(writeJson({ list: [{ end_ns: '1790000000123456789' }] }))), 'list')).toEqual([{ end_ns: '1790000000123456789' }]);
});

test('an entry of the list says who presents, how many watch, and when it changed', () => {
  const at = 1_790_000_000_000_000_000n;
  const entry = { name: 'rod', title: 'Heated rod', revision: 3, changedNs: Number(at), changedBy: 'anna', watchers: 2, presenter: 'ben' };
  expect(entryFacts(entry, at, 'utc')).toBe('ben presents · 2 watch · changed 14:13:20 by anna');
  expect(entryFacts({ ...entry, watchers: 1, presenter: null, changedBy: '' }, at + 86_400_000_000_000n, 'utc')).toBe('1 watches · changed 2026-09-21');
  expect([deletionQuestion(entry), deletionQuestion({ ...entry, title: '', watchers: 0 })]).toEqual(['Delete Heated rod? 2 pages follow it.', 'Delete rod?']);
});
