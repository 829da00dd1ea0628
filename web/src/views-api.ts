/**
 * Requests about shared views that need no live connection: their list, a copy of one, saving and deleting.
 */
import { ask } from './api';
import { writeJson, type Fields } from './wire/json';
import { readDocument, readEntries, type SharedDocument, type SharedEntry } from './wire/shared-view';

const path = (name: string): string => `/api/views/${encodeURIComponent(name)}`;

/** Returns the shared views of this monitor. */
export async function fetchViews(): Promise<readonly SharedEntry[]> {
  return readEntries(await ask('/api/views'));
}

/** Returns one of them. */
export async function fetchView(name: string): Promise<SharedDocument> {
  return readDocument(await ask(path(name)));
}

/** Saves a view: a new one, or in place of the one with this revision. */
export async function saveView(name: string, fields: Fields, revision: number | null): Promise<void> {
  const body = writeJson({ fields });
  const condition = revision === null ? { 'if-none-match': '*' } : { 'if-match': `"${revision}"` };
  await ask(path(name), { method: 'PUT', headers: { 'content-type': 'application/json', ...condition }, body });
}

/** Deletes a view. */
export async function deleteView(name: string): Promise<void> {
  await ask(path(name), { method: 'DELETE' });
}
