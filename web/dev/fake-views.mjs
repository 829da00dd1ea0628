/**
 * The shared views of the fake server: documents, who follows which, who presents. Nothing of it is checked beyond what the page
 * can do wrong. A visitor is the cookie `fake-user`; with `fake-role=reader` it changes nothing.
 */
import { randomBytes } from 'node:crypto';

/** @typedef {{say(value: unknown): void, user: string | null, mayWrite: boolean}} Page */
/** @typedef {{name: string, revision: number, changed: bigint, by: string, id: string, fields: Record<string, any>, revisions: Record<string, number>}} Document */
/** @typedef {{id: string, name: string, readOnly: boolean}} Follower */

const NAME = /^(?!\.)[A-Za-z0-9._-]{1,64}$/;
const FIELD = /^(title|notes|window|run|cursors|single|order|plot\/[a-z0-9]{1,16})$/;
const READER = 'this visitor may read, not change';

/** Reads JSON; nanoseconds keep all digits in the notation in which the server writes them. @param {string} text */
export const parse = (text) => JSON.parse(text.replace(/("\w+_ns"\s*:\s*)(-?\d+)/g, '$1"#$2#"'));

/** Reads who asks. @param {import('node:http').IncomingMessage} request @returns {{user: string | null, mayWrite: boolean}} */
export function visitorOf(request) {
  const cookies = Object.fromEntries((request.headers.cookie ?? '').split('; ').map((pair) => pair.split('=')));
  return { user: cookies['fake-user'] ?? null, mayWrite: cookies['fake-role'] !== 'reader' };
}

/** Revision at which each plot was put into the order of a document. */
export class Places {
  /** @type {Map<string, number>} */
  #placed = new Map();

  /** @param {readonly string[]} order @param {number} revision */
  write(order, revision) {
    this.#placed = new Map(order.map((id) => [id, this.#placed.get(id) ?? revision]));
  }

  /**
   * Returns an edit whose order has the plots, too, that others have placed since a revision.
   * @param {Record<string, any>} document @param {Record<string, any>} changed @param {number | undefined} known @returns {Record<string, any>}
   */
  merged(document, changed, known) {
    if (known === undefined || changed['order'] === undefined) return changed;
    const exists = (/** @type {string} */ id) => { const plot = changed[`plot/${id}`]; return plot === undefined ? document[`plot/${id}`] !== undefined : plot !== null; };
    const order = changed['order'].filter(exists);
    let behind = 0;
    for (const id of document['order'] ?? []) {
      const place = order.indexOf(id);
      if (place >= 0) behind = place + 1;
      else if ((this.#placed.get(id) ?? 0) > known && exists(id)) order.splice(behind++, 0, id);
    }
    return { ...changed, order };
  }
}

/** The shared views of one server. */
export class FakeViews {
  /** @type {Map<string, Document>} */
  documents = new Map();
  /** @type {Map<Page, Follower>} */
  followers = new Map();
  /** Name of a view → the page that presents. @type {Map<string, Page>} */
  presenters = new Map();
  /** By name of a view. @type {Map<string, Places>} */
  #places = new Map();
  /** Edits that were taken, and that were refused. */
  edits = 0;
  refused = 0;
  #next = 1;

  /** @param {string} name @param {Record<string, any>} fields @param {string | null} by */
  put(name, fields, by = null) {
    const old = this.documents.get(name);
    const revision = (old?.revision ?? 0) + 1;
    const document = { name, revision, changed: BigInt(Date.now()) * 1_000_000n, by: by ?? '', id: old?.id ?? randomBytes(16).toString('hex'), fields, revisions: Object.fromEntries(Object.keys(fields).map((field) => [field, revision])) };
    this.documents.set(name, document);
    const places = new Places();
    places.write(fields['order'] ?? [], revision);
    this.#places.set(name, places);
    if (old !== undefined) this.#tellWhole(document);
    return document;
  }

  /** @param {Document} document @param {boolean} readOnly */
  #written(document, readOnly) {
    const { name, revision, changed, by, id, fields, revisions } = document;
    return { name, title: fields['title'] ?? '', revision, changed_ns: changed, changed_by: by, ...(readOnly ? {} : { read_only_id: id }), fields, field_revisions: revisions };
  }

  /** @param {string} name @param {unknown} message */
  #tell(name, message) {
    for (const [page, follower] of this.followers) if (follower.name === name) page.say(message);
  }

  /** @param {Document} document */
  #tellWhole(document) {
    for (const [page, follower] of this.followers) if (follower.name === document.name) this.#sayWhole(page, follower, document);
  }

  /** @param {Page} page @param {Follower} follower @param {Document} document */
  #sayWhole(page, { id, readOnly }, document) {
    const why = readOnly ? 'the link is read-only' : page.mayWrite ? null : READER;
    page.say({ type: 'shared_view', document: this.#written(document, readOnly), you: id, may_write: why === null, why_not: why });
  }

  /** @param {string} name */
  #tellWatchers(name) {
    const presenter = this.presenters.get(name);
    const watchers = [...this.followers].filter(([, follower]) => follower.name === name)
      .map(([page, { id, readOnly }]) => ({ id, user: page.user, presenter: page === presenter, read_only: readOnly }));
    this.#tell(name, { type: 'watchers', name, watchers });
  }

  /** Takes a message of a page; returns whether it was about shared views. @param {Page} page @param {any} message */
  heard(page, message) {
    switch (message.type) {
      case 'follow': this.#follow(page, message); return true;
      case 'unfollow': this.gone(page); return true;
      case 'edit': this.#edit(page, message.fields, message.order_revision); return true;
      case 'present': this.#present(page, message.take); return true;
      default: return false;
    }
  }

  /** @param {Page} page @param {any} message */
  #follow(page, message) {
    this.gone(page);
    const readOnly = typeof message.read_only_id === 'string';
    const document = readOnly ? [...this.documents.values()].find(({ id }) => id === message.read_only_id) : this.documents.get(message.name);
    if (document === undefined) return page.say({ type: 'shared_view_gone', name: message.name ?? null });
    const follower = { id: `w${this.#next}`, name: document.name, readOnly };
    this.#next += 1;
    this.followers.set(page, follower);
    this.#sayWhole(page, follower, document);
    return this.#tellWatchers(document.name);
  }

  /** The page is gone, or follows nothing any more. @param {Page} page */
  gone(page) {
    const follower = this.followers.get(page);
    this.followers.delete(page);
    if (follower === undefined) return;
    if (this.presenters.get(follower.name) === page) this.presenters.delete(follower.name);
    this.#tellWatchers(follower.name);
  }

  /** @param {Page} page @param {Record<string, any>} changed @param {number | undefined} known Revision at which the page was told the order. */
  #edit(page, changed, known) {
    const follower = this.followers.get(page);
    const document = this.documents.get(follower?.name ?? '');
    if (follower === undefined || document === undefined) return page.say({ type: 'note', level: 'warn', text: 'this page follows no view' });
    const presenter = this.presenters.get(follower.name);
    const unknown = Object.keys(changed).find((field) => !FIELD.test(field));
    const why = follower.readOnly ? 'the link is read-only' : !page.mayWrite ? READER
      : presenter !== undefined && presenter !== page ? `${presenter.user} presents` : unknown !== undefined ? `no field \`${unknown}\`` : '';
    if (why !== '') {
      this.refused += 1;
      return page.say({ type: 'shared_view_refused', name: follower.name, fields: Object.keys(changed), text: why });
    }
    const places = this.#places.get(follower.name);
    const fields = places?.merged(document.fields, changed, known) ?? changed;
    this.edits += 1;
    document.revision += 1;
    document.changed = BigInt(Date.now()) * 1_000_000n;
    document.by = page.user ?? '';
    if (fields['order'] !== undefined) places?.write(fields['order'], document.revision);
    for (const [field, value] of Object.entries(fields)) {
      if (value === null && field.startsWith('plot/')) delete document.fields[field];
      else document.fields[field] = value;
      document.revisions[field] = document.revision;
    }
    return this.#tell(follower.name, { type: 'shared_view_changed', name: follower.name, revision: document.revision, changed_by: page.user, by: follower.id, fields });
  }

  /** @param {Page} page @param {boolean} take */
  #present(page, take) {
    const follower = this.followers.get(page);
    if (follower === undefined || follower.readOnly || !page.mayWrite) return page.say({ type: 'notice', level: 'warn', text: `you may not present: ${READER}` });
    const before = this.presenters.get(follower.name);
    if (take && before !== undefined && before !== page) this.#tell(follower.name, { type: 'notice', level: 'warn', text: `${page.user} presents now, in place of ${before.user}` });
    if (take) this.presenters.set(follower.name, page);
    else if (before === page) this.presenters.delete(follower.name);
    return this.#tellWatchers(follower.name);
  }

  /**
   * Answers a request of HTTP.
   * @param {import('node:http').IncomingMessage} request @param {string} path @param {string} body @returns {[number, unknown, Record<string, string>]}
   */
  answer(request, path, body) {
    const { user, mayWrite } = visitorOf(request);
    const name = decodeURIComponent(path.replace(/^\/api\/views\/?/, ''));
    const document = this.documents.get(name);
    if (request.method === 'GET' && name === '') return [200, { views: [...this.documents.values()].map((each) => this.#entry(each)) }, {}];
    if (!NAME.test(name)) return [400, { error: `no view can be named \`${name}\``, help: 'use letters, digits, dots, lines and hyphens, at most 64' }, {}];
    if (request.method !== 'GET' && !mayWrite) return [403, { error: READER, help: 'ask for the right to derive' }, {}];
    if (request.method === 'PUT') {
      const [only, match] = [request.headers['if-none-match'], request.headers['if-match']];
      if ((only === '*' && document !== undefined) || (match !== undefined && match !== `"${document?.revision}"`)) {
        return [412, { error: `the view \`${name}\` is another one by now`, help: 'look at the list again' }, {}];
      }
      const made = this.put(name, parse(body).fields, user);
      return [200, { revision: made.revision }, { etag: `"${made.revision}"` }];
    }
    if (document === undefined) return [404, { error: `no view \`${name}\``, help: 'see /api/views' }, {}];
    if (request.method === 'GET') return [200, this.#written(document, !mayWrite), { etag: `"${document.revision}"` }];
    if (request.method !== 'DELETE') return [405, { error: 'this path does not take this method', help: 'see docs/protocol/page.md' }, {}];
    this.documents.delete(name);
    this.#tell(name, { type: 'shared_view_gone', name });
    for (const [page, follower] of this.followers) if (follower.name === name) this.followers.delete(page);
    this.presenters.delete(name);
    return [200, {}, {}];
  }

  /** @param {Document} document */
  #entry({ name, revision, changed, by, fields }) {
    const presenter = this.presenters.get(name);
    return {
      name, title: fields['title'] ?? '', revision, changed_ns: changed, changed_by: by,
      watchers: [...this.followers.values()].filter((follower) => follower.name === name).length, presenter: presenter?.user ?? null,
    };
  }
}
