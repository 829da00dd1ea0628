/**
 * Messages about shared views: documents on the server that say what a page shows, which several pages follow.
 *
 * A document has fields (`docs/guide/shared-views.md`), kept here as they came: nanoseconds beyond 2^53 are texts of digits, see
 * `json.ts`. What the fields mean is `model/shared-fields.ts`.
 */
import { fields, flag, isFields, list, number, text, type Fields } from './json';

/** A shared view. */
export interface SharedDocument {
  readonly name: string;
  /** Empty for those who follow by it, or may not know it. */
  readonly readOnlyId: string;
  readonly revision: number;
  readonly fields: Fields;
}

/** A page that follows a shared view. */
export interface Watcher {
  readonly id: string;
  /** Empty for a visitor without a name. */
  readonly user: string;
  readonly presenter: boolean;
  readonly readOnly: boolean;
}

/** An entry of the list of shared views. */
export interface SharedEntry {
  readonly name: string;
  readonly title: string;
  readonly revision: number;
  readonly changedNs: number;
  readonly changedBy: string;
  readonly watchers: number;
  /** Null without a presenter; empty for one without a name. */
  readonly presenter: string | null;
}

/** A message about the shared view that this page follows. */
export type SharedMessage =
  | { readonly type: 'shared_view'; readonly document: SharedDocument; readonly you: string; readonly mayWrite: boolean; readonly whyNot: string }
  | { readonly type: 'shared_view_changed'; readonly name: string; readonly revision: number; readonly by: string; readonly fields: Fields }
  | { readonly type: 'shared_view_refused'; readonly name: string; readonly fields: readonly string[]; readonly text: string }
  | { readonly type: 'shared_view_gone'; readonly name: string }
  | { readonly type: 'watchers'; readonly name: string; readonly watchers: readonly Watcher[] };

/** Reads a document. Its title is one of its fields. */
export function readDocument(value: unknown): SharedDocument {
  const from = fields(value);
  return { name: text(from, 'name'), readOnlyId: text(from, 'read_only_id'), revision: number(from, 'revision'), fields: fields(from['fields']) };
}

/** Reads a message about a shared view, or null if it is another one. */
export function readSharedMessage(from: Fields): SharedMessage | null {
  const type = text(from, 'type');
  const name = text(from, 'name');
  switch (type) {
    case 'shared_view':
      return { type, document: readDocument(from['document']), you: text(from, 'you'), mayWrite: flag(from, 'may_write'), whyNot: text(from, 'why_not') };
    case 'shared_view_changed':
      return { type, name, revision: number(from, 'revision'), by: text(from, 'by'), fields: fields(from['fields']) };
    case 'shared_view_refused':
      return { type, name, fields: list(from, 'fields').filter((field) => typeof field === 'string'), text: text(from, 'text') };
    case 'shared_view_gone':
      return { type, name };
    case 'watchers':
      return { type, name, watchers: list(from, 'watchers').filter(isFields).map(readWatcher) };
    default:
      return null;
  }
}

function readWatcher(from: Fields): Watcher {
  return { id: text(from, 'id'), user: text(from, 'user'), presenter: flag(from, 'presenter'), readOnly: flag(from, 'read_only') };
}

/** Reads the list of shared views. */
export function readEntries(value: unknown): readonly SharedEntry[] {
  return list(fields(value), 'views').filter(isFields).map((from) => ({
    name: text(from, 'name'), title: text(from, 'title'), revision: number(from, 'revision'), changedNs: Number(from['changed_ns'] ?? 0),
    changedBy: text(from, 'changed_by'), watchers: number(from, 'watchers'),
    presenter: typeof from['presenter'] === 'string' ? from['presenter'] : null,
  }));
}
